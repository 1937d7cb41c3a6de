"""The judge of streams against the vendors' SDKs: it is never milder than they are."""

import warnings

import pytest

from dragoman.checker.checker import Ending, check
from dragoman.dialects import DIALECT_NAMES
from tests.support.checker import (
    doubled,
    judge,
    removed,
    render,
    renumbered,
    swapped,
    without_fields,
)
from tests.support.sdks import accumulate
from tests.unit.checker import test_anthropic as anthropic
from tests.unit.checker import test_chat as chat
from tests.unit.checker import test_gemini as gemini
from tests.unit.checker import test_responses as responses

GRAMMARS = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}

# Legal answers that the stream helper cannot give whole: it raises for an answer cut by its length, and
# does not know custom calls.
NOT_FOR_THE_HELPER = {("chat", "call cut by the limit"), ("chat", "custom call")}

FINISHED = [
    pytest.param(name, events, id=f"{name}: {title}")
    for name, tests in GRAMMARS.items()
    for title, events in tests.LEGAL_STREAMS.items()
    if judge(name, events).ended is Ending.FINISH and (name, title) not in NOT_FOR_THE_HELPER
]


def reads(name, stream):
    """Say whether the SDK reads a stream to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's models, about fields of another shape
        try:
            accumulate(name, stream)
        except Exception:  # noqa: BLE001 -- whatever the SDK does when it cannot go on
            return False
    return True


@pytest.mark.parametrize(("name", "events"), FINISHED)
def test_sdk_reads_every_stream_that_is_judged_legal(name, events):
    assert reads(name, render(name, events))


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a8b_every_stream_that_the_sdk_cannot_read_is_judged_illegal(name):
    legal = illegal = 0
    for events in GRAMMARS[name].SPOILED:
        if judge(name, events).ended is not Ending.FINISH:
            continue
        spoiled = [one for mutate in (removed, doubled, swapped) for _, one in mutate(events)]
        spoiled += [one for _, _, one in without_fields(events)]
        for one in spoiled:
            stream = render(name, renumbered(one) if name == "responses" else one)
            if check(name, stream).legal:  # the same claim, and the SDK reads the few that are left
                legal += 1
                assert reads(name, stream)
            else:
                illegal += 1

    assert legal > 0
    assert illegal > 40
