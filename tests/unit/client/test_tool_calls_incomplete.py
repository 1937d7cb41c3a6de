"""Calls that are not what the model meant."""

import pytest

from dragoman.client.errors import ClientError
from dragoman.client.tool_calls import for_history, with_broken_call
from dragoman.turn.answer import CUT_CALL, INVALID_CALL, Answer, Block, call_error
from dragoman.turn.events import BlockKind, Fault, FaultKind, Finish, FinishReason, Start

FAULT = Fault(FaultKind.UPSTREAM_BAD, "no JSON", code="invalid_arguments")
TEXT = Block(BlockKind.TEXT, "Hi")
GOOD = Block(BlockKind.TOOL_CALL, "{}", call_id="c1", name="a")
HALF = Block(BlockKind.TOOL_CALL, '{"a": [1, "b', call_id="c2", name="a", complete=False)


def failed(*blocks: Block, code: str = "invalid_arguments") -> ClientError:
    received = Answer(Start(), blocks, fault=FAULT)
    return ClientError("json", "no JSON", code=code, received=received)


def test_an_answer_that_failed_for_its_last_call_is_one() -> None:
    error = failed(TEXT, GOOD, HALF)

    assert error.received is with_broken_call(error)


@pytest.mark.parametrize(
    "error",
    [
        failed(TEXT, HALF, code="upstream_truncated"),
        failed(TEXT),
        failed(),
        failed(HALF, TEXT),
        ClientError("json", "no JSON", code="invalid_arguments"),
        ClientError("connect", "nobody there"),
    ],
)
def test_another_failure_is_none(error: ClientError) -> None:
    with pytest.raises(ClientError) as caught:
        with_broken_call(error)

    assert error is caught.value


@pytest.mark.parametrize("text", ["", "{", '{"a', '{"a":', '{"a": [1, "b', '{"a": tru', '{"a":"\\'])
def test_a_half_call_stays_in_the_history_as_it_came(text: str) -> None:
    half = Block(BlockKind.TOOL_CALL, text, complete=False)
    found = for_history(Answer(Start(), (TEXT, half), fault=FAULT))

    assert text == found.blocks[1].text
    assert found.blocks[1].complete
    assert None is found.fault


def test_free_text_and_whole_blocks_stay_as_they_are() -> None:
    free = Block(BlockKind.CUSTOM_CALL, "*** Beg", complete=False)
    found = for_history(Answer(Start(), (TEXT, GOOD, free), finish=Finish(FinishReason.LENGTH)))

    assert (TEXT, GOOD) == found.blocks[:2]
    assert "*** Beg" == found.blocks[2].text


@pytest.mark.parametrize(
    ("blocks", "end", "why"),
    [
        ((GOOD,), Finish(FinishReason.TOOL_CALLS), [""]),
        ((GOOD, HALF), Finish(FinishReason.LENGTH), ["", CUT_CALL]),
        ((GOOD, HALF), Finish(FinishReason.TOOL_CALLS), ["", INVALID_CALL]),
        ((HALF, GOOD), Finish(FinishReason.TOOL_CALLS), [INVALID_CALL, ""]),
        ((GOOD,), Finish(FinishReason.LENGTH), [CUT_CALL]),
        ((GOOD,), Finish(FinishReason.CONTENT_FILTER), [CUT_CALL]),
        ((GOOD, TEXT), Finish(FinishReason.LENGTH), [""]),
        ((GOOD, HALF), FAULT, ["", "no JSON"]),
    ],
)
def test_s_8_what_was_cut_or_broke_has_a_reason_not_to_run_it(
    blocks: tuple[Block, ...], end: Finish | Fault, why: list[str]
) -> None:
    finish = end if isinstance(end, Finish) else None
    fault = end if isinstance(end, Fault) else None
    answer = Answer(Start(), blocks, finish=finish, fault=fault)

    assert why == [call_error(call, answer) for call in answer.call_blocks]
