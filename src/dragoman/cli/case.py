"""`dragoman case`: a recording becomes a test."""

from pathlib import Path
from typing import Final

import click

_HELP: Final = """Make a test of a recording, so that a failure that was seen once is tested for from then on.

With --pytest, DIR gets a test file and a copy of the recording.  Every project that has dragoman installed can run
the test; it fails if a later version translates the recorded bytes differently.  Without --pytest, DIR gets a case
for the corpus of this project: the stream, the request and the events.  If the gateway continued the answer with
further requests, each response gets a case; the test of --pytest joins them as the gateway did.

The files contain the conversation; to make a copy without it first, use `dragoman show --mask`.

\b
Exit codes:
  0  written
  1  the file is not a recording, or no upstream answered

\b
Examples:
  dragoman case --pytest --out tests recording.dragoman
  dragoman case --out cases --name kimi_reasoning recording.dragoman
"""


@click.command("case", help=_HELP, short_help="Make a test of a recorded exchange.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder to write to; it is created if needed.",
)
@click.option("--pytest", "as_test", is_flag=True, help="Write a test file for pytest.")
@click.option("--name", metavar="NAME", help="The name of the test.  [default: model and id]")
def command(file: Path, *, out: Path, as_test: bool, name: str | None) -> None:
    from dragoman.recorder.case import case_name, corpus_files, pytest_files
    from dragoman.recorder.recording import read_recording

    if name is not None and not name.isidentifier():
        raise click.BadParameter("use letters, digits and `_`", param_hint="--name")
    recording = read_recording(file)
    name = name or case_name(recording)
    files = pytest_files(recording, name) if as_test else corpus_files(recording, name)
    for one, data in files.items():
        (out / one).parent.mkdir(parents=True, exist_ok=True)
        (out / one).write_bytes(data)
        click.echo(out / one)
