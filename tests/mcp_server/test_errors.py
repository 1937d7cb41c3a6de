"""Failures of tools: the library's own errors, field for field."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from dragoman import Client, ClientError, decode_tools, request, user
from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from dragoman.turn.request import Request
from tests.support.client import text_of
from tests.support.mcp_talk import DIALECTS, WEATHER, Talk, run, said


async def failure(client: Client, asked: Request) -> ClientError:
    async with client:
        with pytest.raises(ClientError) as caught:
            await text_of(client, asked)
    return caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("quirk", ["error-in", "error-200", "no-finish", "half-call", "cut:900"])
def test_s_10_errors_inside_an_answer_map_one_to_one(dialect: str, quirk: str) -> None:
    story = 'sim: say One moment.\nsim: call get_weather {"city": "Rome"}'

    async def work(one: Talk) -> tuple[Any, ClientError]:
        model = f"plain+{quirk}"
        asked = {"messages": said(story), "tools": [WEATHER], "max_tokens": 500}
        found = await one.bad("chat", model=f"{dialect}/{model}", **asked)
        tools = decode_tools(json.dumps([WEATHER]).encode())
        asked = request(user(story), tools=tools, max_tokens=500, model=model)
        return found, await failure(Client(f"{one.simulator.url}/v1", dialect=dialect), asked)

    found, error = run(work)

    for name in ("stage", "kind", "status", "code", "retry_after", "message"):
        assert getattr(error, name) == found[name]
    assert found["request_id"].startswith("req_")  # the server's name for another request
    assert (error.received is None) == (found["received"] is None)
    if error.received is not None:
        assert error.received.text == found["received"]["text"]
        assert [(one.name, one.text, one.complete) for one in error.received.call_blocks] == [
            (one["name"], one["arguments"], one["complete"])
            for one in found["received"]["tool_calls"]
        ]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "bad_request"), (401, "auth"), (404, "not_found"), (429, "rate_limit")],
)
def test_s_10_refusals_map_one_to_one(dialect: str, status: int, kind: str) -> None:
    async def work(one: Talk) -> Any:
        model = f"{dialect}/plain+error:{status}+retry-after:7"
        return await one.bad("chat", model=model, messages=said("Hi"))

    found = run(work)

    assert ("ClientError", "http", kind, status, 7.0) == tuple(
        found[name] for name in ("error", "stage", "kind", "status", "retry_after")
    )
    assert found["request_id"].startswith("req_")


def test_a_broken_answer_reports_what_had_come() -> None:
    async def work(one: Talk) -> Any:
        story = "sim: say The beginning of a long answer that has no end."
        return await one.bad("chat", model="chat/plain+cut:900", messages=said(story))

    found = run(work)

    assert found["stage"] in ("http", "protocol")
    assert found["received"]["text"].startswith("The")
    assert None is found["received"]["finish"]


def test_an_upstream_that_is_not_there_is_reported_as_such() -> None:
    def nowhere(_url: str) -> Settings:
        return Settings(upstreams={"gone": Upstream(base_url="http://127.0.0.1:9/v1")})

    async def work(one: Talk) -> Any:
        return await one.bad("chat", model="m", messages=said("Hi"))

    assert "connect" == run(work, make=nowhere)["stage"]


@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("chat", {"messages": []}, "$.messages"),
        ("chat", {}, ""),
        ("chat", {"messages": [], "speed": 1}, ""),
        ("chat", {"messages": [{"role": "king"}], "model": "chat/plain"}, "$.messages[0]"),
        ("chat", {"messages": said("Hi"), "model": "chat/m", "tools": [{"a": 1}]}, "$.tools[0]"),
        ("chat", {"messages": [{"type": 5}], "model": "chat/m"}, "$.messages[0]"),
        ("parse_tool_calls", {"text": "", "tools": [{}, {"a": 1}]}, "$.tools["),
        ("parse_tool_calls", {"text": 5}, "$.text"),
        ("translate", {"what": "song", "from": "chat", "to": "chat", "text": ""}, "$.what"),
        ("translate", {"what": "request", "from": "chat", "to": "anthropic", "text": "{}"}, "$"),
        ("check_stream", {"dialect": "latin", "stream": ""}, "$.dialect"),
        ("list_models", {"all": True}, ""),
    ],
)
def test_wrong_arguments_are_reported_with_their_path(
    tool: str, arguments: dict[str, Any], path: str
) -> None:
    found = run(lambda one: one.bad(tool, **arguments))

    assert "MalformedError" == found["error"]
    assert found["path"].startswith(path)


def test_a_model_that_no_route_knows_is_refused() -> None:
    found = run(lambda one: one.bad("chat", model="unknown", messages=said("Hi")))

    assert ("ConfigError", "no route for the model `unknown`; `list_models` lists the models") == (
        found["error"],
        found["message"],
    )


def test_an_unknown_family_is_refused() -> None:
    assert (
        "ConfigError" == run(lambda one: one.bad("parse_tool_calls", text="", format="x"))["error"]
    )


def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    async def work(one: Talk) -> None:
        with pytest.raises(MCPError, match="no tool `rm`"):
            await one.call("rm")

    run(work)


def test_the_first_target_of_a_route_answers() -> None:
    def two(url: str) -> Settings:
        upstreams = {name: Upstream(base_url=f"{url}/v1") for name in ("one", "two")}
        route = Route(match=Match(model="claude-*"), to=("two/kimi-k2", "one/plain"))
        return Settings(upstreams=upstreams, routes=(route,))

    async def work(one: Talk) -> Any:
        return await one.good("chat", model="claude-opus", messages=said("Hi"))

    assert "kimi-k2" == run(work, make=two)["model"]
