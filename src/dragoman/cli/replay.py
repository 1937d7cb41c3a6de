"""`dragoman replay`: a recorded answer through the code of today."""

from pathlib import Path
from typing import Final

import click

_HELP: Final = """Translate the upstream's bytes of a recording with the code of today.

Prints what the client would get now.  A recording is a file that `dragoman serve --record DIR` has written.

\b
Exit codes:
  0  translated
  1  the file is not a recording, or no upstream answered

\b
Examples:
  dragoman replay recording.dragoman
  dragoman replay --events --split 1 recording.dragoman
"""


@click.command("replay", help=_HELP, short_help="Translate a recorded answer again.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--events", is_flag=True, help="Print the events instead, one JSON object per line.")
@click.option(
    "--split",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cut the upstream's bytes every N bytes, instead of where they were cut.",
)
def command(file: Path, *, events: bool, split: int | None) -> None:
    from dragoman.recorder.recording import RecordingError, read_recording
    from dragoman.recorder.replay import replay

    recording = read_recording(file)
    attempt = recording.answered
    if attempt is None:
        raise RecordingError(f"{file}: no upstream answered, so there is nothing to translate")
    again = replay(recording, attempt, split=split or 0)
    if events:
        for event in again.events:
            click.echo(bytes(event))
    else:
        click.echo(again.body, nl=False)
