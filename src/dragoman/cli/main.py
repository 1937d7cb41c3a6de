"""`dragoman`: the table of commands, and the edge where errors become one line and an exit code.

A command's module is imported when the command is asked for, so that `--help` and `--version` are fast.
"""

import importlib
import os
import sys
from typing import Final, NamedTuple

import click

from dragoman._version import __version__
from dragoman.errors import DragomanError


class Entry(NamedTuple):
    where: str  # module:attribute
    says: str  # one line for the list of commands


COMMANDS: Final[dict[str, Entry]] = {
    "check": Entry("dragoman.cli.check:command", "Judge whether a stream is legal in its dialect."),
    "config": Entry("dragoman.cli.config:command", "Write, judge and show the gateway's settings."),
    "formats": Entry("dragoman.cli.formats:command", "List the families of native tool calls."),
    "mcp": Entry("dragoman.cli.mcp:command", "Serve the library as tools for agents."),
    "models": Entry("dragoman.cli.models:command", "List the models that clients may ask for."),
    "parse": Entry("dragoman.cli.parse:command", "Find the tool calls that a model wrote as text."),
    "probe": Entry("dragoman.cli.probe:command", "Find out what an upstream gets wrong."),
    "run": Entry("dragoman.cli.run:command", "Run a coding agent on any model."),
    "serve": Entry("dragoman.cli.serve:command", "Run the gateway."),
    "simulate": Entry("dragoman.cli.simulate:command", "Play a model, offline."),
    "translate": Entry(
        "dragoman.cli.translate:command", "Turn a stream, body or request into another dialect."
    ),
}

INTERRUPTED: Final = 130  # what a shell reports for a program that Ctrl-C ended
PIPE_CLOSED: Final = 141  # the same for one whose reader left


class Commands(click.Group):
    """The group of all commands, loaded one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.where.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)  # noqa: S101 -- our own modules
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.says) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command.  A user's mistake is one line, never a traceback."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except DragomanError as error:
            click.echo(f"dragoman: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(PIPE_CLOSED)
        return result


def _discard_output() -> None:
    """Let the interpreter flush what is left at its end without a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 good, 1 the input was judged bad, 2 wrong usage, 3 upstream failure.",
)
@click.version_option(__version__, message="dragoman %(version)s")
def main() -> None:
    """Any LLM client, any model, and tool calls that do not break.

    Translates between the API dialects `chat` (OpenAI Chat Completions), `anthropic` (Messages) and
    `responses` (OpenAI Responses), and turns tool calls that models write as text into real ones.
    """


if __name__ == "__main__":
    main()
