"""Nothing of an exchange is part of a reference cycle: what it held is free at its end, without a collector."""

import gc
from collections.abc import Callable

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.toolcalls.formats import FORMATS
from dragoman.translate import Translator, translate_body
from dragoman.turn.events import Fault, FaultKind
from tests.support import requests, toolcalls
from tests.support.corpus import SEALER, corpus
from tests.support.quick import thinned


def left_by(work: Callable[[], object]) -> set[str]:
    """Return the types of ours that a collector would have to free after some work."""
    work()  # what is made once, and kept, is made here
    gc.collect()
    gc.disable()
    try:
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return {
            type(one).__qualname__
            for one in gc.garbage
            if type(one).__module__.partition(".")[0] == "dragoman"
        }
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_translated_streams_leave_no_cycle_wherever_they_stop(source: str) -> None:
    cases = [(case, case.exchange()) for case in thinned(corpus(source))]

    def work() -> None:
        for case, exchange in cases:
            for target in DIALECT_NAMES:
                for at in (len(case.stream) // 3, len(case.stream) * 2 // 3, len(case.stream)):
                    for end in (Translator.close, fail, str):
                        translator = Translator(
                            source=source,
                            target=target,
                            profile=exchange.profile,
                            request=exchange.request,
                            sealer=SEALER,
                            stop=("a stop",),
                        )
                        translator.feed(case.stream[:at])
                        end(translator)

    assert not left_by(work)


def fail(translator: Translator) -> bytes:
    return translator.fail(Fault(FaultKind.TIMEOUT, "late"))


@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_complete_answers_leave_no_cycle(source: str) -> None:
    cases = thinned(corpus(source))

    def work() -> None:
        for case in cases:
            for target in DIALECT_NAMES:
                translate_body(case.stream, source=source, target=target)

    assert not left_by(work)


def test_calls_in_text_leave_no_cycle_wherever_they_stop() -> None:
    cases = [case for family in FORMATS for case in thinned(toolcalls.corpus(family))]

    def work() -> None:
        for case in cases:
            text = case.whole
            for at in (len(text) // 2, len(text)):
                toolcalls.run(case.parser(), [text[:at]], cut=at < len(text))
                case.parser().feed(text[:at])

    assert not left_by(work)


def test_requests_leave_no_cycle() -> None:
    cases = requests.cases()

    def work() -> None:
        for case in cases:
            for target in DIALECT_NAMES:
                case.becomes(target)

    assert not left_by(work)
