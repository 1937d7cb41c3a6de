"""What the settings file refers to: environment variables, `.env`, and the files that it names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.gateway.config.problems import Mistake, Problem
from dragoman.gateway.config.settings import Secret
from dragoman.limits import KIB, MIB
from dragoman.transport.proxy import DIRECT, ENVIRONMENT, ProxyRule, environment_rule, fixed_rule

# Far more than settings need: a larger file was named by mistake.
MAX_FILE_BYTES: Final = MIB
MAX_SECRET_BYTES: Final = 64 * KIB

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|([A-Z][A-Z0-9]*_[A-Z0-9_]+)")
_DOTENV_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
# A value in quotes, and what may follow it.
_QUOTED: Final = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
_COMMENT: Final = re.compile(r"(?:^|\s)#")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


class ConfigEnvironment(Struct, frozen=True, kw_only=True):
    """Resolves the names and relative paths in the file."""

    environ: Mapping[str, str]
    folder: Path  # of the file

    def resolve(self, text: str) -> Path:
        """Return the path that a text of the file means: `~` is home, the rest is beside the file."""
        home = self.environ.get("HOME")
        if home and (text == "~" or text.startswith("~/")):
            return Path(home, text[2:])
        return self.folder / text


def read_text(path: Path, *, limit: int = MAX_FILE_BYTES) -> str | Problem:
    """Return a file's text, or why there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:  # a null character in a path is a ValueError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Problem(f"cannot read {path}: {reason[:1].lower()}{reason[1:]}")
    if len(data) > limit:
        return Problem(f"{path} is larger than {limit} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Problem(f"{path} is not UTF-8 (byte {error.start})")


# --- secrets ---


def find_secret(source: str, environment: ConfigEnvironment) -> Secret | Problem:
    """Look up the secret that `env:NAME` or `file:PATH` refers to.  No message shows its value."""
    kind, colon, rest = source.partition(":")
    match kind, colon:
        case "env", ":":
            found = _from_environment(rest, environment)
        case "file", ":":
            found = _from_file(rest, environment)
        case "redis" | "rediss", ":" if "@" not in rest:
            found = source  # an address without a password
        case _:
            return _bare(source)
    if isinstance(found, Problem):
        return found
    if not found:
        return Problem(f"`{source}` is empty")
    if any(not " " <= character <= "~" for character in found):
        return Problem(f"the value of `{source}` has characters that are not allowed in a header")
    return Secret(source=source, value=found)


def is_reference(text: str) -> bool:
    """Return whether a text refers to a secret."""
    return text.startswith(("env:", "file:"))


def _from_environment(name: str, environment: ConfigEnvironment) -> str | Problem:
    if not _VARIABLE.fullmatch(name):
        return Problem(f"`{name}` is not a variable name", "write `env:NAME`")
    value = environment.environ.get(name)
    if value is None:
        return Problem(
            f"environment variable {name} is not set",
            f"export {name}=… or write that line into {environment.folder / '.env'}",
        )
    return value.strip()


def _from_file(name: str, environment: ConfigEnvironment) -> str | Problem:
    if not name:
        return Problem("`file:` has no path", "write `file:PATH`")
    text = read_text(environment.resolve(name), limit=MAX_SECRET_BYTES)
    return text if isinstance(text, Problem) else text.strip()


def _bare(text: str) -> Problem:
    variable = _SHELL_VARIABLE.fullmatch(text.strip())
    if variable:
        return Problem(
            "a variable is written differently here", f"write `env:{variable[1] or variable[2]}`"
        )
    return Problem(
        "a secret must not be in the file itself",
        "put it into an environment variable and write `env:NAME`, or into a file and write `file:PATH`",
    )


# --- proxies ---


def find_proxy(source: str, environment: ConfigEnvironment) -> ProxyRule | Problem:
    """Return the proxy that an upstream's `proxy` means.  No message shows credentials."""
    if source == DIRECT:
        return ProxyRule(source=DIRECT)
    if source == ENVIRONMENT:
        return environment_rule(environment.environ)
    address = source
    if is_reference(source):
        secret = find_secret(source, environment)
        if isinstance(secret, Problem):
            return secret
        address = secret.value
    elif "@" in source:
        return Problem(
            "a password must not be in the file or on the command line",
            "put the whole address into an environment variable and write `env:NAME`",
        )
    try:
        return fixed_rule(address, source=source)
    except ConfigError as error:
        return Problem(str(error), "or `env`, `env:NAME`, `file:PATH`, `none`")


# --- .env ---


def read_dotenv(path: Path) -> tuple[dict[str, str], list[Mistake]]:
    """Return the variables of a `.env` file, and warnings about lines that cannot be read."""
    if not path.is_file():
        return {}, []
    text = read_text(path)
    if isinstance(text, Problem):
        return {}, [Mistake(".env", text.message, text.suggestion)]
    return parse_dotenv(text)


def parse_dotenv(text: str) -> tuple[dict[str, str], list[Mistake]]:
    """Read lines `NAME=value`, with or without `export`, quotes and comments."""
    found: dict[str, str] = {}
    warnings = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        parts = _DOTENV_LINE.fullmatch(stripped)
        value = None if parts is None else _dotenv_value(parts[2])
        if parts is None or value is None:
            # The line may hold half a secret: it is not shown.
            warnings.append(Mistake(f".env:{number}", "not a line `NAME=value`; ignored"))
        else:
            found[parts[1]] = value
    return found, warnings


def _dotenv_value(text: str) -> str | None:
    """Return the value behind the `=`, or None if its quotes do not close on this line."""
    if not text.startswith(("'", '"')):
        return _COMMENT.split(text, maxsplit=1)[0].strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted[1] is not None:
        return quoted[1]
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[2])
