"""`dragoman`: the table of commands, and the place where errors become one line and an exit code.

A command's module is imported when the command runs, so that `--help` and `--version` are fast;
what only a mistake needs is imported when it is made.
"""

import importlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from dragoman._version import __version__
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    where: str  # module:attribute
    summary: str  # one line for the list of commands


COMMANDS: Final[dict[str, Entry]] = {
    "case": Entry("dragoman.cli.case:command", "Make a test of a recorded exchange."),
    "check": Entry("dragoman.cli.check:command", "Check whether a stream is legal in its dialect."),
    "config": Entry("dragoman.cli.config:command", "Write, check and show the gateway's settings."),
    "diff": Entry("dragoman.cli.diff:command", "Compare recordings with what this version does."),
    "doctor": Entry(
        "dragoman.cli.doctor:command", "Find what is wrong on this machine and with upstreams."
    ),
    "formats": Entry(
        "dragoman.cli.formats:command", "List the formats of tool calls written as text."
    ),
    "import": Entry(
        "dragoman.cli.import_captures:command", "Make recordings of a HAR or mitmproxy file."
    ),
    "inspect": Entry("dragoman.cli.inspect:command", "Look at recordings in a web page."),
    "mcp": Entry("dragoman.cli.mcp:command", "Serve the library as MCP tools."),
    "models": Entry("dragoman.cli.models:command", "List the models that clients can request."),
    "parse": Entry("dragoman.cli.parse:command", "Extract tool calls that a model wrote as text."),
    "probe": Entry("dragoman.cli.probe:command", "Test what an upstream gets right and wrong."),
    "replay": Entry("dragoman.cli.replay:command", "Translate a recorded answer again."),
    "run": Entry("dragoman.cli.run:command", "Run a coding agent on any model."),
    "serve": Entry("dragoman.cli.serve:command", "Run the gateway."),
    "show": Entry("dragoman.cli.show:command", "Print a recorded exchange."),
    "simulate": Entry("dragoman.cli.simulate:command", "Run a simulated model, offline."),
    "tail": Entry("dragoman.cli.tail:command", "Follow the exchanges of a running gateway."),
    "translate": Entry(
        "dragoman.cli.translate:command", "Translate a stream, body or request to another dialect."
    ),
}

_HELP: Final = """Any LLM client, any model, and tool calls that do not break.

Translates between the API dialects `chat` (OpenAI Chat Completions), `anthropic` (Anthropic Messages),
`responses` (OpenAI Responses) and `gemini` (Google), and turns tool calls that models write as text into
structured ones.

\b
Exit codes:
  0  success
  1  the input is bad
  2  wrong usage or settings
  3  an upstream failed

\b
Examples:
  dragoman serve             try the gateway, without a key
  dragoman config init       write settings for your vendor
  dragoman run claude        run Claude Code on the configured models
  dragoman COMMAND --help    options and examples of a command

\b
Tab completion (add the line to your shell's start-up file):
  bash   eval "$(_DRAGOMAN_COMPLETE=bash_source dragoman)"
  zsh    eval "$(_DRAGOMAN_COMPLETE=zsh_source dragoman)"
  fish   _DRAGOMAN_COMPLETE=fish_source dragoman | source
"""

INTERRUPTED: Final = 130  # what a shell reports for a program that Ctrl-C ended
PIPE_CLOSED: Final = 141  # the same for one whose reader left
BAD_FILE: Final = 1


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one gets the nearest name as a hint."""
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete a command's name from the table, importing none."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command.  A user's mistake prints one line, never a traceback."""
        # Python's parser prints warnings about the literals that models write, such as `1or`.
        warnings.filterwarnings("ignore", category=SyntaxWarning, module="<unknown>")
        if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
            ctx.color = False
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
        except OSError as error:
            if error.filename is None:  # not about a file that the user named
                raise
            click.echo(f"dragoman: {error.filename}: {error.strerror}", err=True)
            ctx.exit(BAD_FILE)
        return result


def _discard_output() -> None:
    """Redirect standard output to nowhere, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(
    cls=Commands,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="dragoman %(version)s")
def main() -> None:
    pass


if __name__ == "__main__":
    main(prog_name="dragoman")
