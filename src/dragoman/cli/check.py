"""`dragoman check`: report whether a stream is legal in its dialect."""

import sys
from io import BufferedReader
from typing import Final

import click
import msgspec

from dragoman.checker.checker import Checker, Verdict, Violation, rules, takes_lists
from dragoman.cli.options import warn_if_terminal
from dragoman.dialects import DIALECT_NAMES
from dragoman.recorder.lines import SUFFIX

_PIECE: Final = 65536  # bytes of one read

_HELP: Final = """Check whether a stream of server-sent events is legal in its dialect.

Reads FILE, or standard input, and applies the rules that clients of the dialect depend on: the order of
events, required fields, tool-call arguments that are valid JSON, a proper end.  A stream that reports an
error in its dialect is legal; a stream that just stops is not.  A Gemini stream may also be one JSON list.

A recording (FILE ends with `.dragoman`) needs no dialect: the stream of the upstream and the stream that the
client got are checked, each by the rules of its dialect.

Prints `legal:` with counts and how the stream ended, or `illegal:` with the frame (from 1), the byte
offset, the rule and the reason of the first violation, followed by the counts.

\b
Exit codes:
  0  the stream is legal
  1  the stream is not legal, or exceeds a limit
  2  wrong usage

\b
Examples:
  curl -sN http://127.0.0.1:8484/v1/messages -d @request.json | dragoman check --dialect anthropic
  dragoman check --dialect anthropic --all recorded.sse
  dragoman check --dialect anthropic --json recorded.sse | jq .violations
  dragoman check --dialect anthropic --rules
  dragoman check recording.dragoman
"""


@click.command("check", help=_HELP, short_help="Check whether a stream is legal in its dialect.")
@click.option(
    "--dialect",
    "-d",
    type=click.Choice(DIALECT_NAMES),
    help="The dialect of the stream; not needed for a recording.",
)
@click.option(
    "--all", "every", is_flag=True, help="Show every violation (at most 100) instead of the first."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object with all violations and counts."
)
@click.option("--rules", "list_rules", is_flag=True, help="List the dialect's rules and exit.")
@click.argument("file", type=click.File("rb"), default="-")
def command(
    dialect: str | None, *, every: bool, as_json: bool, list_rules: bool, file: BufferedReader
) -> None:
    if dialect is None and str(getattr(file, "name", "")).endswith(SUFFIX):
        _check_recording(file, every=every, as_json=as_json)
        return
    if dialect is None:
        raise click.MissingParameter(param_hint="'--dialect' / '-d'", param_type="option")
    if list_rules:
        _print_rules(dialect, as_json=as_json)
        return
    if file.isatty():
        warn_if_terminal()
    verdict = _check(dialect, file)
    if as_json:
        click.echo(msgspec.json.encode(verdict))
    else:
        _print_verdict(verdict, every=every)
    if not verdict.legal:
        sys.exit(1)


def _print_verdict(verdict: Verdict, *, every: bool) -> None:
    if verdict.legal:
        click.echo(f"legal: {_summary(verdict)}")
        return
    shown = verdict.violations if every else verdict.violations[:1]
    for violation in shown:
        click.echo(_line(violation))
    more = len(verdict.violations) + verdict.unlisted - len(shown)
    tail = f"; {more} more{'' if every else ' (--all shows them)'}" if more else ""
    click.echo(f"{_summary(verdict)}{tail}")


def _check_recording(file: BufferedReader, *, every: bool, as_json: bool) -> None:
    """Check the two streams of a recorded exchange."""
    from dragoman.recorder.recording import parse_recording

    recording = parse_recording(file.read(), file.name)
    client = b"".join(one.data.data for one in recording.written)
    streams = [("client", recording.opening.dialect, client)]
    attempt = recording.answered
    if attempt is not None and attempt.reply is not None and attempt.reply.translation is not None:
        source = attempt.reply.translation.source
        streams.insert(0, ("upstream", source, b"".join(attempt.pieces())))
    verdicts = {
        side: (name, verdict_of(name, data))
        for side, name, data in streams
        if _is_stream(name, data)
    }
    if as_json:
        click.echo(msgspec.json.encode({side: verdict for side, (_, verdict) in verdicts.items()}))
    else:
        for side, name, _ in streams:
            click.secho(f"{side}, {name}", bold=True)
            if side in verdicts:
                _print_verdict(verdicts[side][1], every=every)
            else:
                click.echo("not a stream")
    if not all(verdict.legal for _, verdict in verdicts.values()):
        sys.exit(1)


def _is_stream(dialect: str, data: bytes) -> bool:
    begins = data.lstrip()[:1]
    return bool(data) and begins not in (b"{", b"<") and (begins != b"[" or takes_lists(dialect))


def verdict_of(dialect: str, data: bytes) -> Verdict:
    """Return whether a complete stream is legal."""
    checker = Checker(dialect)
    checker.feed(data)
    checker.close()
    return checker.verdict


def _check(dialect: str, file: BufferedReader) -> Verdict:
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
