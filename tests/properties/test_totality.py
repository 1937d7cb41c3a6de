"""Any bytes give events that form a legal, ended turn, or a `ProtocolError`; nothing else."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.checker.checker import Checker
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import DragomanError, ProtocolError
from dragoman.translate import Translator, translate_body, translate_error
from dragoman.translate_requests import translate_request
from dragoman.turn.answer import fold
from dragoman.turn.losses import Loss
from tests.properties.strategies import chat_streams, json_values
from tests.support.corpus import Case, corpus, drive
from tests.support.views import HALF_CALL

# Losses of a call that leaves incomplete.
INCOMPLETE = frozenset({"call_cut", "args_invalid", "args_not_object"})
CASES = {name: corpus(name) for name in DIALECT_NAMES}
each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)
each_target = pytest.mark.parametrize("target", DIALECT_NAMES)


def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Change, drop, double or insert a few bytes."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        end = min(len(data), at + draw(st.integers(0, 30)))
        middle = draw(
            st.sampled_from(
                [b"", data[at:end] * 2, b"\n\n", b"null", b'"', b"{}", b"[]", b"-1", b"\xff", b"\r"]
            )
        )
        data = data[:at] + middle + data[end:]
    return data


@st.composite
def spoiled(draw: st.DrawFn, name: str) -> tuple[Case, bytes]:
    case = draw(st.sampled_from(CASES[name]))
    return case, mutated(draw, case.stream)


def judge(name: str, stream: bytes, losses: Iterable[Loss]) -> None:
    """Fail if a stream is not legal in its dialect, but for a call that is not complete."""
    checker = Checker(name)
    violations = checker.feed(stream) + checker.close()
    half = not INCOMPLETE.isdisjoint(loss.code for loss in losses)
    excused = HALF_CALL if half else frozenset()

    assert [one for one in violations if one.rule not in excused] == []


@each_dialect
@given(data=st.binary(max_size=300))
def test_random_bytes_give_events_or_a_named_error(name: str, data: bytes) -> None:
    case = CASES[name][0]
    try:
        events = drive(case.reader(), [data])
    except ProtocolError:
        return

    answer = fold(events)
    assert answer.fault is not None or answer.finish is not None


@each_dialect
@given(data=st.data())
def test_spoiled_streams_give_a_legal_turn_or_a_named_error(name: str, data: st.DataObject) -> None:
    case, stream = data.draw(spoiled(name))
    try:
        events = drive(case.reader(), [stream])
    except ProtocolError:
        return

    fold(events)


@each_dialect
@each_target
@given(data=st.data())
def test_spoiled_streams_leave_as_legal_streams(
    name: str, target: str, data: st.DataObject
) -> None:
    if name == target:
        return  # a relay passes what it is given
    _, stream = data.draw(spoiled(name))
    translator = Translator(source=name, target=target, seed="s")

    out = translator.feed(stream) + translator.close()

    judge(target, out, translator.losses)


@each_target
@given(stream=chat_streams())
def test_a4_chat_deltas_in_any_order_leave_as_legal_streams(target: str, stream: bytes) -> None:
    if target == "chat":
        return  # a relay passes what it is given
    translator = Translator(source="chat", target=target, seed="s")

    out = translator.feed(stream) + translator.close()

    judge(target, out, translator.losses)


@each_dialect
@each_target
@given(
    value=json_values
    | st.dictionaries(
        st.sampled_from(["model", "messages", "input", "tools", "max_tokens", "system", "stream"]),
        json_values,
    )
)
def test_any_json_as_request_is_translated_or_refused(
    name: str, target: str, value: object
) -> None:
    status = 200
    try:
        translate_request(msgspec.json.encode(value), source=name, target=target)
    except DragomanError as error:
        status = error.http_status

    assert status in (200, 400, 413)


@each_dialect
@each_target
@given(body=st.binary(max_size=200) | json_values.map(msgspec.json.encode))
def test_any_bytes_as_answer_give_an_answer_or_an_error(
    name: str, target: str, body: bytes
) -> None:
    translated = translate_body(body, source=name, target=target)

    assert (translated.answer.fault is None) == (translated.status == 200)
    status, _ = translate_error(500, body, source=name, target=target)
    assert 400 <= status < 600
