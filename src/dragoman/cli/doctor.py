"""`dragoman doctor`: what is wrong on this machine, in the settings and with the upstreams, and what to do."""

import errno
import os
import platform
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import click
import msgspec
from msgspec import Struct, structs

from dragoman._version import __version__
from dragoman.agents import AGENTS
from dragoman.cli.live_check import LiveRow, ask_upstreams, exit_code
from dragoman.cli.options import address_options
from dragoman.cli.tables import print_table, table_console
from dragoman.errors import ConfigError
from dragoman.gateway.config.load import FILE_VARIABLE, Flags, Loaded, load, usual_files
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.settings import Settings
from dragoman.gateway.responses.database import default_path
from dragoman.probe.response import printable

if TYPE_CHECKING:
    from dragoman.agents.agent import Agent

_HELP: Final = """Look for problems on this machine, and print what to do about each.

Checks versions, the settings, every upstream (as `dragoman config check --live` does, which costs a few
tokens), the agents on PATH, the gateway's port, proxy variables, the folders it writes to, trusted
certificates and the clock.  No key is shown.

\b
Exit codes:
  0  nothing is wrong; there may be warnings
  1  something on this machine or in the settings is wrong
  2  wrong usage
  3  an upstream cannot be reached, refuses the key or fails

\b
Examples:
  dragoman doctor
  dragoman doctor --offline
  dragoman doctor --upstream https://openrouter.ai/api/v1
  dragoman doctor --json | jq '.findings[] | select(.status != "ok")'
"""
Status = Literal["ok", "note", "warning", "problem"]
_COLOURS: Final = {"ok": "green", "note": "dim", "warning": "yellow", "problem": "bold red"}
_PACKAGES: Final = (
    "aiohappyeyeballs", "aiohttp", "click", "httptools", "msgspec", "rich", "uvloop", "yarl", "mcp",
)  # fmt: skip
_OPTIONAL: Final = {"uvloop": "", "mcp": "`dragoman mcp` needs it: pip install 'dragoman[mcp]'"}
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY: Final = "NO_PROXY"
_AGENT_SECONDS: Final = 15.0  # an agent's `--version` starts a whole JavaScript engine
_HEALTH_SECONDS: Final = 3.0
_HEALTH_BYTES: Final = 64 * 1024
_MOST_SKEW: Final = 300.0  # seconds; certificates and signed requests tolerate about as much


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was checked."""

    area: str
    status: Status
    found: str
    advice: str = ""  # what to do; empty: nothing


@click.command(
    "doctor", help=_HELP, short_help="Find what is wrong on this machine and with upstreams."
)
@address_options
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port to check.  [default: the settings', else 8484]",
)
@click.option("--offline", is_flag=True, help="Do not ask the upstreams.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    path: Path | None,
    *,
    flags: Flags,
    port: int | None,
    offline: bool,
    as_json: bool,
) -> None:
    flags = structs.replace(flags, port=port)
    environ, cwd = os.environ, Path.cwd()
    findings = [*_versions()]
    loaded = _settings(path, flags, environ, cwd, findings)
    settings = Settings() if loaded is None else loaded.settings
    rows: list[LiveRow] = []
    if settings.upstreams and not offline:
        rows = ask_upstreams(settings)
        findings += [*map(_upstream, rows), *_clock(rows)]
    server = settings.server
    findings += [
        *_agents(),
        _port(server.host, port or server.port),
        *_proxies(environ),
        *_folders(settings, environ),
        _certificates(environ),
    ]
    bad = any(one.status == "problem" and one.area != "upstream" for one in findings)
    code = exit_code(rows) or int(bad)
    if as_json:
        click.echo(msgspec.json.encode({"good": not code, "findings": findings, "upstreams": rows}))
    else:
        _print(findings)
    sys.exit(code)


def _print(findings: Sequence[Finding]) -> None:
    rows = [
        (one.area, (one.status, _COLOURS[one.status]), one.found, one.advice) for one in findings
    ]
    console = table_console()
    print_table(console, ("area", "status", "found", "what to do"), rows, fixed=("area", "status"))
    counts = {name: sum(one.status == name for one in findings) for name in ("problem", "warning")}
    words = [
        f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count
    ]
    click.echo(", ".join(words) or "nothing is wrong")


# --- this program ---


def _versions() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()}"
    yield Finding(
        area="versions",
        status="ok",
        found=f"dragoman {__version__}, Python {platform.python_version()}, {system}",
    )
    versions: list[str] = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            if name not in _OPTIONAL:
                yield Finding(
                    area="versions",
                    status="problem",
                    found=f"{name} is not installed",
                    advice="install dragoman again with its dependencies",
                )
            elif _OPTIONAL[name]:
                yield Finding(
                    area="versions",
                    status="note",
                    found=f"{name} is not installed",
                    advice=_OPTIONAL[name],
                )
    yield Finding(area="versions", status="ok", found=", ".join(versions))


def _settings(
    path: Path | None,
    flags: Flags,
    environ: Mapping[str, str],
    cwd: Path,
    findings: list[Finding],
) -> Loaded | None:
    """Read the settings, and add what was found; None: they cannot be used."""
    try:
        loaded = load(path, environ=environ, cwd=cwd, flags=flags)
    except ConfigMistakesError as error:
        findings += [
            Finding(
                area="settings",
                status="problem",
                found=f"{error.source}: {one.path}: {one.message}".removeprefix(": "),
                advice=one.suggestion or "correct the file; docs/configuration.md lists every key",
            )
            for one in error.mistakes
        ]
        return None
    except ConfigError as error:
        findings.append(
            Finding(area="settings", status="problem", found=str(error), advice="correct the path")
        )
        return None
    looked = ", ".join([f"${FILE_VARIABLE}", *map(str, usual_files(environ, cwd))])
    if loaded.path is not None:
        findings.append(Finding(area="settings", status="ok", found=f"{loaded.path} is valid"))
    elif flags.upstream is None:
        findings.append(
            Finding(
                area="settings",
                status="note",
                found=f"no file (looked at {looked}): the built-in simulator answers",
                advice="write one with `dragoman config init`, or pass --upstream URL",
            )
        )
    findings += [
        Finding(
            area="settings",
            status="warning",
            found=f"{one.path}: {one.message}".removeprefix(": "),
            advice=one.suggestion,
        )
        for one in loaded.warnings
    ]
    return loaded


# --- upstreams ---


def _upstream(row: LiveRow) -> Finding:
    if row.verdict == "good":
        listed = "no list of models" if row.models is None else f"{row.models} models"
        found = f"{row.upstream}: {row.model} answers in {row.ms} ms, {listed}"
        return Finding(area="upstream", status="ok", found=found)
    return Finding(
        area="upstream",
        status="problem",
        found=f"{row.upstream} ({row.url}): {row.reason}",
        advice=row.advice or "see docs/troubleshooting.md; `dragoman probe` shows more",
    )


def _clock(rows: Sequence[LiveRow]) -> Iterator[Finding]:
    """Compare our clock with those of the upstreams."""
    skews = [row.clock_skew for row in rows if row.clock_skew is not None]
    if not skews:
        return
    skew = min(skews, key=abs)  # one server's clock may be wrong; the nearest one decides
    if abs(skew) <= _MOST_SKEW:
        yield Finding(area="clock", status="ok", found="agrees with the upstreams' clocks")
        return
    behind = "behind" if skew > 0 else "ahead of"
    yield Finding(
        area="clock",
        status="warning",
        found=f"{abs(skew):.0f} s {behind} the upstreams' clocks",
        advice="set the clock, with NTP: certificates are checked against it",
    )


# --- agents ---


def _agents() -> list[Finding]:
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        return list(pool.map(_agent, AGENTS.values()))


def _agent(agent: "Agent") -> Finding:
    program = shutil.which(agent.program)
    if program is None:
        return Finding(
            area="agent",
            status="note",
            found=f"{agent.title} is not on PATH",
            advice=f"{agent.install}, if you want to use it",
        )
    try:
        done = subprocess.run(  # noqa: S603 -- the user's own agent
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_AGENT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        shown, good = f"no version within {_AGENT_SECONDS:g} s", False
    except OSError as error:
        shown, good = f"cannot be started: {error.strerror}", False
    else:
        text = done.stdout.strip() or done.stderr.strip()
        shown = printable((text.splitlines() or [b""])[0].decode("utf-8", "replace"))
        good = done.returncode == 0
        shown = shown if good else f"`--version` ends with {done.returncode}: {shown}"
    return Finding(
        area="agent",
        status="ok" if good else "warning",
        found=f"{agent.title}: {shown} ({program})",
        advice="" if good else f"install it again: {agent.install}",
    )


# --- the port ---


def _port(host: str, port: int) -> Finding:
    """Find out whether the gateway could listen, and who does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    where = f"{f'[{host}]' if ':' in host else host}:{port}"
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return Finding(
                    area="port",
                    status="problem",
                    found=f"cannot listen on {where}: {error.strerror or error}",
                    advice="choose another with --port or --host",
                )
        else:
            return Finding(area="port", status="ok", found=f"{where} is free")
    who = _who_listens(host, port)
    if who:
        return Finding(
            area="port",
            status="note",
            found=f"{who} listens on {where}",
            advice="use it with `--gateway`, or end it before you start another on the same port",
        )
    return Finding(
        area="port",
        status="warning",
        found=f"{where} is in use by a program that is not dragoman",
        advice="end that program, or choose another port with --port or `server.port`",
    )


def _who_listens(host: str, port: int) -> str:
    """Return the dragoman that listens on a port of this machine, empty if it is not one."""
    near = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{near}:{port}/health", timeout=_HEALTH_SECONDS) as response:
            facts = msgspec.json.decode(response.read(_HEALTH_BYTES))
    except (OSError, HTTPException, msgspec.DecodeError, UnicodeError):
        return ""
    if not isinstance(facts, dict) or facts.get("name") != "dragoman":
        return ""
    return f"dragoman {printable(str(facts.get('version', '')))}"


# --- the environment ---


def _proxies(environ: Mapping[str, str]) -> Iterator[Finding]:
    given = {name: value for name in _PROXIES if (value := _variable(environ, name))}
    exempt = _variable(environ, _NO_PROXY)
    if not given:
        yield Finding(area="proxy", status="ok", found="no proxy variable is set")
        return
    shown = ", ".join(f"{name}={_masked(value)}" for name, value in given.items())
    yield Finding(
        area="proxy",
        status="note",
        found=f"{shown}, {_NO_PROXY}={exempt or '(not set)'}",
        advice='upstreams use them only with `proxy = "env"`',
    )
    names = {one.strip().lower() for one in exempt.split(",")}
    if not names & {"*", "127.0.0.1", "localhost", "::1"}:
        yield Finding(
            area="proxy",
            status="warning",
            found=f"{_NO_PROXY} does not list this machine: clients may send local requests to the proxy",
            advice=f"export {_NO_PROXY}={exempt + ',' if exempt else ''}127.0.0.1,localhost,::1",
        )


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name.lower()) or environ.get(name) or "").strip()


def _masked(address: str) -> str:
    """Return a proxy's address without its credentials."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(not an address)"
    user = "***@" if "@" in address else ""
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return printable(f"{scheme}{user}{host}{f':{port}' if port else ''}") or "(not an address)"


def _folders(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    state = Path(default_path(environ))
    wanted = {"log of `dragoman run`": state.parent}
    if settings.store.responses == "sqlite":
        wanted["store of responses"] = Path(settings.store.path or state).parent
    for what, folder in wanted.items():
        problem = _unwritable(folder)
        yield Finding(
            area="folder",
            status="problem" if problem else "ok",
            found=f"{folder} ({what}) {problem or 'is writable'}",
            advice="change its owner or mode, or set `store.path` or XDG_STATE_HOME"
            if problem
            else "",
        )


def _unwritable(folder: Path) -> str:
    """Return why nothing can be written into a folder, or made there; empty if it can."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    if not there.is_dir():
        return f"cannot be made: {there} is not a folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"is not writable ({there})"


def _certificates(environ: Mapping[str, str]) -> Finding:
    paths = ssl.get_default_verify_paths()
    for name in (paths.openssl_cafile_env, paths.openssl_capath_env):
        value = environ.get(name, "")
        if value and not Path(value).exists():
            return Finding(
                area="certificates",
                status="problem",
                found=f"{name}={value} does not exist",
                advice=f"correct or unset {name}",
            )
    count = ssl.create_default_context().cert_store_stats()["x509_ca"]
    folder = Path(paths.capath or paths.openssl_capath)
    if count or (folder.is_dir() and any(folder.iterdir())):
        found = f"{count} authorities are trusted" if count else f"authorities are in {folder}"
        return Finding(area="certificates", status="ok", found=found)
    return Finding(
        area="certificates",
        status="problem",
        found="no certificate authority is trusted: every https upstream will fail",
        advice="install the system's certificates (ca-certificates), or set SSL_CERT_FILE or `tls.ca`",
    )
