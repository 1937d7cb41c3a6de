"""Answers that end early: at a stop sequence, at the token limit, inside a call."""

import pytest

from dragoman.simulator import truncation
from dragoman.simulator.play import Reply, SimulatedCall

CALL = SimulatedCall(name="f", arguments='{"city": "Oslo"}', id="c")
REPLY = Reply(reasoning="A thought of some length.", text="It rains in Oslo.", calls=(CALL,))


def test_the_text_ends_before_the_first_stop_sequence() -> None:
    found = truncation.at_stop(REPLY, ("", "Oslo", " in "))

    assert ("It rains", " in ", "stop_sequence") == (found.text, found.stop_sequence, found.finish)
    assert () == found.calls
    assert REPLY is truncation.at_stop(REPLY, ("Bergen",))


@pytest.mark.parametrize("limit", range(1, REPLY.output_tokens))
def test_no_more_tokens_are_written_than_allowed(limit: int) -> None:
    found = truncation.to_tokens(REPLY, limit)

    assert found.output_tokens <= limit
    assert "length" == found.finish
    assert REPLY.text.startswith(found.text)
    assert all(not call.complete for call in found.calls if call.arguments != CALL.arguments)


def test_an_answer_within_its_limit_is_whole() -> None:
    assert REPLY is truncation.to_tokens(REPLY, REPLY.output_tokens)
    assert REPLY is truncation.to_tokens(REPLY, None)


def test_an_answer_ends_inside_its_last_call_or_its_text() -> None:
    (cut,) = truncation.inside_call(REPLY).calls

    assert not cut.complete
    assert CALL.arguments.startswith(cut.arguments)
    text = truncation.inside_text(REPLY)
    assert ((), "It rains") == (text.calls, text.text)
    assert "" == truncation.inside_first(REPLY).text
