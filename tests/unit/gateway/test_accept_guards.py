"""Repeated calls: what the gateway adds to a request, and how it refuses one."""

import pytest

from dragoman.context import Target
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.gateway.accept import loop_fault, with_note
from dragoman.profiles import profile
from dragoman.turn.events import FaultKind
from dragoman.turn.repeats import Loop
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

STEP = (
    Turn(ASSISTANT, (ToolCallPart("c", "T", "{}"),)),
    Turn(USER, (ToolResultPart("c", (TextPart("ok"),)),)),
)


def request_of(*turns: Turn) -> Request:
    return Request(
        dialect="anthropic", model="m", turns=(Turn(USER, (TextPart("Do it."),)), *turns)
    )


def test_h6_the_note_is_behind_the_results_and_changes_nothing_before() -> None:
    request = request_of(*STEP * 5)

    noted = with_note(request, Loop(("T",), 5))

    assert request.turns[:-1] == noted.turns[:-1]
    assert request.turns[-1].parts == noted.turns[-1].parts[:-1]
    note = noted.turns[-1].parts[-1]
    assert isinstance(note, TextPart)
    assert "`T` was called 5 times in a row" in note.text


def test_h6_the_note_follows_an_instruction_that_comes_last() -> None:
    request = request_of(*STEP, Turn(SYSTEM, (TextPart("Remember."),)))

    noted = with_note(request, Loop(("T", "U"), 5))

    assert request.turns == noted.turns[:-1]
    assert USER is noted.turns[-1].role


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_h6_every_dialect_can_carry_the_note_and_keeps_its_prefix(name: str) -> None:
    request = request_of(*STEP * 5)
    target = Target(profile=profile("generic"), model="m")
    encode = dialect(name).encode_request
    plain = encode(request, target).body
    noted = encode(with_note(request, Loop(("T",), 5)), target).body

    at = noted.index(b"Note from the gateway")
    before = noted[:at].rindex(b'"ok"') + 4
    assert plain[:before] == noted[:before]


def test_h6_a_loop_is_refused_as_the_clients_mistake() -> None:
    fault = loop_fault(Loop(("Read", "Bash"), 7))

    assert (FaultKind.BAD_REQUEST, 400, "tool_loop") == (fault.kind, fault.status, fault.code)
    assert "the tools `Read`, `Bash` were called in the same order 7 times" in fault.message
    assert "[guards]" in fault.message


def test_h6_a_refusal_stays_short_whatever_tools_are_called() -> None:
    fault = loop_fault(Loop(tuple("x" * 1000 for _ in range(100)), 7))

    assert len(fault.message) < 1500
