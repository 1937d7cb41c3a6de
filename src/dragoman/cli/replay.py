"""`dragoman replay`: translates a recorded answer again, or plays recordings as an upstream (`--serve`)."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import click

from dragoman.cli.options import config_option, own_formats

if TYPE_CHECKING:
    from aiohttp import web

    from dragoman.recorder.recording import AttemptRecord, Recording

_HELP: Final = """Translate the upstream's bytes in a recording again, with this version.

Prints what the client would get now.  A recording is a file that `dragoman serve --record DIR` has written.

With --serve, recordings play the upstream instead: a server answers each request with the recorded answer that fits
best (the same request, else the same path, rather with a stream if one is requested, and rather of the same model),
with the original pauses.  Then F may be a folder.

\b
Exit codes:
  0  translated
  1  the file is not a recording, or no upstream answered
  2  the format of the tool calls is unknown: see --config

\b
Examples:
  dragoman replay recording.dragoman
  dragoman replay --events --split 1 recording.dragoman
  dragoman replay --serve --port 8490 --speed 10 recording.dragoman
"""


@click.command("replay", help=_HELP, short_help="Translate a recorded answer again.")
@click.argument("file", type=click.Path(exists=True, path_type=Path), metavar="F")
@click.option("--events", is_flag=True, help="Print the events instead, one JSON object per line.")
@click.option(
    "--split",
    type=click.IntRange(min=1),
    metavar="N",
    help="Feed the upstream's bytes in pieces of N bytes, instead of the recorded pieces.",
)
@click.option("--serve", "serves", is_flag=True, help="Play recordings as an upstream.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    help="--serve: how many times faster than recorded; 0: without pauses.  [default: 1]",
)
@click.option("--host", default="127.0.0.1", help="--serve: the address.  [default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8490,
    help="--serve: the port; 0: any free one.  [default: 8490]",
)
@config_option
def command(  # noqa: PLR0913 -- one for each option
    file: Path,
    *,
    events: bool,
    split: int | None,
    serves: bool,
    speed: float,
    host: str,
    port: int,
    path: Path | None,
) -> None:
    from dragoman.recorder.recording import RecordingError, read_recording, recording_files
    from dragoman.recorder.replay import replay

    if serves:
        upstream = RecordedUpstream(list(recording_files([file])), speed=speed)
        if not upstream.size:
            raise RecordingError(f"{file}: no upstream answered, so there is nothing to play")
        _play_recordings(upstream, host=host, port=port)
        return
    if file.is_dir():
        raise click.BadParameter("a folder can only be played with --serve", param_hint="F")
    recording = read_recording(file)
    attempt = recording.answered
    if attempt is None:
        raise RecordingError(f"{file}: no upstream answered, so there is nothing to translate")
    again = replay(recording, attempt, split=split or 0, formats=own_formats(path))
    if events:
        for event in again.events:
            click.echo(bytes(event))
    else:
        click.echo(again.body, nl=False)


# --- recordings as an upstream, with the times at which their bytes came --------------------------------

# Headers that describe a transfer which is made again.
_OWN_HEADERS: Final = frozenset(
    {
        "connection", "content-encoding", "content-length", "date", "keep-alive", "server", "transfer-encoding",
        "set-cookie",
    }
)  # fmt: skip


class _RecordedRequest(NamedTuple):
    """What decides which answer fits a request."""

    asks: str  # the end of the path, or what a URL that names the model asks for
    model: str
    stream: bool
    body: bytes


class _RecordedAnswer(NamedTuple):
    """A recorded answer that can be played."""

    request: _RecordedRequest
    attempt: "AttemptRecord"
    cut: bool  # it broke off, or its recording did


class RecordedUpstream:
    """Answers each request with the recorded answer that fits it best.

    That is the answer to the same request, else the next one of the same path: rather one that is streamed if a stream
    is requested, and rather one of the same model.
    """

    def __init__(self, files: Sequence[Path], *, speed: float) -> None:
        from dragoman.recorder.recording import read_recording

        self._answers = [one for file in files for one in _answers(read_recording(file))]
        self._speed = speed  # 0: no waiting
        self._played: dict[int, int] = {}  # by the number of the answer: how often

    @property
    def size(self) -> int:
        """How many answers there are."""
        return len(self._answers)

    def choose(self, path: str, body: bytes) -> _RecordedAnswer | None:
        """Return the answer to a request; None: there is none for this path."""
        wanted = _requested(path, body)
        fitting = [
            number for number, one in enumerate(self._answers) if one.request.asks == wanted.asks
        ]
        if not fitting:
            return None

        def rank(number: int) -> tuple[bool, bool, bool, int, int]:
            request = self._answers[number].request
            return (
                request != wanted,
                request.stream != wanted.stream,
                request.model != wanted.model,
                self._played.get(number, 0),
                number,
            )

        chosen = min(fitting, key=rank)
        self._played[chosen] = self._played.get(chosen, 0) + 1
        return self._answers[chosen]

    async def handle(self, http: "web.BaseRequest") -> "web.StreamResponse":
        """Answer one request."""
        from aiohttp import web

        body = b"".join([chunk async for chunk in http.content.iter_any()])  # of any size
        answer = self.choose(http.rel_url.raw_path, body)
        if answer is None or answer.attempt.reply is None:
            message = f"no recording has an answer for {http.path}"
            return web.json_response({"error": {"message": message}}, status=404)
        reply = answer.attempt.reply
        headers = {
            name: value for name, value in reply.headers.items() if name.lower() not in _OWN_HEADERS
        }
        response = web.StreamResponse(status=reply.status, headers=headers)
        await response.prepare(http)
        await self._play(answer.attempt, response)
        if answer.cut and http.transport is not None:
            http.transport.abort()  # as the upstream's connection was lost
        return response

    async def _play(self, attempt: "AttemptRecord", response: "web.StreamResponse") -> None:
        began = asyncio.get_running_loop().time()
        first = 0.0 if attempt.reply is None else attempt.reply.at
        data = b"".join(read.data.data for read in attempt.reads)
        at = 0
        for read in attempt.reads:
            if self._speed:
                due = began + (read.at - first) / 1000 / self._speed
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            piece = data[at : at + read.size]
            at += read.size
            if piece:
                await response.write(piece)


def _answers(recording: "Recording") -> Iterator[_RecordedAnswer]:
    for attempt in recording.attempts:
        if attempt.reply is not None:
            torn = recording.outcome is None and not attempt.ended
            path = urlsplit(attempt.sent.url).path
            request = _requested(path, attempt.sent.body.data)
            yield _RecordedAnswer(request, attempt, cut=torn or attempt.failed is not None)


def _requested(path: str, body: bytes) -> _RecordedRequest:
    import msgspec

    from dragoman.dialects import dialect, dialect_names

    path = path.rstrip("/")
    for name in dialect_names():
        paths = dialect(name).model_paths
        if paths is not None and (found := paths.read("POST", path, {})) is not None:
            return _RecordedRequest(f"{name} {found.asks}", found.model, found.stream, body)
    try:
        given = msgspec.json.decode(body)
    except msgspec.DecodeError:
        given = None
    fields = given if isinstance(given, dict) else {}
    model, stream = str(fields.get("model", "")), fields.get("stream") is True
    return _RecordedRequest(path.rpartition("/")[2], model, stream, body)


def _play_recordings(upstream: RecordedUpstream, *, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM."""
    from dragoman.event_loop import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(upstream, host, port))


async def _serve(upstream: RecordedUpstream, host: str, port: int) -> None:
    from aiohttp import web

    from dragoman.event_loop import on_signal
    from dragoman.gateway.serve import bind, url_of

    bound = bind(host, port)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, stop.set)
    runner = web.ServerRunner(web.Server(upstream.handle, access_log=None))
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        url = url_of(*bound.getsockname()[:2])
        click.echo(
            f"dragoman: {upstream.size} recorded answers on {url}; try it with "
            f"`dragoman serve --upstream {url}/v1`"
        )
        await stop.wait()
    finally:
        await runner.cleanup()
