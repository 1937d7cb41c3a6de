"""What `make fuzz` runs: each target accepts its seeds, and a target can fail."""

import json
import random
import time

import pytest
from tools.fuzz import kept_bodies
from tools.fuzz.judge import COSTS, Cost, judge, judge_growth
from tools.fuzz.kept_text import find_lost, find_unwritten
from tools.fuzz.targets import TARGETS, Choice, Target

from dragoman.answer_reader import AnswerReader
from dragoman.dialects import DIALECT_NAMES
from dragoman.translate import translate_body
from dragoman.turn.events import ArgsDelta, Fault, FaultKind, ReasoningDelta, TextDelta
from dragoman.turn.losses import Loss
from tests.support.corpus import Case, corpus, drive


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_their_damaged_copies_pass(name: str) -> None:
    target = TARGETS[name]
    chance = random.Random(name)
    seeds = list(target.seeds())

    assert seeds
    for seed in chance.sample(seeds, min(20, len(seeds))):
        judge(target, seed)
        damaged = bytearray(seed + b" ")
        for _ in range(3):
            damaged[chance.randrange(3, len(damaged))] = chance.randrange(256)
        judge(target, bytes(damaged))


@pytest.mark.parametrize("name", TARGETS)
def test_time_and_memory_grow_with_the_size_of_repeated_seeds(name: str) -> None:
    target = TARGETS[name]
    chance = random.Random(name)
    seeds = list(target.seeds())

    for seed in chance.sample(seeds, min(2, len(seeds))):
        judge_growth(target, Choice.of(seed))


def test_an_input_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.judge._SECONDS", 0.05)

    def linger(_choice: Choice) -> None:
        end = time.process_time() + 0.06
        while time.process_time() < end:
            pass

    with pytest.raises(AssertionError, match="3 bytes took"):
        judge(Target(linger, list), b"abc")


(MEMORY,) = (one for one in COSTS if one.unit == "bytes of memory")
# How many times a target looks at a byte: time itself depends on the machine, and on what else runs there.
LOOKS = Cost("looks", 1_000, lambda target, choice: float(target.run(choice)))


def look_back(choice: Choice) -> int:
    """Look at everything before each 16th byte: quadratic work."""
    return sum(range(0, len(choice.data), 16))


def look_once(choice: Choice) -> int:
    """Look at each byte, and at the first ones often: linear work."""
    return len(choice.data) + 1_000


def keep_prefixes(choice: Choice) -> int:
    """Keep everything before each 24th byte: quadratic memory."""
    kept = [choice.data[:at] for at in range(0, len(choice.data), 24)]
    return len(kept)


def test_quadratic_work_fails() -> None:
    with pytest.raises(AssertionError, match="looks each"):
        judge_growth(Target(look_back, list), Choice.of(b"\0\0\0abc"), (LOOKS,))


def test_linear_work_passes() -> None:
    judge_growth(Target(look_once, list), Choice.of(b"\0\0\0abc"), (LOOKS,))


def test_quadratic_memory_fails() -> None:
    with pytest.raises(AssertionError, match="bytes of memory each"):
        judge_growth(Target(keep_prefixes, list), Choice.of(b"\0\0\0abc"), (MEMORY,))


# --- no text is lost ------------------------------------------------------------------------------

DELTAS = (TextDelta, ReasoningDelta, ArgsDelta)


def plain_cases(dialect: str, kind: type) -> list[Case]:
    """Return streams that came to their end, with content of that kind, and without a repair of it."""
    excused = (
        "chunk_",
        "args_",
        "call_",
        "content_",
        "late_",
        "part_",
        "choice_",
        "held_",
        "block_index",
    )
    return [
        case
        for case in corpus(dialect)
        if not isinstance(case.events[-1], Fault)
        and any(isinstance(event, kind) for event in case.events)
        and not any(isinstance(one, Loss) and one.code.startswith(excused) for one in case.events)
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("kind", DELTAS)
def test_a_delta_that_is_missing_is_noticed(dialect: str, kind: type) -> None:
    noticed = 0
    for case in plain_cases(dialect, kind):
        reader = AnswerReader(source=dialect, native_format="none")
        events = drive(reader, [case.stream])
        at = next(at for at, event in enumerate(events) if isinstance(event, kind))

        assert "" == find_lost(dialect, case.stream, events)
        noticed += bool(find_lost(dialect, case.stream, [*events[:at], *events[at + 1 :]]))

    # Some streams have content only where `find_lost` does not look, such as a list of reasoning details.
    assert noticed >= max(1, len(plain_cases(dialect, kind)) // 2)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_text_that_a_client_does_not_read_is_noticed(dialect: str) -> None:
    for case in plain_cases(dialect, TextDelta):
        events = [one for one in case.events if not isinstance(one, Loss)]
        at = next(at for at, event in enumerate(events) if isinstance(event, TextDelta))

        assert "" == find_unwritten(events, events)
        assert find_unwritten(events, [*events[:at], *events[at + 1 :]])


def test_missing_text_is_excused_by_a_loss_or_a_failure_that_names_it() -> None:
    case = next(case for case in plain_cases("chat", TextDelta))
    *events, end = [one for one in drive(case.reader(), [case.stream]) if not isinstance(one, TextDelta)]  # fmt: skip

    assert find_lost("chat", case.stream, [*events, end])
    assert "" == find_lost("chat", case.stream, [*events, Loss("content_after_finish"), end])
    assert "" == find_lost("chat", case.stream, [*events, Fault(FaultKind.OVERLOADED, "full")])
    truncated = Fault(FaultKind.UPSTREAM_BAD, "cut", code="upstream_truncated")
    assert find_lost("chat", case.stream, [*events, truncated])


def test_text_behind_a_last_event_that_only_its_name_shows_is_not_looked_for() -> None:
    text = b'data: {"type":"response.output_text.delta","delta":"%s"}\n\n'
    last = b'event: response.completed\ndata: {"response":{}}\n\n'

    assert "" == find_lost("responses", text % b"a" + last + text % b"b", [TextDelta(0, "a")])
    assert "text: 'b'" == find_lost("responses", text % b"a" + text % b"b", [TextDelta(0, "a")])


def test_a_malformed_event_excuses_the_text_of_one_event() -> None:
    def event(text: str) -> bytes:
        return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode()

    stream = event("one ") + event("two ") + event("three")
    loss = Loss("chunk_malformed")

    assert "" == find_lost("chat", stream, [TextDelta(0, "one two "), loss])
    assert "text: 'two '" == find_lost("chat", stream, [TextDelta(0, "one "), loss])


def test_the_arguments_of_a_vendor_s_call_may_be_missing_if_a_loss_names_the_call() -> None:
    call = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'

    assert "" == find_lost("anthropic", call, [Loss("server_block_dropped")])
    assert "arguments: '{}'" == find_lost("anthropic", call, [])


# One body of each dialect: a system prompt, text, reasoning, a call with its arguments, and a result.
REQUESTS = {
    "chat": b"""{"model": "m", "messages": [{"role": "system", "content": "Brief."}, {"role": "user", "content":
        [{"type": "text", "text": "Question?"}]}, {"role": "assistant", "content": "Text.", "reasoning_content": "Thought.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\\"key\\": \\"value\\"}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "Result."}]}""",
    "anthropic": b"""{"model": "m", "max_tokens": 9, "system": "Brief.", "messages": [{"role": "user", "content": "Question?"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Thought.", "signature": "s"}, {"type": "text",
        "text": "Text."}, {"type": "tool_use", "id": "a", "name": "f", "input": {"key": "value"}}]}, {"role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "Result."}]}]}]}""",
    "responses": b"""{"model": "m", "instructions": "Brief.", "input": [{"role": "user", "content": "Question?"}, {"type":
        "reasoning", "summary": [{"type": "summary_text", "text": "Thought."}]}, {"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Text."}]}, {"type": "function_call", "call_id": "a", "name": "f",
        "arguments": "{\\"key\\": \\"value\\"}"}, {"type": "function_call_output", "call_id": "a", "output": "Result."}]}""",
    "gemini": b"""{"systemInstruction": {"parts": [{"text": "Brief."}]}, "contents": [{"role": "user", "parts": [{"text":
        "Question?"}]}, {"role": "model", "parts": [{"text": "Thought.", "thought": true}, {"text": "Text."},
        {"functionCall": {"name": "f", "args": {"key": "value"}}}]}, {"role": "user", "parts": [{"functionResponse":
        {"name": "f", "response": {"output": "Result."}}}]}]}""",
}
SAID = ("Brief.", "Question?", "Thought.", "Text.", "key", "value", "Result.")


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("text", SAID)
def test_a_text_that_a_translated_request_lacks_is_noticed(dialect: str, text: str) -> None:
    body = REQUESTS[dialect]
    written = json.dumps(SAID)
    other = written.replace(text, "other")

    assert "" == kept_bodies.find_lost(dialect, body, written.encode(), ())
    lost = kept_bodies.find_lost(dialect, body, other.encode(), ())
    assert lost.endswith(f": {text!r}")
    named = Loss("held_content_lost", lost.partition(":")[0])
    elsewhere = Loss("held_content_lost", "$.tools")
    assert "" == kept_bodies.find_lost(dialect, body, other.encode(), (named,))
    assert lost == kept_bodies.find_lost(dialect, body, other.encode(), (elsewhere,))


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_text_that_a_translated_answer_lacks_is_noticed(dialect: str) -> None:
    """The answer is the one of a stream with text, reasoning and a call."""
    kinds = (TextDelta, ReasoningDelta, ArgsDelta)
    case = next(
        case
        for case in plain_cases(dialect, ArgsDelta)
        if all(any(isinstance(event, kind) for event in case.events) for kind in kinds)
    )
    body = translate_body(case.stream, source=dialect, target=dialect, native_format="none").body

    assert "" == kept_bodies.find_lost(dialect, body, body, ())
    for event in case.events:
        if isinstance(event, TextDelta | ReasoningDelta):
            other = body.replace(event.text.strip().encode(), b"?")
            assert kept_bodies.find_lost(dialect, body, other, ())
