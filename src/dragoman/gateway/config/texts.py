"""Checks of single texts of the settings: addresses, names, globs, headers, paths.

`check_text` returns the normalised text or a `Problem`.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from yarl import URL

from dragoman.dialects import dialect_names
from dragoman.errors import did_you_mean
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.problems import Problem, shortened
from dragoman.gateway.config.settings import TextKind
from dragoman.gateway.origins import is_loopback
from dragoman.profiles.catalogue import ALIASES as PROFILE_ALIASES
from dragoman.profiles.catalogue import PROFILES
from dragoman.toolcalls.format_names import canonical_name, is_built_in

# What the gateway itself puts behind an address.
_ENDPOINTS: Final = (
    "/chat/completions", "/completions", "/messages/count_tokens", "/messages", "/responses",
    "/models", "/embeddings",
)  # fmt: skip
_UPSTREAM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers that belong to the connection; setting them would break it.
_CONNECTION_HEADERS: Final = frozenset(
    {"connection", "content-length", "content-type", "host", "keep-alive", "te", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip


def is_near(host: str) -> bool:
    """Return whether a host is on this machine or in a private network, as far as its name shows."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return "." not in host.rstrip(".") or host.endswith((".internal", ".lan", ".local"))
    return address.is_loopback or address.is_private


def check_text(kind: TextKind, text: str, environment: ConfigEnvironment) -> str | Problem:
    """Return the normalised text, or the `Problem` with it."""
    match kind:
        case "file":
            return _file(text, environment)
        case "place":
            return _place(text, environment)
        case "expression":
            return _expression(text)
        case _:
            return _CHECKS_OF_TEXT[kind](text)


def _address(text: str) -> str | Problem:
    text = text.strip()
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is not a port number
        # As the name is looked up: a label may be empty, too long, or have characters of no name.
        (URL(text).raw_host or "").encode("idna")
    except UnicodeError:
        return Problem("not an address: its host is not a valid name")
    except ValueError as error:
        return Problem(f"not an address: {error}")
    if parts.scheme not in ("http", "https") or "://" not in text:
        return _without_scheme(text, parts)
    if not parts.hostname:
        return Problem("the address has no host")
    if "@" in parts.netloc:
        return Problem(
            "an address must not contain credentials", 'write the key as `key = "env:NAME"`'
        )
    if parts.query or parts.fragment:
        return Problem("an address must not contain `?` or `#`, because paths are appended to it")
    trimmed = parts.scheme + text[len(parts.scheme) :].rstrip("/")
    for endpoint in _ENDPOINTS:
        if trimmed.endswith(endpoint):
            return Problem(
                f"`{endpoint}` is appended for every request",
                f"write `{trimmed.removesuffix(endpoint)}`",
            )
    if any(character.isspace() for character in text):
        return Problem("an address must not contain spaces")
    return trimmed


def _without_scheme(text: str, parts: SplitResult) -> Problem:
    if "://" in text:
        return Problem(f"`{parts.scheme}` is not supported", "write `http://…` or `https://…`")
    host = text.replace("/", ":").partition(":")[0]
    scheme = "http" if is_loopback(host) else "https"
    return Problem(
        "the address does not begin with `http://` or `https://`", f"write `{scheme}://{text}`"
    )


def _file(text: str, environment: ConfigEnvironment) -> str | Problem:
    if not text:
        return text
    path = environment.resolve(text)
    return str(path) if path.is_file() else Problem(f"there is no file {path}")


def _expression(text: str) -> str | Problem:
    try:
        re.compile(text)
    except re.error as error:
        return Problem(f"not a regular expression: {error}", "see the syntax of Python's `re`")
    return text


def _place(text: str, environment: ConfigEnvironment) -> str | Problem:
    if not text or text == ":memory:":
        return text
    if "\0" in text:
        return Problem("a path must not contain a null character")
    return str(environment.resolve(text))


def _profile(text: str) -> str | Problem:
    return text.strip().lower()  # whether it exists is checked with the whole file


def _own_profile(text: str) -> str | Problem:
    wanted = text.strip().lower()
    if PROFILE_ALIASES.get(wanted, wanted) in PROFILES:
        return Problem(f"there is a built-in profile `{wanted}`", "choose another name")
    if _UPSTREAM_NAME.fullmatch(wanted):
        return wanted
    return Problem("a profile's name may contain only letters, digits, `.`, `_` and `-`")


def _built_in(text: str) -> str | Problem:
    wanted = text.strip().lower()
    if not wanted or PROFILE_ALIASES.get(wanted, wanted) in PROFILES:
        return wanted
    return _unknown("profile", text, [*PROFILES, *PROFILE_ALIASES], sorted(PROFILES))


def _dialect(text: str) -> str | Problem:
    names = dialect_names()
    if text in names:
        return text
    listed = ", ".join(f"`{one}`" for one in sorted(names))
    return Problem(
        f'expected one of {listed}, got the string "{shortened(text)}"', did_you_mean(text, names)
    )


def _format(text: str) -> str | Problem:
    return canonical_name(text)  # whether it exists is checked with the whole file


def _own_format(text: str) -> str | Problem:
    if is_built_in(text):
        return Problem(f"there is a built-in format `{text}`", "choose another name")
    if _UPSTREAM_NAME.fullmatch(text):
        return text
    return Problem("a format's name may contain only letters, digits, `.`, `_` and `-`")


def _unknown(noun: str, text: str, known: list[str], listed: list[str]) -> Problem:
    near = did_you_mean(text, known)
    return Problem(f"no {noun} `{text}`", near or f"there are {', '.join(listed)}")


def _glob(text: str) -> str | Problem:
    return text or Problem("an empty name matches nothing", "write `*` to match every name")


def _meaning(text: str) -> str | Problem:
    if not text:
        return Problem("the value of an alias is the name of a model")
    if text.count("*") > 1:
        return Problem(
            "there is more than one `*`",
            "only one can be replaced by the name that the client sent",
        )
    return text


def _target(text: str) -> str | Problem:
    upstream, slash, model = text.partition("/")
    if not slash:
        return Problem(
            f"`{text}` is not `upstream/model`",
            f"write `{text}/*` to keep the name that the client sent",
        )
    if not upstream or not model:
        return Problem(f"`{text}` is not `upstream/model`")
    if model.count("*") > 1:
        return Problem(
            f"`{text}` has more than one `*`",
            "only one can be replaced by the name that the client sent",
        )
    return text


def _name(text: str) -> str | Problem:
    if _UPSTREAM_NAME.fullmatch(text):
        return text
    return Problem(
        "an upstream's name may contain only letters, digits, `.`, `_` and `-`",
        "in `upstream/model` a slash ends the name" if "/" in text else "",
    )


def _header(text: str) -> str | Problem:
    if not _HEADER_NAME.fullmatch(text):
        return Problem("not a header name")
    if text.lower() in _CONNECTION_HEADERS:
        return Problem("this header belongs to the connection and cannot be set")
    return text


def _host(text: str) -> str | Problem:
    text = text.strip()
    if not text:
        return Problem("no host", "write `127.0.0.1`, or `0.0.0.0` for every network")
    if "//" in text:
        host = urlsplit(text).netloc.partition(":")[0] if text.count("[") == 0 else ""
        return Problem("expected a host name, not a URL", f"write `{host}`" if host else "")
    if "/" in text or any(character.isspace() for character in text):
        return Problem(f"`{text}` is not a host")
    return text


def _origin(text: str) -> str | Problem:
    text = text.strip().lower()
    if text == "*":
        return Problem("every page on the web could use the gateway", "name the pages' origins")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        return Problem(f"not an origin: {error}")
    bare = f"{parts.scheme}://{parts.netloc}"
    if not parts.scheme or not parts.netloc:
        return Problem(f"`{text}` is not an origin", "write `https://host` or `http://host:port`")
    if bare != text.rstrip("/"):
        return Problem("an origin has no path", f"write `{bare}`")
    return bare


def _collector(text: str) -> str | Problem:
    return text if text in ("", "env") else _address(text)


_CHECKS_OF_TEXT: Final[dict[TextKind, Callable[[str], str | Problem]]] = {
    "address": _address,
    "built_in": _built_in,
    "collector": _collector,
    "dialect": _dialect,
    "format": _format,
    "glob": _glob,
    "header": _header,
    "host": _host,
    "meaning": _meaning,
    "name": _name,
    "origin": _origin,
    "own_format": _own_format,
    "own_profile": _own_profile,
    "profile": _profile,
    "target": _target,
}
