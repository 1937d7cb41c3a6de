"""Masked recordings: no word of the content is left, and they replay to the same events, masked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import Raw

from dragoman.cli.main import main
from dragoman.gateway.config.settings import Record, Settings
from dragoman.profiles import profile
from dragoman.recorder.lines import (
    Attempt,
    Events,
    ExchangeOutcome,
    Opening,
    Payload,
    Read,
    Received,
    Reply,
    Translation,
    Written,
    encode_line,
)
from dragoman.recorder.mask import mask_recording
from dragoman.recorder.recording import Recording, read_recording, recording_of
from dragoman.recorder.replay import differences, different_bytes, replay
from dragoman.simulator.native import FAMILIES, NativeCall
from tests.support.asking import post
from tests.support.gateway import DIALECTS, settings_for, stand
from tests.support.simulator import WEATHER, question

_WORD = re.compile(r"[A-Za-z]{4,}")
# Words that are also words of an API, of a native format, of a model's name or of our own messages.
_PROTOCOL = {
    "name", "text", "type", "string", "object", "tool", "call", "function", "user", "model", "error",
    "index", "arguments", "parameters", "content", "message", "reasoning", "stream", "input", "output", "role",
    "upstream", "unexpectedly", "inside", "terminated", "failed", "response", "empty", "think", "null",
    "incomplete", "JSON",
}  # fmt: skip
STEP = 3  # every third of the 300 recordings


def content_of(recording: Recording) -> Iterator[str]:
    """Yield what people and models wrote: prompts, tools, answers, arguments, errors."""
    assert recording.received is not None
    asked = json.loads(recording.received.body.data)
    yield from strings(asked.get("messages") or asked.get("input") or asked.get("contents"))
    yield str(asked.get("system", ""))
    listed = asked.get("tools", ())
    declared = [tool for one in listed for tool in one.get("functionDeclarations", ())]
    for tool in declared or [one.get("function", one) for one in listed]:
        yield tool["name"]
        yield tool.get("description", "")
    for attempt in recording.attempts:
        joined: dict[str, str] = {}
        for event in map(json.loads, map(bytes, attempt.events)):
            kind = event["event"]
            text = event.get("text") or event.get("json") or event.get("message") or ""
            joined[f"{kind}{event.get('index')}"] = (
                joined.get(f"{kind}{event.get('index')}", "") + text
            )
            yield event.get("name", "")
        yield from joined.values()


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from strings(one)
        case dict():
            for key, one in value.items():
                if key not in ("role", "type"):
                    yield from strings(one)


def encoded(recording: Recording) -> bytes:
    return b"".join(map(encode_line, recording.lines))


def shape(event: bytes) -> dict[str, Any]:
    """Return what a mask must keep of an event."""
    fields = json.loads(event)
    return {
        key: len(value) if key in ("text", "json", "name", "call_id") else value
        for key, value in fields.items()
        if key
        not in (
            "message",
            "detail",
            "excerpt",
            "raw",
            "path",
            "explanation",
            "id",
            "item_id",
            "data",
        )
    }


def total(events: list[Any]) -> list[dict[str, Any]]:
    """Return the shapes of events, with the deltas of a block as one."""
    found: list[dict[str, Any]] = []
    for event in map(shape, map(bytes, events)):
        key = {"text": "text", "reasoning": "text", "args": "json"}.get(event["event"], "")
        if key and found and found[-1]["event"] == event["event"]:
            found[-1][key] += event[key]
        else:
            found.append(event)
    return found


def test_masked_recordings_replay_to_the_same_events_and_hold_no_word(folder: Path) -> None:
    files = sorted(folder.iterdir())[::STEP]
    assert len(files) > 100
    for file in files:
        recording = read_recording(file)
        masked = recording_of(mask_recording(recording))
        data = encoded(masked)
        assert masked.opening.masked
        left = set(_WORD.findall(data.decode()))
        words = {word for text in content_of(recording) for word in _WORD.findall(text)}
        assert not (words & left) - _PROTOCOL, (file, (words & left) - _PROTOCOL)
        old, new = recording.answered, masked.answered
        if old is None or new is None:
            continue
        again = replay(masked, new)
        assert not differences(new.events, again.events), file
        assert different_bytes(masked, again) is None, file
        assert total(old.events) == total(new.events), file
        assert [len(one) for one in old.pieces()] == [len(one) for one in new.pieces()]


def cut_answer(family: str, text: str, field: str, size: int = 7) -> Recording:
    """Return the recording of a Chat stream that breaks off behind a text, as today's code translates it."""
    asked = question("anthropic", "m", "Zanzibar?", tools=[WEATHER])
    deltas = [
        {"role": "assistant"},
        *({field: text[at : at + size]} for at in range(0, len(text), size)),
    ]
    chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": one}]} for one in deltas]
    data = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks)
    how = Translation(
        source="chat", target="anthropic", model="m", native_format=family, stream=True, profile=profile("generic")
    )  # fmt: skip
    made = recording_of(
        [
            Opening(version=1, program="", id="r", time=0, dialect="anthropic", method="POST", path="/", headers={}),
            Received(at=0, body=Payload.of(json.dumps(asked).encode())),
            Attempt(at=0, upstream="u", model="m", url="/", headers={}, body=Payload()),
            Reply(at=0, status=200, headers={}, translation=how),
            Read(at=0, size=len(data), data=Payload.of(data)),
            Read(at=0, size=0, ended=True),
        ]
    )  # fmt: skip
    assert made.answered is not None
    replayed = replay(made, made.answered)
    end = ExchangeOutcome(at=0, status=200, record=Raw(b"{}"))
    return recording_of(
        [*made.lines, Events(events=replayed.events), Written(at=0, data=Payload.of(replayed.body)), end]
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_native_call_that_is_cut_anywhere_replays_masked(family: str) -> None:
    text = FAMILIES[family].render([NativeCall("get_weather", {"city": "Timbuktu"}, 0)])
    for number, cut in enumerate(range(2, len(text), max(1, len(text) // 5))):
        field = ("content", "reasoning_content")[number % 2]
        recording = cut_answer(family, f"Zanzibar {text[:cut]}", field)
        masked = recording_of(mask_recording(recording))
        assert masked.answered is not None
        again = replay(masked, masked.answered)
        different = differences(masked.answered.events, again.events)
        assert [] == [(field, text[:cut], one.index) for one in different[:1]]
        assert total(recording.answered.events) == total(again.events)
        assert b"Zanzibar" not in encoded(masked)
        assert b"Timb" not in encoded(masked)


@pytest.mark.parametrize("size", [2, 4])
def test_a_text_whose_masked_form_arrives_in_other_pieces_replays(size: int) -> None:
    # The parser holds back "weat", and nothing of what masks it.
    recording = cut_answer("muse_glimmer", "I will use `get_weather`.", "content", size)
    masked = recording_of(mask_recording(recording))
    assert recording.answered is not None
    assert masked.answered is not None

    again = replay(masked, masked.answered)

    assert len(recording.answered.events) != len(again.events)
    assert not differences(masked.answered.events, again.events)
    assert total(recording.answered.events) == total(masked.answered.events)


PLANTED = (
    "Zanzibar", "quokka", "wombat", "marzipan", "Kierkegaard", "zeppelin", "obelisk", "Timbuktu", "kumquat", "ocelot",
    "Übermut", "Größe", "gargoyle", "bassoon",
)  # fmt: skip
TOOL = {
    "name": "find_quokka",
    "description": "Finds a wombat in Timbuktu",
    "parameters": {
        "type": "object",
        "properties": {
            "zeppelin": {"type": "string", "enum": ["obelisk", "kumquat"], "description": "ocelot"},
            "bassoon": {"type": "integer", "default": 3},
        },
        "required": ["zeppelin"],
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_gateway_that_records_shapes_writes_no_word(tmp_path: Path, dialect: str) -> None:
    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(tmp_path), content="shape"))

    words = (
        "sim: say Zanzibar, quokka-wombat <gargoyle> `marzipan` \\nKierkegaard https://ocelot.example/obelisk?kumquat=Größe "
        '{"zeppelin": "Timbuktu"} Übermut'
    )
    with stand(make) as gateway:
        for model in (
            "chat/kimi-k2",
            "anthropic/plain+error:400",
            "responses/qwen3-coder",
            "gemini/plain",
        ):
            for stream in (True, False):
                asked = question(dialect, model, words, tools=[TOOL], stream=stream)
                asked["metadata"] = {"user_id": "gargoyle"}
                post(gateway, dialect, asked, headers={"x-note": "marzipan"})
                calls = question(dialect, model, "Call it.", tools=[TOOL], stream=stream)
                post(gateway, dialect, calls)
        post(gateway, dialect, b"Zanzibar is not JSON")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 17
    written = b"".join(file.read_bytes() for file in files).decode()
    for word in PLANTED:
        assert word.lower() not in written.lower(), word
    result = CliRunner().invoke(main, ["diff", str(tmp_path)])
    assert result.exit_code == 0, result.output[:3000]
    assert "tool_call" in written


def test_show_writes_a_masked_copy(folder: Path, tmp_path: Path) -> None:
    file = next(
        file
        for file in sorted(folder.iterdir())
        if b'"native_format":"kimi_k2"' in file.read_bytes()
    )
    copy = tmp_path / "shared.dragoman"
    result = CliRunner().invoke(main, ["show", "--mask", str(copy), str(file)])
    assert result.exit_code == 0
    assert "weather" not in result.output.lower()
    assert read_recording(copy).opening.masked
    assert CliRunner().invoke(main, ["diff", str(copy)]).exit_code == 0
