"""`dragoman diff`: what this version does differently from what was recorded."""

from pathlib import Path
from typing import Final

import click
from msgspec import Raw

from dragoman.cli.options import config_option, own_formats
from dragoman.toolcalls.format import Format

_HELP: Final = """Compare recordings with what this version makes of the same bytes.

Each answer is translated again and compared with the recording, event by event.  F is a file, or a
folder whose recordings are all compared.

\b
Exit codes:
  0  nothing differs
  1  something differs, there is no recording, a file is not one, or its format
     is unknown: see --config

\b
Examples:
  dragoman diff recording.dragoman
  dragoman diff --all recording.dragoman
"""
_SHOWN: Final = 3  # differences of a file
_SHOWN_CHARS: Final = 400  # of an event


@click.command("diff", help=_HELP, short_help="Compare recordings with what this version does.")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="F..."
)
@click.option("--all", "everything", is_flag=True, help="Show every event that differs.")
@config_option
def command(paths: tuple[Path, ...], *, everything: bool, path: Path | None) -> None:
    from dragoman.errors import ConfigError
    from dragoman.recorder.recording import RecordingError, recording_files

    formats = own_formats(path)
    same = differing = bad = 0
    for file in recording_files(paths):
        try:
            if _differs(file, formats, everything=everything):
                differing += 1
            else:
                same += 1
        except RecordingError as error:
            click.echo(f"dragoman: {error}", err=True)
            bad += 1
        except ConfigError as error:
            click.echo(f"dragoman: {file}: {error}", err=True)
            bad += 1
    total = same + differing
    if not total and not bad:
        raise RecordingError(f"{', '.join(map(str, paths))}: there is no recording")
    noun = "recording" if total == 1 else "recordings"
    click.echo(f"{total} {noun}: {differing} differ, {same} do not")
    if differing or bad:
        click.get_current_context().exit(1)


def _differs(file: Path, formats: tuple[Format, ...], *, everything: bool) -> bool:
    """Print what differs, and return whether anything does."""
    from dragoman.recorder.recording import read_recording
    from dragoman.recorder.replay import different_bytes, recorded_differences, replay

    recording = read_recording(file)
    attempt = recording.answered
    if attempt is None:
        return False
    again = replay(recording, attempt, formats=formats)
    found = recorded_differences(recording, attempt, again)
    if not found:
        at = different_bytes(recording, again)
        if at is None:
            return False
        click.secho(f"{file}: the events are the same, the client's bytes differ from byte {at}")
        return True
    click.secho(f"{file}: {len(found)} events differ", bold=True)
    for one in found if everything else found[:_SHOWN]:
        click.echo(f"  event {one.index}")
        click.secho(f"  - {_shown(one.recorded)}", fg="red")
        click.secho(f"  + {_shown(one.replayed)}", fg="green")
    return True


def _shown(event: Raw | None) -> str:
    text = "(nothing)" if event is None else bytes(event).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
