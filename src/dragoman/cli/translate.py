"""`dragoman translate`: a stream, an answer or a request from one dialect into another."""

import os
import sys
from pathlib import Path
from typing import IO, Literal

import click
import msgspec

from dragoman.dialects import DIALECT_NAMES
from dragoman.profiles.catalogue import PROFILES
from dragoman.turn.losses import CODES, Loss

_READ_BYTES = 65536
_DIALECT = click.Choice(DIALECT_NAMES)


@click.command(
    name="translate",
    epilog="Exit codes: 0 translated; 1 the input was judged bad, or the answer it tells is a failure "
    "(which is written in the target's dialect all the same); 2 wrong usage.",
)
@click.option("--from", "source", type=_DIALECT, required=True, help="dialect of the input")
@click.option("--to", "target", type=_DIALECT, required=True, help="dialect of the output")
@click.option("--body", "what", flag_value="body", help="the input is a complete response")
@click.option("--request", "what", flag_value="request", help="the input is a request body")
@click.option(
    "--profile",
    default="generic",
    show_default=True,
    type=click.Choice(sorted(PROFILES)),
    help="what the upstream can and cannot do",
)
@click.option("--model", default="", help="the upstream's name for the model")
@click.option(
    "--format",
    "native_format",
    default="auto",
    show_default=True,
    help="family of tool calls written as text, `auto` by the model's name, or `none`",
)
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON list of the tools the request declared, in any dialect's shape",
)
@click.option("--strict", is_flag=True, help="refuse what would lose something")
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
) -> None:
    r"""Translate a response stream (SSE) on standard input, event by event as it arrives.

    What could not be carried, or had to be mended, is told on standard error, one JSON object a line.

    \b
    Examples:
      curl -N … | dragoman translate --from chat --to anthropic
      dragoman translate --from anthropic --to responses --body < answer.json
      dragoman translate --from anthropic --to chat --request --model kimi-k2 --profile moonshot < request.json
    """
    from dragoman.translate import Translator, translate_body
    from dragoman.translate_requests import decode_tools, translate_request

    declared = decode_tools(tools.read_bytes()) if tools else ()
    out = sys.stdout.buffer
    if what == "request":
        body = sys.stdin.buffer.read()
        translated = translate_request(
            body, source=source, target=target, profile=profile, model=model, strict=strict
        )
        _tell(translated.losses)
        out.write(translated.body + b"\n")
        return
    if what == "body":
        answer = translate_body(
            sys.stdin.buffer.read(),
            source=source,
            target=target,
            profile=profile,
            model=model,
            native_format=native_format,
            tools=declared,
            strict=strict,
        )
        _tell(answer.losses)
        out.write(answer.body + b"\n")
        sys.exit(answer.answer.fault is not None)
    translator = Translator(
        source=source,
        target=target,
        profile=profile,
        model=model,
        native_format=native_format,
        tools=declared,
        strict=strict,
    )
    _pump(translator, out)


def _pump(translator: "Translator", out: IO[bytes]) -> None:  # type: ignore[name-defined]  # noqa: F821 -- loaded late
    told = 0
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        out.write(translator.feed(data))
        out.flush()
        _tell(translator.losses[told:])
        told = len(translator.losses)
    out.write(translator.close())
    out.flush()
    _tell(translator.losses[told:])
    sys.exit(bool(getattr(translator.outcome, "kind", None)))


def _tell(losses: "list[Loss] | tuple[Loss, ...]") -> None:
    """Write losses as JSON lines."""
    for loss in losses:
        line = {
            "loss": loss.code,
            "path": loss.path,
            "detail": loss.detail,
            "says": CODES[loss.code],
        }
        print(msgspec.json.encode(line).decode(), file=sys.stderr)
