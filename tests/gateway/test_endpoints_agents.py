"""What coding agents send beside plain requests, and what they need in return."""

import gzip
import json
import zlib
from typing import Any

import httpx2
import pytest

from tests.support.asking import get, post
from tests.support.gateway import FIXED_PATHS, PATHS, Stand
from tests.support.received import received
from tests.support.simulator import WEATHER, declared, question

try:
    from compression import zstd
except ImportError:
    from backports import zstd

upstreams = pytest.mark.parametrize("upstream", FIXED_PATHS)


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    lines = (line for line in answer.text.splitlines() if line.startswith("data: {"))
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# --- Codex ------------------------------------------------------------------------------------------


def of_codex(model: str) -> dict[str, Any]:
    """Return a request as Codex makes it."""
    inner = {**WEATHER, "name": "spawn_agent", "description": "Starts another agent."}
    return {
        "model": model,
        "input": [
            {
                "type": "message",
                "role": "developer",
                "id": "msg_0193",
                "content": [{"type": "input_text", "text": "Mind the sandbox."}],
            },
            {
                "type": "message",
                "role": "user",
                "id": "msg_0194",
                "content": [{"type": "input_text", "text": "Use collaboration__spawn_agent."}],
            },
        ],
        "tools": [
            declared("responses", {**WEATHER, "name": "exec_command"}),
            {
                "type": "namespace",
                "name": "collaboration",
                "description": "Other agents.",
                "tools": [declared("responses", inner)],
            },
            {"type": "web_search", "external_web_access": False},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0193",
        "client_metadata": {"x-codex-installation-id": "0193"},
    }


@upstreams
def test_codex_calls_a_tool_of_a_namespace_and_goes_on(gateway: Stand, upstream: str) -> None:
    body = of_codex(f"{upstream}/plain")
    first = post(gateway, "responses", zipped("zstd", body), headers={"content-encoding": "zstd"})
    items = [one["item"] for one in events(first) if one["type"] == "response.output_item.done"]
    (call,) = (item for item in items if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done it"}
    # Codex sends reasoning back with `content: null`.
    echoed = [{**item, "content": None} if item["type"] == "reasoning" else item for item in items]
    body["input"] += [*echoed, {**result, "id": "fco_0195"}]
    last = post(gateway, "responses", body)
    history = received(gateway.simulator.exchanges[-1])

    assert (200, 200) == (first.status_code, last.status_code)
    assert ("spawn_agent", "collaboration") == (call["name"], call["namespace"])
    assert "completed" == events(last)[-1]["response"]["status"]
    assert events(last)[-1]["response"]["usage"]["total_tokens"] > 0
    assert "done it" in json.dumps(events(last)[-1]["response"]["output"])
    assert [call["call_id"]] == history.ids
    assert ((call["call_id"], "done it"),) == history.results


def zipped(encoding: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    match encoding:
        case "zstd":
            return zstd.compress(data)
        case "gzip":
            return gzip.compress(data)
        case "deflate":
            return zlib.compress(data)
    return data


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "deflate", "identity"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_packed_bodies_are_unpacked(gateway: Stand, dialect: str, encoding: str) -> None:
    body = zipped(encoding, question(dialect, "chat/plain", stream=False))
    answer = post(gateway, dialect, body, headers={"content-encoding": encoding})

    assert 200 == answer.status_code


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_packing_that_is_unknown_or_broken_is_reported(gateway: Stand, dialect: str) -> None:
    body = zipped("gzip", question(dialect, "chat/plain"))
    unknown = post(gateway, dialect, body, headers={"content-encoding": "br"})
    broken = post(gateway, dialect, b"no gzip at all", headers={"content-encoding": "gzip"})

    assert (415, 400) == (unknown.status_code, broken.status_code)
    assert "gzip" in unknown.json()["error"]["message"]
    assert "invalid_request_error" == unknown.json()["error"]["type"]


def test_codex_gets_no_list_of_models(gateway: Stand) -> None:
    answer = get(gateway, "/v1/models?client_version=0.166.0")

    assert 404 == answer.status_code


def test_websockets_are_refused_in_words(gateway: Stand) -> None:
    wishes = {"connection": "upgrade", "upgrade": "websocket"}
    answer = get(gateway, "/v1/responses", headers=wishes)

    assert 426 == answer.status_code
    assert "WebSocket" in answer.json()["error"]["message"]


# --- Claude Code ------------------------------------------------------------------------------------


def of_claude_code(model: str) -> dict[str, Any]:
    """Return a request as Claude Code makes it for a model that it does not know."""
    return {
        "model": model,
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=af31;"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "How is it in Ulm?"}]},
            {"role": "system", "content": "Tools may be slow today."},
        ],
        "tools": [
            {**declared("anthropic", WEATHER), "eager_input_streaming": True},
        ],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "medium"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
        "stream": True,
    }


BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24"


@upstreams
def test_claude_code_is_served_with_its_query_and_a_system_message_between(
    gateway: Stand, upstream: str
) -> None:
    headers = {"x-api-key": "x", "authorization": "Bearer x", "anthropic-beta": BETAS}
    answer = post(
        gateway,
        "anthropic",
        of_claude_code(f"{upstream}/plain"),
        path="/v1/messages?beta=true",
        headers=headers,
    )
    seen = events(answer)
    exchange = gateway.simulator.exchanges[-1]

    assert 200 == answer.status_code
    assert "message_start" == seen[0]["type"]
    assert seen[0]["message"]["id"].startswith("msg_")
    assert "tool_use" in [one["content_block"]["type"] for one in seen if "content_block" in one]
    assert ["message_delta", "message_stop"] == [one["type"] for one in seen[-2:]]
    assert b"Tools may be slow today." in exchange.body
    assert b"How is it in Ulm?" in exchange.body
    assert b"cch=" not in exchange.body
    # Betas are words of one dialect.
    assert (BETAS if upstream == "anthropic" else None) == exchange.headers.get("anthropic-beta")


@upstreams
def test_claude_codes_instructions_between_messages_reach_servers_that_take_none(
    gateway: Stand, upstream: str
) -> None:
    answer = post(gateway, "anthropic", of_claude_code(f"{upstream}/plain"))
    body = gateway.simulator.exchanges[-1].json
    history = body["input" if upstream == "responses" else "messages"]

    assert "system_midturn_emulated" in answer.headers["x-dragoman-warnings"].split(",")
    assert "<system-reminder>\nTools may be slow today.\n</system-reminder>" in str(
        history
    ).replace("\\n", "\n")
    assert "system" not in [one["role"] for one in history[1:]]


def test_claude_code_probes_and_reports_on_the_side(gateway: Stand) -> None:
    before = len(gateway.simulator.exchanges)
    probe = httpx2.head(gateway.url)
    report = httpx2.post(f"{gateway.url}/api/event_logging/batch", json={"events": [{"a": 1}]})
    counted = post(
        gateway,
        "anthropic",
        {"model": "chat/plain", "messages": [{"role": "user", "content": "a"}]},
        path="/v1/messages/count_tokens?beta=true",
    )

    assert (200, 200, 200) == (probe.status_code, report.status_code, counted.status_code)
    assert before == len(gateway.simulator.exchanges)


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_unknown_paths_are_reported_in_a_dialect_with_what_there_is(
    gateway: Stand, dialect: str
) -> None:
    headers = {"anthropic-version": "2023-06-01"} if dialect == "anthropic" else {}
    answer = post(gateway, dialect, {}, path=f"{PATHS[dialect]}/nothing/here", headers=headers)

    assert 404 == answer.status_code
    assert "/v1/messages" in answer.json()["error"]["message"]
    assert ("type" in answer.json()) == (dialect == "anthropic")
