"""`dragoman show`: a recorded exchange, in the terminal."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

if TYPE_CHECKING:
    from dragoman.recorder.lines import Line
    from dragoman.recorder.recording import Recording

_HELP: Final = """Print a recorded exchange: client, upstream and model, what happened when, and the answer.

\b
Exit codes:
  0  printed
  1  the file is not a recording

\b
Examples:
  dragoman show recording.dragoman
  dragoman show --bytes recording.dragoman
  dragoman show --mask shared.dragoman recording.dragoman
"""
_SHOWN_CHARS: Final = 2000  # of a text or of arguments
_EVENT_CHARS: Final = 160
_MARGIN: Final = 12


@click.command("show", help=_HELP, short_help="Print a recorded exchange.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--bytes", "with_bytes", is_flag=True, help="Print all bytes too.")
@click.option(
    "--mask",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a copy without the content to this file, to share a failure, and print the copy.",
)
def command(file: Path, *, with_bytes: bool, mask: Path | None) -> None:
    from dragoman.recorder.recording import read_recording

    recording = read_recording(file)
    if mask is not None:
        from dragoman.recorder.lines import encode_line
        from dragoman.recorder.mask import mask_recording
        from dragoman.recorder.recording import recording_of

        recording = recording_of(mask_recording(recording))
        mask.write_bytes(b"".join(map(encode_line, recording.lines)))
    for line in _head(recording):
        click.echo(line)
    click.echo()
    for one in recording.lines:
        shown = _described(one)
        if shown:
            click.echo(shown)
            if with_bytes:
                _echo_bytes(one)
    click.echo()
    for line in _answer(recording):
        click.echo(line)
    for line in _markers(recording):
        click.echo(line)
    if recording.torn_at is not None or recording.outcome is None:
        where = "" if recording.torn_at is None else f" at byte {recording.torn_at}"
        click.secho(f"The recording ends early{where}; everything before is shown.", fg="yellow")


def _head(recording: "Recording") -> Iterator[str]:
    opening = recording.opening
    moment = datetime.fromtimestamp(opening.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    yield click.style(_printable(f"{opening.id}  {moment}  {opening.program}"), bold=True)
    yield _printable(f"client    {opening.method} {opening.path}, {opening.dialect}")
    for one in recording.attempts:
        status = "no reply" if one.reply is None else str(one.reply.status)
        sent = one.sent
        yield _printable(f"upstream  {sent.upstream}/{sent.model} at {sent.url}: {status}")
    if recording.outcome is not None:
        record = msgspec.json.decode(recording.outcome.record)
        ended = record.get("ended") or "unknown"
        took = f"{record.get('duration_ms', 0):g} ms"
        yield _printable(f"outcome   {recording.outcome.status}, {ended}, {took}")
        for name in ("reason", "failures", "losses"):
            value = record.get(name)
            for one in value if isinstance(value, list) else filter(None, [value]):
                yield click.style(_printable(f"          {name}: {one}"), fg="yellow")


def _described(line: "Line") -> str:
    """Return one line of the timeline; empty: nothing to show."""
    from dragoman.recorder import lines

    match line:
        case lines.Received():
            what = f"request received, {len(line.body.data):,} bytes"
        case lines.Attempt():
            asked = _printable(f"{line.upstream}/{line.model}")
            what = f"asked {asked}, {len(line.body.data):,} bytes"
        case lines.Reply():
            what = f"upstream answered {line.status}"
        case lines.Read():
            what = "upstream ended" if line.ended else f"upstream sent {line.size:,} bytes"
        case lines.Failed():
            what = click.style(_printable(f"gateway gave up: {line.fault.message}"), fg="red")
        case lines.Written():
            what = f"client got {len(line.data.data):,} bytes"
        case lines.ExchangeOutcome():
            what = "end"
        case lines.Events():
            return "\n".join(f"{'':{_MARGIN}}  {_event(bytes(one))}" for one in line.events)
        case _:
            return ""
    return f"{line.at:>{_MARGIN - 3},.1f} ms  {what}"


def _event(data: bytes) -> str:
    fields = msgspec.json.decode(data)
    kind = fields.pop("event")
    facts = " ".join(
        f"{name}={value!r}" for name, value in fields.items() if value not in ("", None)
    )
    return click.style(_printable(f"· {kind} {facts}")[:_EVENT_CHARS], dim=True)


def _echo_bytes(line: "Line") -> None:
    from dragoman.recorder import lines

    match line:
        case lines.Received() | lines.Attempt():
            data = line.body.data
        case lines.Read() | lines.Written():
            data = line.data.data
        case _:
            return
    for one in data.decode("utf-8", "backslashreplace").splitlines():
        click.echo(f"{'':{_MARGIN}}  {click.style(_printable(one), fg='cyan')}")


def _answer(recording: "Recording") -> Iterator[str]:
    """Yield the blocks of the answer: text, reasoning and calls."""
    attempt = recording.answered
    content: list[str] = []
    for data in () if attempt is None else attempt.events:
        event = msgspec.json.decode(data)
        match event["event"]:
            case "block_start":
                content = _server_lines(data) if event.get("server") else []
                name = _printable(f"{event['kind']} {event['name']}".strip())
                yield click.style(name, bold=True)
            case "text" | "reasoning" | "input" | "refusal":
                content.append(event["text"])
            case "args":
                content.append(event["json"])
            case "block_end":
                text = "".join(content)
                yield _printable(text[:_SHOWN_CHARS]) + ("…" if len(text) > _SHOWN_CHARS else "")
                if not event["complete"]:
                    yield click.style("incomplete: must not be run", fg="red")


def _server_lines(data: bytes) -> list[str]:
    """Return what a tool that the vendor ran was asked, or what it found; `data` is the start of its block."""
    from dragoman.turn.events import BlockStart
    from dragoman.turn.server_tools import ServerCall

    server = msgspec.json.decode(data, type=BlockStart).server
    if server is None:
        return []
    if isinstance(server, ServerCall):
        given = bytes(server.arguments).decode()
        asked = " | ".join(server.queries) or server.tool
        return [
            f"{server.does}, run by the vendor: {asked}{'' if given == 'null' else f' {given}'}"
        ]
    lines = [f"{one.shown_title}  {one.url}\n" for one in server.sources]
    if lines:
        lines.insert(0, f"{len(lines)} source{'' if len(lines) == 1 else 's'}\n")
    if server.image is not None:
        lines.append(server.image.url or f"an image of type {server.image.media_type}")
    return [*lines, server.output, f"failed: {server.error}" if server.error else ""]


def _markers(recording: "Recording") -> Iterator[str]:
    """Yield where the upstream's bytes have markers of calls that were written as text."""
    from dragoman.recorder.positions import native_positions

    attempt = recording.answered
    found = [] if attempt is None else native_positions(recording, attempt).markers
    if found:
        yield click.style("markers in the upstream's bytes", bold=True)
    for one in found:
        where = f"{one.start:,} to {one.end:,}"
        yield f"{where:>{_MARGIN + 8}}  {one.family} {one.channel}  {_printable(one.text)}"


def _printable(text: str) -> str:
    """Return a text of a peer that cannot control the terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text
    )
