"""`dragoman replay`: translates a recorded answer again, with this version."""

from pathlib import Path
from typing import Final

import click

from dragoman.cli.options import config_option, own_formats

_HELP: Final = """Translate the upstream's bytes in a recording again, with this version.

Prints what the client would get now.  A recording is a file that `dragoman serve --record DIR` has written.

With --serve, recordings play the upstream instead: a server answers each request with the recorded answer that fits
best (the same request, else the same model, else the same path), with the original pauses.  Then F may be a folder.

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
@click.option("--port", default=8490, help="--serve: the port; 0: any free one.  [default: 8490]")
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
        from dragoman.cli.replay_server import RecordedUpstream, serve

        upstream = RecordedUpstream(list(recording_files([file])), speed=speed)
        if not upstream.size:
            raise RecordingError(f"{file}: no upstream answered, so there is nothing to play")
        serve(upstream, host=host, port=port)
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
