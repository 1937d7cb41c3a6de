"""Every corpus case, however its bytes arrive and wherever they stop."""

import pytest

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.exchange_setup import read_whole
from dragoman.turn.answer import fold, merged
from dragoman.turn.events import Finish
from dragoman.turn.losses import Loss
from dragoman.turn.state import Legality
from tests.support.corpus import Case, corpus, drive, places, splits

CASES = [case for name in DIALECT_NAMES for case in corpus(name)]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_every_dialect_has_cases(name: str) -> None:
    assert len(corpus(name)) >= 10


@each_case
def test_case_gives_the_same_events_however_the_bytes_arrive(case: Case) -> None:
    expected = case.events

    for pieces in splits(case.stream):
        assert expected == merged(drive(case.reader(), pieces))


@each_case
def test_oddity_transformers_serve_streams_unasked_and_is_read_as_a_body(case: Case) -> None:
    exchange = case.exchange()
    events = read_whole(case.stream, dialect(case.dialect).frame_reader(exchange), exchange)

    # A body in the place of a stream is reported only if the request asked for a stream.
    assert [one for one in case.events if one != Loss("stream_not_sse")] == merged(events)


@each_case
def test_case_gives_a_legal_stream(case: Case) -> None:
    legality = Legality()

    for event in drive(case.reader(), [case.stream]):
        legality.check(event)
    assert legality.state == "ended"


@each_case
def test_case_with_its_end_missing_is_reported_as_cut_or_is_the_same_turn(case: Case) -> None:
    whole = fold(case.events)

    for at in places(case.stream):
        events = drive(case.reader(), [case.stream[:at]])
        answer = fold(events)
        if answer.finish is not None:
            assert whole.finish == answer.finish
            assert whole.blocks == answer.blocks
        else:
            assert not any(isinstance(event, Finish) for event in events)


@each_case
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_case_renders_as_pinned(case: Case, target: str) -> None:
    pinned = case.folder / "as" / f"{target}.sse"
    writer = dialect(target).writer(case.exchange(target))

    out = b"".join(writer.send(event) for event in drive(case.reader(), [case.stream]))

    assert out.endswith(b"\n\n")
    if pinned.exists():
        assert pinned.read_bytes().decode() == out.decode()
