"""Requests of the client as servers get them: URLs that name the model, and headers that a body needs."""

import json

import pytest

from dragoman.client.messages import request, tool, user
from dragoman.client.sync_client import SyncClient
from dragoman.turn.request import Tool
from dragoman.turn.server_tools import McpServer, ServerKind, ServerOptions
from tests.support.loops import Played
from tests.support.odd_upstream import SSE, Reply, odd_upstream

LOOK = tool("look", description="Look.", schema={"properties": {"city": {"type": "string"}}})
CALLED = (
    b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":{"city":"Rome"},'
    b'"id":"k1"},"thoughtSignature":"U0lH"}],"role":"model"},"finishReason":"STOP"}],'
    b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5}}'
)


def test_the_url_names_the_model_and_whether_the_answer_streams():
    with odd_upstream() as upstream:
        base = f"{upstream.url.removesuffix('/v1')}/v1beta"
        with SyncClient(base, dialect="gemini", model="gemini-3-pro", api_key="k") as client:
            upstream.answer = lambda _asked: Reply(200, b"data: %b\r\n\r\n" % CALLED, SSE)
            with client.stream(request(user("Hi"), tools=[LOOK])) as stream:
                for _ in stream:
                    pass
                streamed = stream.answer()
            upstream.answer = lambda _asked: Reply(200, CALLED)
            whole = client.create(request(user("Hi"), tools=[LOOK]))
    first, second = upstream.asked

    assert "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse" == first.path
    assert "/v1beta/models/gemini-3-pro:generateContent" == second.path
    assert "k" == first.headers["x-goog-api-key"]
    assert {"contents", "tools"} == set(json.loads(first.body))
    assert [{"city": "Rome"}] == [call.args for call in streamed.tool_calls]
    assert streamed.tool_calls == whole.tool_calls


NOTES = Tool(
    name="notes",
    server=True,
    kind="mcp",
    does=ServerKind.MCP,
    server_options=ServerOptions(servers=(McpServer(name="notes", url="https://mcp.example"),)),
)
BETA = "mcp-client-2025-11-20"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("own", "sent"),
    [({}, BETA), ({"anthropic-beta": "a-b"}, f"a-b,{BETA}"), ({"anthropic-beta": BETA}, BETA)],
    ids=["none", "another", "the same"],
)
def test_anthropic_gets_the_header_of_its_beta_with_mcp_servers(
    server: Played, own: dict[str, str], sent: str, stream: bool
) -> None:
    with SyncClient(
        server.url, dialect="anthropic", profile="anthropic", model="plain", headers=own
    ) as client:
        asked = request(user("What do my notes contain?"), tools=[NOTES], max_tokens=900)
        if stream:
            with client.stream(asked) as events:
                for _ in events:
                    pass
                answer = events.answer()
        else:
            answer = client.create(asked)
        client.create(request(user("Hi"), max_tokens=900))
    declared, plain = server.simulator.exchanges

    assert "list_notes of notes returned 3 notes." in [
        getattr(one.server, "output", "") for one in answer.blocks
    ]
    assert sent == declared.headers["anthropic-beta"]
    assert own.get("anthropic-beta") == plain.headers.get("anthropic-beta")
