"""The error that a program gets when there is no answer, or not all of one."""

import asyncio
import json

import pytest

from dragoman import Client, ClientError, Timeouts, request, tool, user
from dragoman.dialects import DIALECT_NAMES
from dragoman.simulator.server import Simulator
from tests.support.client import KEY, failure, text_of
from tests.support.peers import CHAT, http, sse


def test_an_error_holds_all_that_the_server_sent() -> None:
    said = json.dumps({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}})
    headers = "x-request-id: req_7\r\nretry-after: 2.5\r\n"
    answer = http(said.encode(), status="401 No", kind="application/json", headers=headers)
    error = failure(answer, stream=False, api_key=KEY)

    assert ("http", 401, "req_7", 2.5) == (
        error.stage,
        error.status,
        error.request_id,
        error.retry_after,
    )
    assert ("invalid_api_key", "auth", None) == (error.code, error.kind, error.received)
    assert "http: the server answers 401: bad key [redacted]" == str(error)
    assert 3 == error.exit_code


def test_an_error_inside_a_stream_keeps_the_status_and_id_of_the_answer() -> None:
    stream = sse(CHAT[0], {"error": {"message": f"no more {KEY}", "code": "server_error"}})
    error = failure(http(stream, headers="request-id: req_8\r\n"), api_key=KEY)

    assert ("http", 200, "req_8") == (error.stage, error.status, error.request_id)
    assert error.received is not None
    assert "Hel" == error.received.text
    assert KEY not in repr(error.received) + str(error)
    assert "no more [redacted]" in error.message


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
def test_the_path_is_reported_where_no_server_answers(status: str) -> None:
    error = failure(http(b"<h1>nginx</h1>", status=status, kind="text/html"))

    page = 'an HTML page ("nginx") instead of an API response; check `base_url`'
    assert f"answers {status[:3]} to /v1/chat/completions: {page}" in str(error)


WHOLE = {"name": "f", "arguments": '{"a": 1}'}


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "body"])
def test_what_had_come_is_reported_of_streams_and_of_bodies(streamed: bool) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": WHOLE}
    nameless = {"index": 1, "id": "c2", "type": "function", "function": {"arguments": "{}"}}
    delta = {"content": "Let me see.", "tool_calls": [call, nameless]}
    whole = {"id": "c1", "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls"}]}
    whole["choices"][0]["delta" if streamed else "message"] = delta
    headers = "x-request-id: req_9\r\nretry-after: 4\r\n"
    kind = "text/event-stream" if streamed else "application/json"
    data = sse(whole) if streamed else json.dumps(whole).encode()
    error = failure(http(data, kind=kind, headers=headers), stream=streamed)

    assert ("protocol", "call_without_name") == (error.stage, error.code)
    assert (200, "req_9", 4.0) == (error.status, error.request_id, error.retry_after)
    assert error.received is not None
    assert "Let me see." == error.received.text
    assert [("f", '{"a": 1}', False)] == [  # its end had not come
        (one.name, one.text, one.complete) for one in error.received.call_blocks
    ]
    assert error.received.finish is None
    assert error.received.fault is not None
    assert "call_without_name" == error.received.fault.code


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "body"])
def test_where_nothing_had_come_nothing_is_reported(streamed: bool) -> None:
    said = json.dumps({"error": {"message": f"{KEY} has no more", "code": "quota"}}).encode()
    error = failure(http(said), stream=streamed, api_key=KEY)

    assert ("http", "quota", None) == (error.stage, error.code, error.received)
    assert "[redacted] has no more" in error.message


def test_a_server_s_retry_after_is_reported_with_a_redirect_too() -> None:
    answer = http(status="307 Elsewhere", headers="location: /v2\r\nretry-after-ms: 1500\r\n")

    assert 1.5 == failure(answer).retry_after


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("quirk", "stage", "code"),
    [
        ("error:429+retry-after:3", "http", None),
        ("error-in", "http", None),
        ("error-200", "http", None),
        ("no-finish", "protocol", "upstream_truncated"),
        ("half-call", "protocol", "upstream_truncated"),
        ("cut:700", "http", "upstream_truncated"),
        ("reset:700", "http", "upstream_truncated"),
        ("stall:700", "timeout", "idle_timeout"),
        ("slow:5000", "timeout", "first_byte_timeout"),
        ("garbage", "json", "upstream_malformed"),
    ],
)
def test_each_failure_has_its_stage_in_every_dialect(
    dialect: str, quirk: str, stage: str, code: str | None
) -> None:
    async def run() -> ClientError:
        asked = request(
            user("What is the weather?"),
            tools=[tool("get_weather", description="tells", schema={"type": "object"})],
            model=f"sim/plain+args:1+{quirk}",
            max_tokens=5000,
        )
        # Clocks that run out only where that is what the test waits for.
        timeouts = {
            "idle_timeout": Timeouts(idle=0.5),
            "first_byte_timeout": Timeouts(first_byte=0.5),
        }
        clocks = timeouts.get(code or "", Timeouts())
        async with Simulator() as sim:
            strict = quirk == "garbage"
            client = Client(f"{sim.url}/v1", dialect=dialect, timeouts=clocks, strict=strict)
            async with client:
                with pytest.raises(ClientError) as caught:
                    await text_of(client, asked)
        return caught.value

    error = asyncio.run(run())

    assert stage == error.stage
    assert code in (None, error.code)
