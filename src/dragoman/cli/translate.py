"""`dragoman translate`: translate a stream, a response body or a request body to another dialect."""

import os
import sys
from pathlib import Path
from typing import IO, Final, Literal

import click
import msgspec

from dragoman.cli.options import (
    InputCommand,
    config_option,
    own_formats,
    read_tools,
    warn_if_terminal,
)
from dragoman.dialects import DIALECT_NAMES
from dragoman.profiles.catalogue import PROFILES
from dragoman.turn.losses import CODES, Loss

_READ_BYTES: Final = 65536
_DIALECT: Final = click.Choice(DIALECT_NAMES)


_HELP: Final = """Translate a response stream, a response body or a request body to another dialect.

Reads standard input and writes standard output.  Without --body and --request the input is a response
stream (SSE), translated event by event as it arrives.

Everything that could not be translated, or had to be repaired, is reported on standard error, as one JSON
object per line.

\b
Exit codes:
  0  translated
  1  the input is bad, or the response reports an error (it is written in the target dialect)
  2  wrong usage

\b
Examples:
  echo '{"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}' |
    dragoman translate --from anthropic --to chat --request --profile moonshot --model kimi-k2
  curl -sN http://127.0.0.1:8000/v1/chat/completions -d @request.json |
    dragoman translate --from chat --to anthropic
  dragoman translate --from anthropic --to responses --body < answer.json
"""


@click.command(
    "translate",
    cls=InputCommand,
    help=_HELP,
    short_help="Translate a stream, body or request to another dialect.",
)
@click.option("--from", "source", type=_DIALECT, required=True, help="The dialect of the input.")
@click.option("--to", "target", type=_DIALECT, required=True, help="The dialect of the output.")
@click.option("--body", "what", flag_value="body", help="The input is a complete response body.")
@click.option("--request", "what", flag_value="request", help="The input is a request body.")
@click.option(
    "--profile",
    default="generic",
    show_default=True,
    type=click.Choice(sorted(PROFILES)),
    metavar="NAME",
    help=f"What the upstream can and cannot do: {', '.join(sorted(PROFILES))}.",
)
@click.option("--model", default="", help="The upstream's name for the model.")
@click.option(
    "--format",
    "native_format",
    default="auto",
    show_default=True,
    help="The format of tool calls written as text (see `dragoman formats`), `auto` or `none`.",
)
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with the list of tools that the request declared, in any dialect.  Without it, "
    "everything that looks like a call of the format (--format, or the model's) is one; with an empty list, "
    "nothing is.",
)
@click.option("--strict", is_flag=True, help="Fail instead of dropping anything.")
@config_option
def command(  # noqa: PLR0913 -- one parameter for each option
    *,
    source: str,
    target: str,
    what: Literal["body", "request"] | None,
    profile: str,
    model: str,
    native_format: str,
    tools: Path | None,
    strict: bool,
    path: Path | None,
) -> None:
    from dragoman.toolcalls.format_names import own_format
    from dragoman.translate import Translator, translate_body
    from dragoman.translate_requests import translate_request

    declared = read_tools(tools) if tools else None
    format_ = own_format(model, native_format, own_formats(path))
    warn_if_terminal()
    out = sys.stdout.buffer
    if what == "request":
        body = sys.stdin.buffer.read()
        translated = translate_request(
            body, source=source, target=target, profile=profile, model=model, strict=strict
        )
        _print_losses(translated.losses)
        out.write(translated.body + b"\n")
        return
    if what == "body":
        answer = translate_body(
            sys.stdin.buffer.read(),
            source=source,
            target=target,
            profile=profile,
            model=model,
            native_format=format_,
            tools=declared,
            strict=strict,
        )
        _print_losses(answer.losses)
        out.write(answer.body + b"\n")
        sys.exit(answer.answer.fault is not None)
    translator = Translator(
        source=source,
        target=target,
        profile=profile,
        model=model,
        native_format=format_,
        tools=declared,
        strict=strict,
    )
    _pump(translator, out)


def _pump(translator: "Translator", out: IO[bytes]) -> None:  # type: ignore[name-defined]  # noqa: F821 -- loaded late
    printed = 0
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        out.write(translator.feed(data))
        out.flush()
        _print_losses(translator.losses[printed:])
        printed = len(translator.losses)
    out.write(translator.close())
    out.flush()
    _print_losses(translator.losses[printed:])
    sys.exit(bool(getattr(translator.outcome, "kind", None)))


def _print_losses(losses: "list[Loss] | tuple[Loss, ...]") -> None:
    """Print losses to standard error, one JSON object per line."""
    for loss in losses:
        line = {
            "loss": loss.code,
            "path": loss.path,
            "detail": loss.full_detail,
            "description": CODES[loss.code],
        }
        print(msgspec.json.encode(line).decode(), file=sys.stderr)
