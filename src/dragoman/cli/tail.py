"""`dragoman tail`: the exchanges of a running gateway, one line each."""

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from dragoman.errors import DragomanError

_HELP: Final = """Follow a running gateway: one line for each exchange when it has ended.

A line has the time, the status, the client's dialect, models, upstream, tokens, durations, tool calls and problems.
It reads the events of the gateway's inspector, so a gateway with keys needs one: an ordinary key shows its own
exchanges, a key with `inspect = true` all of them.  Ctrl-C ends it.

\b
Exit codes:
  0  the gateway has stopped
  2  wrong usage, or the key is not accepted
  3  the gateway cannot be reached

\b
Examples:
  dragoman tail
  dragoman tail --url http://127.0.0.1:8484 --key-env DRAGOMAN_KEY
"""
_LEVELS: Final = {"ok": "green", "warn": "yellow", "failed": "red"}
_REFUSED: Final = frozenset({401, 403})


class GatewayError(DragomanError):
    """The gateway cannot be reached."""

    exit_code = 3


@click.command("tail", help=_HELP, short_help="Follow the exchanges of a running gateway.")
@click.option(
    "--url",
    default="http://127.0.0.1:8484",
    help="The gateway's address.  [default: http://127.0.0.1:8484]",
)
@click.option("--key-env", metavar="VAR", help="The environment variable that holds a key.")
@click.option("--json", "as_json", is_flag=True, help="Print each exchange as a JSON object.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N exchanges.")
def command(url: str, *, key_env: str | None, as_json: bool, count: int | None) -> None:
    from itertools import islice

    import msgspec

    key = os.environ.get(key_env, "") if key_env else ""
    if key_env and not key:
        raise click.UsageError(f"the environment variable {key_env} is not set")
    for row in islice(_ended(_lines(url.rstrip("/"), key)), count):
        click.echo(msgspec.json.encode(row) if as_json else _line(row))


def _lines(url: str, key: str) -> Iterator[bytes]:
    """Yield the lines of the gateway's event stream."""
    from http.client import InvalidURL
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--url must begin with http:// or https://")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        asked = Request(f"{url}/inspector/api/live", headers=headers)  # noqa: S310 -- checked above
        with build_opener(ProxyHandler({})).open(asked) as response:
            yield from response
    except HTTPError as error:
        error.close()
        if error.code in _REFUSED:
            raise click.UsageError("the gateway needs a key: use --key-env") from error
        raise GatewayError(f"{url} answered {error.code}") from error
    except (InvalidURL, ValueError) as error:
        raise click.UsageError(f"--url is not an address: {error}") from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError):
            reason = "nothing accepts connections; start `dragoman serve`, or name another address with --url"
        raise GatewayError(f"{url}: {reason}") from error


def _ended(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield each exchange once, when it has ended."""
    import msgspec

    shown: dict[str, None] = {}
    for line in lines:
        if not line.startswith(b"data: "):
            continue
        row = msgspec.json.decode(line[6:])
        if isinstance(row, dict) and row.get("state") == "done" and row["id"] not in shown:
            shown[row["id"]] = None
            if len(shown) > 10_000:
                del shown[next(iter(shown))]
            yield row


def _printable(text: str) -> str:
    """Return a text of a client that cannot control the terminal."""
    return "".join(filter(str.isprintable, text))


def _line(row: dict[str, Any]) -> str:
    row = {
        key: _printable(value) if isinstance(value, str) else value for key, value in row.items()
    }
    moment = time.strftime("%H:%M:%S", time.localtime(row["time"]))
    status = click.style(str(row["status"] or "---"), fg=_LEVELS.get(row["level"], "white"))
    model = row["model"]
    target = f"{row['upstream']}/{model}" if row["upstream"] else model
    asked = f"{row['asked']} → {target}" if row["asked"] not in ("", target, model) else target
    about = "~" if row["estimated"] else ""
    tokens = "" if row["tokens_in"] is None else f"{about}{row['tokens_in']}→{row['tokens_out']}"
    first = "" if row["first_ms"] is None else f", first {row['first_ms'] / 1000:.2f}s"
    parts = (
        moment,
        status,
        row["dialect"],
        asked,
        tokens,
        f"{row['duration_ms'] / 1000:.2f}s{first}",
        f"{row['calls']} calls" if row["calls"] else "",
        row["ended"],
        click.style(", ".join(_printable(one["label"]) for one in row["problems"]), fg="yellow"),
        click.style(row["id"], dim=True),
    )
    return "  ".join(filter(None, parts))
