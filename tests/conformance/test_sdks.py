"""The vendors' SDKs read what we write, in all directions, and understand what we meant."""

from typing import Any

import msgspec
import pytest

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.translate import Translator
from dragoman.turn.answer import fold
from dragoman.turn.events import Event, Fault, FaultKind
from tests.support.corpus import SEALER, Case, corpus, drive, for_client
from tests.support.sdks import SDK_ERRORS, accumulate, joined_parts, parse_body, provoke
from tests.support.tables import check_all, in_one_test

each_source = pytest.mark.parametrize("source", DIALECT_NAMES)
each_target = pytest.mark.parametrize("target", DIALECT_NAMES)


def streamed(case: Case, target: str) -> bytes:
    """Render a case through the writer (a same-dialect relay would only pass it on)."""
    writer = dialect(target).writer(case.exchange(target))
    return b"".join(writer.send(event) for event in events_for(case, target))


def events_for(case: Case, target: str) -> list[Event]:
    return for_client(drive(case.reader(), [case.stream]), target)


def plain(dialect_name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Leave out what an SDK itself adds: nulls, parsed copies, positions of the stream."""
    value = _without_noise(value)
    for choice in value.get("choices", []):
        for one in choice["message"].get("tool_calls", []):
            one.pop("index", None)
    for candidate in value.get("candidates", []):
        candidate["content"]["parts"] = joined_parts(candidate["content"]["parts"])
        candidate.pop("finishMessage", None)  # with an API key the SDK leaves it out
    if dialect_name == "anthropic":
        # The state of a call comes behind it in a stream if the upstream sends it last, and before it in a body.
        value["content"].sort(key=lambda block: block["type"] == "redacted_thinking")
    return value


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_noise(inner)
            for key, inner in value.items()
            if inner is not None and key not in ("parsed_arguments", "parsed", "output_parsed")
        }
    if isinstance(value, list):
        return [_without_noise(inner) for inner in value]
    return value


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of items of other vendors
@each_source
@each_target
def test_sdk_accumulates_from_the_stream_what_the_body_holds(source: str, target: str) -> None:
    check_all([(case, target) for case in corpus(source)], _accumulates_what_the_body_holds)


def _accumulates_what_the_body_holds(case: Case, target: str) -> None:
    answer = fold(events_for(case, target))
    stream = streamed(case, target)
    if answer.fault is not None:
        if target == "responses":
            assert accumulate(target, stream)["status"] == "failed"
        else:
            with pytest.raises(SDK_ERRORS):
                accumulate(target, stream)
        return
    exchange = case.exchange(target)
    body = dialect(target).encode_body(answer, exchange, [])

    expected = plain(target, msgspec.json.decode(body))

    assert expected == plain(target, parse_body(target, body))
    if target == "chat" and exchange.request is not None and not exchange.request.include_usage:
        del expected["usage"]  # streamed only to those who ask
    if target == "anthropic" and not all(call.complete for call in answer.call_blocks):
        # A body has text in the place of half a call; the SDK drops what it cannot parse of it.
        blocks = accumulate(target, stream)["content"]
        assert ["tool_use"] == [block["type"] for block in blocks[-1:]]
        assert "tool_use" not in [block["type"] for block in expected["content"][-1:]]
        return
    assert expected == plain(target, accumulate(target, stream))


@each_source
@each_target
def test_translator_gives_what_reader_and_writer_give(source: str, target: str) -> None:
    if source != target:
        check_all([(case, target) for case in corpus(source)], _gives_what_reader_and_writer_give)


def _gives_what_reader_and_writer_give(case: Case, target: str) -> None:
    exchange = case.exchange(target)
    translator = Translator(
        source=case.dialect,
        target=target,
        profile=exchange.profile,
        request=exchange.request,
        seed=exchange.seed,
        created=exchange.created,
        sealer=SEALER,
        input_estimate=exchange.input_estimate,
        strict=exchange.strict,
        native_format="none",
    )

    out = translator.feed(case.stream) + translator.close()

    if exchange.request is None:
        assert streamed(case, target) == out
    assert translator.done


@in_one_test
@pytest.mark.parametrize("kind", list(FaultKind))
@each_target
def test_every_kind_of_fault_is_an_error_to_the_sdk(kind: FaultKind, target: str) -> None:
    status, body = dialect(target).encode_fault(Fault(kind, "what went wrong"), "req_1")

    error = provoke(target, status, body)

    assert status == (error.code if target == "gemini" else error.status_code)
    assert "what went wrong" in str(error)
