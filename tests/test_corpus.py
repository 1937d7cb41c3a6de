"""Every corpus case, however its bytes arrive and wherever they stop."""

import pytest

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.exchange_setup import read_whole
from dragoman.turn.answer import fold, merged
from dragoman.turn.events import Finish
from dragoman.turn.losses import Loss
from dragoman.turn.state import Legality
from tests.support.corpus import Case, corpus, drive, for_client, places, splits
from tests.support.tables import check_all

each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)
# The tests that cut every case at hundreds of places; several tests, because one would keep one process busy for long.
PARTS = 8
each_part = pytest.mark.parametrize("part", range(PARTS))


def every_case() -> list[Case]:
    return [case for name in DIALECT_NAMES for case in corpus(name)]


@each_dialect
def test_every_dialect_has_cases(name: str) -> None:
    assert len(corpus(name)) >= 10


@each_part
def test_cases_give_the_same_events_however_the_bytes_arrive(part: int) -> None:
    check_all(every_case()[part::PARTS], _gives_the_same_events)


def _gives_the_same_events(case: Case) -> None:
    expected = case.events

    for pieces in splits(case.stream):
        assert expected == merged(drive(case.reader(), pieces))


@each_dialect
def test_oddity_transformers_serve_streams_unasked_and_is_read_as_a_body(name: str) -> None:
    check_all(corpus(name), _is_read_as_a_body)


def _is_read_as_a_body(case: Case) -> None:
    exchange = case.exchange()
    events = read_whole(case.stream, dialect(case.dialect).frame_reader(exchange), exchange)

    # A body in the place of a stream is reported only if the request asked for a stream.
    assert [one for one in case.events if one != Loss("stream_not_sse")] == merged(events)


@each_dialect
def test_cases_give_a_legal_stream(name: str) -> None:
    check_all(corpus(name), _gives_a_legal_stream)


def _gives_a_legal_stream(case: Case) -> None:
    legality = Legality()

    for event in drive(case.reader(), [case.stream]):
        legality.check(event)
    assert legality.state == "ended"


@each_part
def test_cases_with_their_end_missing_are_reported_as_cut_or_are_the_same_turn(part: int) -> None:
    check_all(every_case()[part::PARTS], _is_cut_or_the_same_turn)


def _is_cut_or_the_same_turn(case: Case) -> None:
    whole = fold(case.events)

    for at in places(case.stream):
        events = drive(case.reader(), [case.stream[:at]])
        answer = fold(events)
        if answer.finish is not None:
            assert whole.finish == answer.finish
            assert whole.blocks == answer.blocks
        else:
            assert not any(isinstance(event, Finish) for event in events)


@each_dialect
def test_cases_render_as_pinned(name: str) -> None:
    check_all([(case, name) for case in every_case()], _renders_as_pinned)


def _renders_as_pinned(case: Case, target: str) -> None:
    pinned = case.folder / "as" / f"{target}.sse"
    writer = dialect(target).writer(case.exchange(target))

    events = for_client(drive(case.reader(), [case.stream]), target)
    out = b"".join(map(writer.send, events))

    assert out.endswith(b"\n\n")
    if pinned.exists():
        assert pinned.read_bytes().decode() == out.decode()


@each_dialect
def test_a_complete_answer_reports_what_its_stream_reports(name: str) -> None:
    check_all([(case, name) for case in every_case()], _reports_the_same)


def _reports_the_same(case: Case, target: str) -> None:
    """The writer of streams and that of bodies drop the same things, and both say so."""
    events = for_client(drive(case.reader(), [case.stream]), target)
    answer = fold(events)
    if answer.finish is None:
        return
    writer = dialect(target).writer(case.exchange(target))
    for event in events:
        writer.send(event)
    losses: list[Loss] = []
    dialect(target).encode_body(answer, case.exchange(target), losses)

    assert {(one.code, one.detail) for one in writer.losses} == {
        (one.code, one.detail) for one in losses
    }
