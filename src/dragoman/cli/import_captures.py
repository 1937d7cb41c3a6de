"""`dragoman import`: exchanges that another program captured become recordings."""

from pathlib import Path
from typing import Final

import click

_HELP: Final = """Make recordings of exchanges that another program captured.

FILE is a HAR file (browsers, proxies) or a flow file of mitmproxy (`mitmdump -w FILE`).  Requests to the paths of
the four dialects are imported, without credentials; all others are left out.  `dragoman show` prints a recording,
and `dragoman replay` prints what the gateway would make of the answer.  An exchange that cannot be read is reported
and left out.

\b
Exit codes:
  0  recordings were written
  1  the file cannot be read, or has no exchange with an LLM API

\b
Examples:
  dragoman import --out recordings traffic.har
  dragoman import --out recordings flows.mitm
"""


@click.command("import", help=_HELP, short_help="Make recordings of a HAR or mitmproxy file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder to write to; it is created if needed.",
)
def command(file: Path, *, out: Path) -> None:
    from dragoman.recorder.captures import Capture, dialect_of, read_captures, recording_lines
    from dragoman.recorder.lines import encode_line
    from dragoman.recorder.recording import RecordingError, recording_of
    from dragoman.recorder.writer import file_name

    try:
        captures = list(read_captures(file.read_bytes()))
    except OSError as error:
        raise RecordingError(f"{file}: {error.strerror}") from error
    except RecordingError as error:
        raise RecordingError(f"{file}: {error}") from error
    written = left_out = 0
    for capture in captures:
        if isinstance(capture, Capture) and not dialect_of(capture.method, capture.path):
            left_out += 1
            continue
        try:
            if isinstance(capture, RecordingError):
                raise capture
            lines = recording_lines(capture)
        except RecordingError as error:
            click.echo(f"dragoman: {error}", err=True)
            left_out += 1
            continue
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = out / file_name(capture.time, recording_of(lines).opening.id)
        path.write_bytes(b"".join(map(encode_line, lines)))
        click.echo(path)
        written += 1
    click.echo(f"{written} recordings, {left_out} other exchanges left out", err=True)
    if not written:
        raise RecordingError(f"{file}: no exchange with an LLM API that can be read")
