"""Runs of frames that differ in their text are recorded as any other bytes are."""

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dragoman.recorder import frames
from dragoman.recorder.text_frames import TextFrames, Texts, texts_of
from dragoman.recorder.writer import ExchangeFile, Folder
from dragoman.redaction import Blotter
from dragoman.turn.events import (
    TEXT,
    BlockStart,
    DeltaRun,
    Event,
    Finish,
    FinishReason,
    TextDelta,
)

WORDS = ("the", " quick", "brown\n", '"fox"', "größe", "\\", "a", "😀", "\t", "{}", "text")
SECRET = "client-credential-of-many-letters"


def run_of(texts: list[str]) -> DeltaRun:
    return DeltaRun(
        0, [msgspec.json.encode(one)[1:-1] for one in texts], TextDelta(0, "".join(texts))
    )


def texts_in(run: DeltaRun) -> Texts:
    frame, data = frames.encode_meaning(1, [run])
    found = texts_of(data[frame.run : frame.run_end])
    assert found is not None
    return found


def stream(texts: list[str], frame: bytes) -> bytes:
    return b"".join(frame % msgspec.json.encode(one) for one in texts)


CHAT = b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":%b},"finish_reason":null}]}\n\n'
MESSAGES = b'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text": %b}}\n\n'


def test_the_texts_of_a_run_are_those_of_its_events() -> None:
    found = texts_in(run_of(list(WORDS)))

    assert "".join(WORDS).encode() == found.joined
    assert list(WORDS) == [msgspec.json.decode(b'"%b"' % one) for one in found.bodies]
    assert found.bodies == [msgspec.json.decode(b'"%b"' % one).encode() for one in found.escaped]


@pytest.mark.parametrize("frame", [CHAT, MESSAGES])
@pytest.mark.parametrize("texts", [["a", "b", "b", "a"], list(WORDS), ["c1", "text", "index"]])
def test_a_run_is_escaped_like_any_bytes(frame: bytes, texts: list[str]) -> None:
    blotter = Blotter((SECRET,))
    repeated = TextFrames(blotter)
    for head, tail in (
        (b"data: {}\n\n" * 3, b"data: [DONE]\n\n"),
        (b"", b""),
        (b": x\n\n", b"data: {"),
    ):
        data = head + stream(texts, frame) + tail
        parts = repeated.escape(data, texts_in(run_of(texts)))

        assert parts is not None
        assert Blotter((SECRET,)).blot_escaped(data) == b"".join(parts)


def test_frames_that_differ_in_more_than_their_text_are_no_run() -> None:
    texts = ["a", "b", "c"]
    numbered = b"".join(
        b'data: {"number":%d,"delta":"%b"}\n\n' % (at, one.encode()) for at, one in enumerate(texts)
    )
    repeated = TextFrames(Blotter(()))

    assert repeated.escape(numbered, texts_in(run_of(texts))) is None
    assert repeated.escape(stream(["a", "b", "x"], CHAT), texts_in(run_of(texts))) is None
    assert repeated.escape(stream(texts, CHAT), texts_in(run_of(texts))) is not None


def test_a_frame_with_a_secret_is_no_run() -> None:
    texts = ["a", "b", "c"]
    frame = b'data: {"key":"%b","content":%%b}\n\n' % SECRET.encode()

    assert (
        TextFrames(Blotter((SECRET,))).escape(stream(texts, frame), texts_in(run_of(texts))) is None
    )


def test_secrets_around_a_run_are_overwritten() -> None:
    texts = ["a", "b", "c"]
    around = b'data: {"note":"%b"}\n\n' % SECRET.encode()
    parts = TextFrames(Blotter((SECRET,))).escape(
        around + stream(texts, CHAT) + around, texts_in(run_of(texts))
    )

    assert parts is not None
    written = b"".join(parts)
    assert 2 == written.count(b"*" * len(SECRET))
    assert SECRET.encode() not in written


# --- whole recordings ---------------------------------------------------------------------------------------


def policy(folder: Path, **changes: object) -> frames.Policy:
    plain = frames.Policy(
        folder=str(folder),
        program="dragoman",
        secrets=(SECRET,),
        patterns=(),
        max_file_bytes=10**7,
        max_bytes=10**9,
        max_files=100,
        max_age_seconds=10**9,
        masks=False,
    )
    return msgspec.structs.replace(plain, **changes)


def file_of(how: frames.Policy, name: str, taken: list[tuple[frames.Frame, bytes]]) -> bytes:
    began = frames.Begin(
        exchange=1, id=name, time=1e9, dialect="anthropic", method="POST", path="/", headers={}, at=0.5
    )  # fmt: skip
    file = ExchangeFile(Folder(how), how, began, b"{}")
    for frame, data in taken:
        file.take(frame, data)
    file.finish()
    return (Path(how.folder) / file.name).read_bytes()


def exchange(texts: list[str], *, as_run: bool) -> Iterator[tuple[frames.Frame, bytes]]:
    """Yield the frames of a stream in two reads, with its events as runs or as deltas."""
    for at, words in enumerate((texts[:15], texts[15:])):
        yield frames.Came(1, float(at)), (b"" if at else b"data: {}\n\n") + stream(words, CHAT)
        before: list[Event] = [] if at else [BlockStart(0, TEXT)]
        after: list[Event] = [Finish(FinishReason.STOP)] if at else []
        deltas: list[Event] = [run_of(words)] if as_run else [TextDelta(0, one) for one in words]
        yield frames.encode_meaning(1, [*before, *deltas, *after])
        yield frames.Sent(1, at + 0.5), stream(words, MESSAGES)


@pytest.mark.parametrize("seed", range(8))
def test_a_recording_of_runs_is_the_recording_of_their_deltas(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    texts = rng.choices(WORDS, k=40)
    if seed % 2:
        texts[rng.randrange(40)] = f" {SECRET} "
    if seed % 4 > 1:  # in pieces, of which one is in the first read
        texts[13:17] = [" sk-", "ant", "-0123", "4567890abc"]
    how = policy(tmp_path, patterns=(r"gr\w+e",) if seed > 5 else ())

    runs, deltas = (
        file_of(how, f"req_{as_run}", list(exchange(texts, as_run=as_run)))
        for as_run in (True, False)
    )

    # A run has the fields of its deltas that are not empty.
    assert deltas.replace(b',"logprobs":null', b"") == runs.replace(b"req_True", b"req_False")
    assert SECRET.encode() not in runs
    assert b"0123" not in runs
