"""The headers that say whose answer this is: on every answer, whatever becomes of the request."""

import re

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Guards, Key, Secret, Server, Settings
from tests.gateway.test_accept_guards import circling
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, question
from tests.support.tables import in_one_test

KEY = {"x-api-key": "k"}
clients = pytest.mark.parametrize("dialect", DIALECTS)
upstreams = pytest.mark.parametrize("upstream", DIALECTS)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def make(url: str) -> Settings:
    keys = (Key(key=Secret("env:K", "k")), Key(key=Secret("env:L", "l"), requests_per_minute=1))
    server = Server(port=0, keys=keys)
    return structs.replace(settings_for(url), server=server, guards=Guards(loops="stop"))


@pytest.fixture(scope="module")
def locked() -> Stand:
    with stand(make) as found:
        yield found


def identified(answer) -> bool:
    """Say whether an answer has its id, under both names."""
    request_id = answer.headers["request-id"]
    return (
        bool(re.fullmatch(r"req_\w{24}", request_id))
        and request_id == answer.headers["x-request-id"]
    )


@clients
@upstreams
@ways
def test_every_answer_names_its_upstream(
    locked: Stand, dialect: str, upstream: str, stream: bool
) -> None:
    body = question(dialect, f"{upstream}/plain", stream=stream)
    answers = [post(locked, dialect, body, headers=KEY) for _ in range(2)]
    theirs = [one.headers["x-upstream-request-id"] for one in answers]

    assert [200, 200] == [one.status_code for one in answers]
    assert all(map(identified, answers))
    assert 2 == len({one.headers["request-id"] for one in answers})
    assert [(upstream, "plain")] * 2 == [
        (one.headers["x-dragoman-route"], one.headers["x-upstream-model"]) for one in answers
    ]
    assert theirs == [theirs[0]] * 2  # the simulator's depends on the request alone
    assert theirs[0] not in [one.headers["request-id"] for one in answers]


@clients
@in_one_test
@upstreams
@pytest.mark.parametrize("fault", ["error:400", "error:429", "error:500", "error-200", "cut:0"])
def test_every_failure_names_its_upstream_too(
    locked: Stand, dialect: str, upstream: str, fault: str
) -> None:
    model = f"{upstream}/plain+{fault}"
    answer = post(locked, dialect, question(dialect, model), headers=KEY)

    assert answer.status_code >= 400
    assert identified(answer)
    assert upstream == answer.headers["x-dragoman-route"]
    assert f"plain+{fault}" == answer.headers["x-upstream-model"]
    if dialect == "anthropic":
        assert answer.headers["request-id"] == answer.json()["request_id"]


@clients
def test_every_refusal_is_identified(locked: Stand, dialect: str) -> None:
    other = {"x-api-key": "l"}
    refusals = [
        post(locked, dialect),  # without a key
        post(locked, dialect, b"{not json", headers=KEY),
        post(locked, dialect, b"{}", headers=KEY),
        post(locked, dialect, path="/v1/nothing", headers=KEY),
        post(locked, dialect, headers={**KEY, "origin": "https://evil.example"}),
        get(locked, "/v1/models/nobody", headers=KEY),
        get(locked, "/v1/responses/resp_nobody", headers=KEY),
        *(post(locked, dialect, headers=other) for _ in range(2)),
    ]

    assert all(one.status_code >= 400 for one in refusals[:-2])
    assert 429 == refusals[-1].status_code
    assert all(map(identified, refusals))
    # A refusal of a request that had a route names it, and no upstream: none was asked.
    assert "chat" == refusals[-1].headers["x-dragoman-route"]
    assert not any("x-dragoman-upstream" in one.headers for one in refusals[:-2])
    assert "x-dragoman-upstream" not in refusals[-1].headers


@clients
def test_refusal_by_a_guard_names_its_route(locked: Stand, dialect: str) -> None:
    answer = post(locked, dialect, circling(dialect, 6), headers=KEY)

    assert 400 == answer.status_code
    assert identified(answer)
    named = (answer.headers["x-dragoman-route"], answer.headers["x-upstream-model"])
    assert ("chat", "plain") == named


def test_no_answer_reveals_what_the_gateway_is_made_of(locked: Stand) -> None:
    paths = ("/", "/health", "/ready", "/v1/models", "/v1/nothing")
    answers = [get(locked, path, headers=KEY) for path in paths]
    answers += [post(locked, "chat", headers=KEY), post(locked, "chat", path="/health")]

    assert {"dragoman"} == {one.headers["server"] for one in answers}


def test_small_endpoints_are_identified(locked: Stand) -> None:
    asked = {"model": "chat/plain", "messages": [{"role": "user", "content": "a"}]}
    counted = post(locked, "anthropic", asked, path="/v1/messages/count_tokens", headers=KEY)
    listed = get(locked, "/v1/models", headers=KEY)

    assert identified(counted)
    assert identified(listed)
    named = (counted.headers["x-dragoman-route"], counted.headers["x-upstream-model"])
    assert ("chat", "plain") == named
    assert "x-dragoman-upstream" not in counted.headers  # the gateway estimated them


@ways
def test_warnings_name_what_could_not_be_carried(locked: Stand, stream: bool) -> None:
    whole = post(locked, "chat", question("chat", "chat/plain", stream=stream), headers=KEY)
    body = question("chat", "anthropic/plain", stream=stream, seed=5, logit_bias={"1": 1})
    lossy = post(locked, "chat", body, headers=KEY)
    codes = lossy.headers["x-dragoman-warnings"].split(",")

    assert "x-dragoman-warnings" not in whole.headers
    assert {"max_tokens_defaulted", "sampling_dropped"} <= {*codes}
    assert len(codes) == len({*codes})


@clients
@upstreams
def test_tokens_that_nobody_counted_are_marked(locked: Stand, dialect: str, upstream: str) -> None:
    tools = [WEATHER]
    counted = question(dialect, f"{upstream}/plain", stream=False, tools=tools)
    guessed = question(dialect, f"{upstream}/plain+no-usage", stream=False, tools=tools)
    answers = [post(locked, dialect, body, headers=KEY) for body in (counted, guessed)]
    marks = [one.headers.get("x-dragoman-usage") for one in answers]

    assert [200, 200] == [one.status_code for one in answers]
    field = "usageMetadata" if dialect == "gemini" else "usage"
    if dialect == upstream:
        assert not answers[1].json().get(field)
        assert [None, None] == marks
    else:
        assert any(answers[1].json()[field].values())
        assert [None, "estimated"] == marks
