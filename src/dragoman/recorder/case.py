"""A recording as a test: a case of our corpus, or a test file for pytest.  Pure: files by their names."""

import re
from typing import Final

import msgspec

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.dialects.encoding import encode
from dragoman.dialects.framing import StreamReader
from dragoman.envelopes import Sealer
from dragoman.profiles import profile
from dragoman.recorder.lines import SUFFIX, Translation, encode_line
from dragoman.recorder.recording import AttemptRecord, Recording, RecordingError
from dragoman.translate_requests import read_request
from dragoman.turn.answer import merged
from dragoman.turn.events import EventOrRun
from dragoman.turn.tools import ToolTable

_NAME: Final = re.compile(r"[^a-z0-9]+")
_TEST: Final = '''"""The recorded exchange {id} is translated as it was.  Made by `dragoman case --pytest`."""

from pathlib import Path

from dragoman.testing import check_recording


def test_{name}() -> None:
    check_recording(Path(__file__).with_name("{file}"))
'''


def case_name(recording: Recording) -> str:
    """Return a name for a test of an exchange: the model and the end of the request's id."""
    attempt = _answered(recording)
    model = _NAME.sub("_", attempt.sent.model.lower()).strip("_")
    number = _NAME.sub("_", recording.opening.id.lower())[-6:].strip("_")
    return f"{model}_{number}"


def pytest_files(recording: Recording, name: str) -> dict[str, bytes]:
    """Return a test that pytest runs, and the recording that it reads.

    Raises:
        RecordingError: no upstream answered.
    """
    _answered(recording)
    file = f"{name}{SUFFIX}"
    test = _TEST.format(id=recording.opening.id, name=name, file=file)
    data = b"".join(map(encode_line, recording.lines))
    return {f"test_{name}.py": test.encode(), file: data}


def corpus_files(recording: Recording, name: str) -> dict[str, bytes]:
    """Return a case of this project's corpus: the stream, the request, and the events that it leads to today.

    An answer that the gateway continued has a case for each of its responses, in order: `name_1`, `name_2`.

    Raises:
        RecordingError: no upstream answered with a stream.
    """
    last = _answered(recording)
    parts = [*recording.continued(last), last]
    files: dict[str, bytes] = {}
    for number, part in enumerate(parts, 1):
        folder = name if len(parts) == 1 else f"{name}_{number}"
        for file, data in _case(recording, part).items():
            files[f"{folder}/{file}"] = data
    return files


def _case(recording: Recording, attempt: AttemptRecord) -> dict[str, bytes]:
    """Return the case of one response."""
    assert attempt.reply is not None  # noqa: S101 -- it was answered
    how = attempt.reply.translation
    if how is None or not how.stream:
        raise RecordingError("a case of the corpus is a stream, and this answer is not one")
    stream = b"".join(attempt.pieces())
    setup: dict[str, object] = {"profile": how.profile.name, "client": recording.opening.dialect}
    if recording.received is not None:
        setup["request"] = msgspec.Raw(recording.received.body.data)
    if how.strict:
        setup["strict"] = True
    title = f"# NEW: an answer of {attempt.sent.model}\n\n"
    seen = (
        f"Seen in the exchange {recording.opening.id}, recorded by {recording.opening.program}.\n"
    )
    events = b",\n".join(map(encode, _events(recording, how, stream)))
    return {
        "stream.sse": stream,
        "setup.json": msgspec.json.format(msgspec.json.encode(setup), indent=2) + b"\n",
        "case.md": (title + seen).encode(),
        "events.json": b"[\n" + events + b"\n]\n",
    }


def _answered(recording: Recording) -> AttemptRecord:
    attempt = recording.answered
    if attempt is None:
        raise RecordingError("no upstream answered, so there is nothing to test")
    return attempt


def _events(recording: Recording, how: Translation, stream: bytes) -> list[EventOrRun]:
    """Return what the reader makes of a stream, as `tests/support/corpus.py` does."""
    sealer = Sealer(b"the corpus key")
    request = None
    if recording.received is not None:
        body = recording.received.body.data
        request = read_request(body, source=recording.opening.dialect, sealer=sealer).request
    exchange = Exchange(
        profile=profile(how.profile.name),
        request=request,
        tools=ToolTable(request.tools if request else ()),
        seed="corpus",
        created=1700000000,
        sealer=sealer,
        input_estimate=20,
        strict=how.strict,
    )
    reader = StreamReader(dialect(how.source).frame_reader(exchange), exchange)
    return merged([*reader.feed(stream), *reader.close()])
