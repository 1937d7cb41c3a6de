"""Requests of the client to a server whose URLs name the model."""

import json

from dragoman.client.messages import request, tool, user
from dragoman.client.sync_client import SyncClient
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
