"""The examples in every `--help` text run as pasted, or at least their options exist."""

import re
import shlex

import click
import pytest

from dragoman.cli.main import COMMANDS, main
from tests.docs.pasted import Example, Stage, examples
from tests.docs.test_blocks import accept

WIDEST = 100  # columns of a line of help
# Slow commands, which serve, start an agent or run a suite; other tests run them.
PARSED = (
    "dragoman serve",
    "dragoman run",
    "dragoman simulate",
    "dragoman mcp",
    "dragoman formats check",
    "dragoman inspect",
    "dragoman import",
    "dragoman tail",
)


def helps() -> list[tuple[str, str]]:
    """Return the names and the help texts of all commands but the first, whose examples have descriptions."""
    found = []
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        found.append((name, command))
        found += [
            (f"{name} {one}", below) for one, below in getattr(command, "commands", {}).items()
        ]
    return [(name, command.help or "") for name, command in found]


def shown(text: str) -> list[Example]:
    """Return the examples of a help text."""
    block = text.partition("\nExamples:\n")[2]
    return list(examples(re.sub(r"^  ", "", block.partition("\n\n")[0], flags=re.MULTILINE)))


EXAMPLES = [(name, one) for name, text in helps() for one in shown(text)]


def is_run(one: Example) -> bool:
    asks = one.typed == "dragoman config init"  # at a terminal
    return not (asks or one.typed.startswith(PARSED)) or "--list" in one.typed


def params(*, run: bool) -> list[object]:
    return [
        pytest.param(one, id=f"{name} {at}")
        for at, (name, one) in enumerate(EXAMPLES)
        if is_run(one) == run
    ]


@pytest.mark.parametrize("example", params(run=True))
def test_example_runs_as_pasted(example: Example, stage: Stage) -> None:
    assert stage.run(example.typed) or "--output" in example.typed


@pytest.mark.parametrize("example", params(run=False))
def test_options_of_an_example_exist(example: Example) -> None:
    accept(shlex.split(example.typed.replace("\\\n", ""))[1:])


def test_every_command_has_examples() -> None:
    assert {name for name, _ in helps()} == {name for name, _ in EXAMPLES}


@pytest.mark.parametrize(("name", "text"), helps(), ids=[name for name, _ in helps()])
def test_lines_are_short_enough_to_read(name: str, text: str) -> None:
    parts = [part for part in re.split(r"\n\n", text) if "\b" in part]  # these are not wrapped

    assert [] == [line for part in parts for line in part.splitlines() if len(line) > WIDEST]
