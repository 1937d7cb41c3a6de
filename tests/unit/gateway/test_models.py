"""The list of models, in one shape that both families of SDKs read."""

from typing import Any

import msgspec
import pytest

from dragoman.gateway.config.settings import ModelFacts
from dragoman.gateway.models import find_model, model_list
from dragoman.gateway.routing import Listed
from dragoman.turn.events import Fault, FaultKind

MODELS = tuple(
    Listed(name=name, owner="local", facts=facts)
    for name, facts in [
        ("claude-opus-4", ModelFacts(display="Opus", context=200_000, output=32_000)),
        ("kimi/k2", ModelFacts()),
        ("c", ModelFacts()),
        ("d", ModelFacts()),
        ("e", ModelFacts()),
    ]
)


def page(**query: str) -> Any:
    body = model_list(MODELS, query, created=1_800_000_000)

    assert isinstance(body, bytes), body
    return msgspec.json.decode(body)


def refused(outcome: bytes | Fault) -> Fault:
    assert isinstance(outcome, Fault)
    return outcome


def test_a_model_has_the_fields_of_both_families() -> None:
    listed = page()

    assert ("list", False, "claude-opus-4", "e") == (
        listed["object"],
        listed["has_more"],
        listed["first_id"],
        listed["last_id"],
    )
    assert {
        "id": "claude-opus-4",
        "object": "model",
        "type": "model",
        "created": 1_800_000_000,
        "created_at": "2027-01-15T08:00:00Z",
        "owned_by": "local",
        "display_name": "Opus",
        "max_input_tokens": 200_000,
        "max_tokens": 32_000,
        "lifecycle": "active",
    } == listed["data"][0]
    assert ("kimi/k2", None, None) == (
        listed["data"][1]["display_name"],
        listed["data"][1]["max_input_tokens"],
        listed["data"][1]["max_tokens"],
    )


@pytest.mark.parametrize(
    ("query", "ids", "more"),
    [
        ({}, "abcde", False),
        ({"limit": "2"}, "ab", True),
        ({"limit": "5"}, "abcde", False),
        ({"limit": "99999"}, "abcde", False),
        ({"after_id": "b", "limit": "2"}, "cd", True),
        ({"after_id": "d", "limit": "2"}, "e", False),
        ({"after_id": "e"}, "", False),
        ({"before_id": "d", "limit": "2"}, "bc", True),
        ({"before_id": "c", "limit": "2"}, "ab", False),
        ({"before_id": "a"}, "", False),
    ],
)
def test_pages_are_cut_as_asked(query: dict[str, str], ids: str, more: bool) -> None:
    models = [Listed(name=name, owner="o") for name in "abcde"]
    body = model_list(models, query)

    assert isinstance(body, bytes)
    cut = msgspec.json.decode(body)
    assert list(ids) == [one["id"] for one in cut["data"]]
    assert more == cut["has_more"]
    assert (ids[:1] or None, ids[-1:] or None) == (cut["first_id"], cut["last_id"])


def test_pages_one_after_another_are_the_whole_list() -> None:
    models = [Listed(name=f"m{n}", owner="o") for n in range(23)]
    seen: list[str] = []
    query = {"limit": "5"}
    while True:
        body = model_list(models, query)
        assert isinstance(body, bytes)
        cut = msgspec.json.decode(body)
        seen += [one["id"] for one in cut["data"]]
        if not cut["has_more"]:
            break
        query = {"limit": "5", "after_id": cut["last_id"]}

    assert [one.name for one in models] == seen


def test_an_empty_list_is_a_list() -> None:
    body = model_list((), {})

    assert isinstance(body, bytes)
    assert {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    } == msgspec.json.decode(body)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "two"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"limit": "9" * 10_000}, "limit"),
        ({"after_id": "zzz"}, "after_id"),
        ({"before_id": "zzz" * 10_000}, "before_id"),
        ({"after_id": "c", "before_id": "d"}, "before_id"),
    ],
)
def test_what_cannot_be_cut_is_refused(query: dict[str, str], param: str) -> None:
    fault = refused(model_list(MODELS, query))

    assert (FaultKind.BAD_REQUEST, param) == (fault.kind, fault.param)
    assert len(fault.message) < 400


def test_codex_is_left_to_what_it_knows_itself() -> None:
    fault = refused(model_list(MODELS, {"client_version": "0.166.0"}))

    assert (FaultKind.NOT_FOUND, 404) == (fault.kind, fault.status)


@pytest.mark.parametrize("name", ["claude-opus-4", "Claude-Opus-4", "kimi/k2"])
def test_one_model_is_found_by_its_name(name: str) -> None:
    body = find_model(MODELS, name, created=5)

    assert isinstance(body, bytes)
    found = msgspec.json.decode(body)
    assert (name.lower(), 5) == (found["id"], found["created"])


def test_a_model_that_is_not_there_is_not_found() -> None:
    fault = refused(find_model(MODELS, "gpt-" + "5" * 10_000))

    assert (FaultKind.NOT_FOUND, 404, "model") == (fault.kind, fault.status, fault.param)
    assert "GET /v1/models" in fault.message
    assert len(fault.message) < 400


def test_the_official_sdks_read_the_list() -> None:
    from anthropic.types import ModelInfo
    from openai.types import Model

    for one in page()["data"]:
        assert one["id"] == ModelInfo.model_validate(one).id
        assert one["id"] == Model.model_validate(one).id
