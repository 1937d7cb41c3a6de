"""`dragoman check`: judge a stream."""

import sys
from io import BufferedReader
from typing import Final

import click
import msgspec

from dragoman.checker.checker import Checker, Verdict, Violation, rules
from dragoman.dialects import DIALECT_NAMES

_PIECE: Final = 65536  # bytes of one read

_HELP: Final = """Judge whether a stream of server-sent events is legal in its dialect.

Reads FILE, or standard input, and demands what clients of the dialect demand: the order of events, the
fields their readers use, arguments that are JSON at every cut, an end.  A stream that tells a failure
in its dialect is legal; one that just stops is not.

Prints `legal:` with the counts and how the stream ended; or `illegal:` with the first illegal place, as
frame (from 1), byte offset, rule and reason, and the counts below it.

\b
Exit codes:
  0  the stream is legal
  1  it is not, or it passes a limit
  2  wrong usage

\b
Examples:
  curl -sN "$URL/v1/messages" -d @request.json … | dragoman check --dialect anthropic
  dragoman check --dialect chat --all recorded.sse
  dragoman check --dialect responses --json recorded.sse | jq .violations
  dragoman check --dialect anthropic --rules
"""


@click.command("check", help=_HELP, short_help="Judge whether a stream is legal in its dialect.")
@click.option(
    "--dialect",
    "-d",
    type=click.Choice(DIALECT_NAMES),
    required=True,
    help="The dialect the stream claims to be in.",
)
@click.option("--all", "every", is_flag=True, help="Show every violation (at most 100), not one.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object with all that was found."
)
@click.option("--rules", "list_rules", is_flag=True, help="List the dialect's rules and exit.")
@click.argument("file", type=click.File("rb"), default="-")
def command(
    dialect: str, *, every: bool, as_json: bool, list_rules: bool, file: BufferedReader
) -> None:
    if list_rules:
        _print_rules(dialect, as_json=as_json)
        return
    verdict = _judge(dialect, file)
    if as_json:
        click.echo(msgspec.json.encode(verdict))
    elif verdict.legal:
        click.echo(f"legal: {_summary(verdict)}")
    else:
        shown = verdict.violations if every else verdict.violations[:1]
        for violation in shown:
            click.echo(_line(violation))
        more = len(verdict.violations) + verdict.unlisted - len(shown)
        tail = f"; {more} more{'' if every else ' (--all shows them)'}" if more else ""
        click.echo(f"{_summary(verdict)}{tail}")
    if not verdict.legal:
        sys.exit(1)


def _judge(dialect: str, file: BufferedReader) -> Verdict:
    checker = Checker(dialect)
    while piece := file.read1(_PIECE):
        checker.feed(piece)
    checker.close()
    return checker.verdict


def _line(violation: Violation) -> str:
    path = f" (at `{violation.path}`)" if violation.path else ""
    return (
        f"illegal: frame {violation.frame}, byte {violation.offset}: "
        f"{violation.rule}: {violation.reason}{path}"
    )


def _summary(verdict: Verdict) -> str:
    counts = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (verdict.frames, "frame"),
            (verdict.blocks, "block"),
            (verdict.calls, "call"),
        )
    )
    return f"{counts}, ended with {verdict.ended}"


def _print_rules(dialect: str, *, as_json: bool) -> None:
    table = rules(dialect)
    if as_json:
        click.echo(msgspec.json.encode(table))
        return
    width = max(map(len, table))
    for name, prose in table.items():
        click.echo(f"{name:{width}}  {prose}")
