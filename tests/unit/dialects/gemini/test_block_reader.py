"""Arguments in pieces: which call they belong to, when they are emitted, what becomes of damaged ones."""

from typing import Any

import pytest

from dragoman.turn.events import ArgsDelta, BlockEnd, BlockStart, Event, Fault, Opaque
from dragoman.turn.losses import Loss
from tests.unit.dialects.gemini.support import read

END = {"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]}


def piece(path: str, text: str) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text}


def chunk(signature: str = "", **call: Any) -> dict[str, Any]:
    part = {"functionCall": call} | ({"thoughtSignature": signature} if signature else {})
    return {"candidates": [{"content": {"parts": [part]}}]}


def begun(signature: str = "U0lH", **more: Any) -> dict[str, Any]:
    return chunk(signature, name="f", id="k", willContinue=True, **more)


def more(path: str, text: str, **call: Any) -> dict[str, Any]:
    return chunk(partialArgs=[piece(path, text)], **({"willContinue": True} | call))


def arguments(events: list[Event]) -> list[str]:
    return [one.json for one in events if isinstance(one, ArgsDelta)]


def codes(events: list[Event]) -> list[str]:
    return [one.code for one in events if isinstance(one, Loss)]


def complete(events: list[Event]) -> list[bool]:
    calls = {one.index for one in events if isinstance(one, BlockStart) and one.name}
    return [one.complete for one in events if isinstance(one, BlockEnd) and one.index in calls]


def test_the_arguments_of_a_signed_call_are_emitted_as_they_come() -> None:
    events = read(begun(), more("$.a", "x"), more("$.a", "y"), more("$.b", "z"), chunk(), END)

    assert ['{"a":"x', "y", '","b":"z', '"', "}"] == arguments(events)
    assert [True] == complete(events)


def test_a_first_call_without_a_signature_waits_for_one_that_follows() -> None:
    signed = {"candidates": [{"content": {"parts": [{"thoughtSignature": "U0lH"}]}}]}
    events = read(begun(""), more("$.a", "x"), more("$.a", "y", willContinue=False), signed, END)
    kinds = [type(one) for one in events if isinstance(one, Opaque | ArgsDelta)]

    assert '{"a":"xy"}' == "".join(arguments(events))
    assert ArgsDelta in kinds


def test_a_later_call_does_not_wait() -> None:
    other = chunk(name="g", id="l", willContinue=True, partialArgs=[piece("$.b", "x")])
    events = read(begun(), chunk(), other, more("$.b", "y"), chunk(), END)

    assert ["{", "}", '{"b":"x', "y", '"', "}"] == arguments(events)


def test_a_signature_may_come_with_any_piece() -> None:
    late = chunk("U0lH", partialArgs=[piece("$.a", "y")], willContinue=True)
    events = read(begun(""), more("$.a", "x"), late, chunk(), END)
    found = [one for one in events if isinstance(one, Opaque | ArgsDelta)]

    assert isinstance(found[0], Opaque)
    assert ['{"a":"xy', '"', "}"] == arguments(events)


@pytest.mark.parametrize("again", [{"id": "k"}, {"name": "f", "id": "k"}, {"name": "f"}, {}])
def test_name_and_id_may_be_repeated(again: dict[str, str]) -> None:
    events = read(begun(), more("$.a", "x", **again), more("$.a", "y", **again), chunk(), END)

    assert [True] == complete(events)
    assert '{"a":"xy"}' == "".join(arguments(events))


def test_another_call_ends_the_one_before() -> None:
    events = read(begun(), more("$.a", "x"), chunk(name="f", id="l", args={"a": "y"}), END)

    assert ["k", "l"] == [one.call_id for one in events if isinstance(one, BlockStart)]
    assert [True, True] == complete(events)


def test_arguments_that_come_whole_are_the_first_pieces() -> None:
    first = begun(args={"it's": [1]}, partialArgs=[piece("$.b", "x")])
    events = read(first, chunk(), END)

    assert '{"it\'s":[1],"b":"x"}' == "".join(arguments(events))


def test_a_call_that_lacks_a_piece_cannot_be_run() -> None:
    events = read(begun(), more("$.a", "x"), more("a[", "lost"), more("$.c", "y"), chunk(), END)

    assert [False] == complete(events)
    assert "chunk_malformed" in codes(events)


def test_a_call_whose_pieces_contradict_each_other_cannot_be_run() -> None:
    events = read(begun(), more("$.a", "x"), more("$.b", "y"), more("$.a.c", "z"), chunk(), END)

    assert [False] == complete(events)
    assert "chunk_malformed" in codes(events)


def test_pieces_out_of_order_are_reported() -> None:
    events = read(begun(), more("$.a", "x"), more("$.b", "y"), more("$.a", "z"), chunk(), END)

    assert '{"a":"x","b":"y","a":"xz"}' == "".join(arguments(events))
    assert ["args_repaired"] == [one for one in codes(events) if one.startswith("args")]
    assert [True] == complete(events)


def test_a_stream_that_ends_between_two_pieces_is_truncated() -> None:
    events = read(begun(), more("$.a", "x"))

    assert isinstance(events[-1], Fault)
    assert "inside a tool call" in events[-1].message
    assert [] == complete(events)
