"""What the texts of the file stand for, and how each kind is judged.

A judge returns the text that is meant (an address without its last slash, a path resolved) or what is
wrong with it.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from dragoman.gateway.config.mistakes import Problem, did_you_mean
from dragoman.gateway.config.settings import TextKind
from dragoman.gateway.config.surroundings import Surroundings
from dragoman.gateway.origins import is_loopback
from dragoman.profiles.catalogue import ALIASES as PROFILE_ALIASES
from dragoman.profiles.catalogue import PROFILES
from dragoman.toolcalls.detection import STANDARD
from dragoman.toolcalls.formats import ALIASES as FORMAT_ALIASES
from dragoman.toolcalls.formats import FORMATS

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
    """Return whether a host is on this machine or in a network of its own, as far as its name says."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return "." not in host.rstrip(".") or host.endswith((".internal", ".lan", ".local"))
    return address.is_loopback or address.is_private


def judge(kind: TextKind, text: str, around: Surroundings) -> str | Problem:
    """Return the text that is meant, or what is wrong with it."""
    match kind:
        case "file":
            return _file(text, around)
        case "place":
            return _place(text, around)
        case _:
            return _JUDGES[kind](text)


def _address(text: str) -> str | Problem:
    text = text.strip()
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is no number of a port
    except ValueError as error:
        return Problem(f"not an address: {error}")
    if parts.scheme not in ("http", "https") or "://" not in text:
        return _without_scheme(text, parts)
    if not parts.hostname:
        return Problem("the address names no host")
    if "@" in parts.netloc:
        return Problem("an address holds no credentials", 'write the key as `key = "env:NAME"`')
    if parts.query or parts.fragment:
        return Problem("an address has no `?` and no `#`: paths are put behind it")
    trimmed = parts.scheme + text[len(parts.scheme) :].rstrip("/")
    for endpoint in _ENDPOINTS:
        if trimmed.endswith(endpoint):
            return Problem(
                f"`{endpoint}` is put behind it for every request",
                f"write `{trimmed.removesuffix(endpoint)}`",
            )
    if any(character.isspace() for character in text):
        return Problem("an address has no blanks")
    return trimmed


def _without_scheme(text: str, parts: SplitResult) -> Problem:
    if "://" in text:
        return Problem(f"`{parts.scheme}` is not spoken", "write `http://…` or `https://…`")
    host = text.replace("/", ":").partition(":")[0]
    scheme = "http" if is_loopback(host) else "https"
    return Problem(
        "the address begins with no `http://` or `https://`", f"write `{scheme}://{text}`"
    )


def _file(text: str, around: Surroundings) -> str | Problem:
    if not text:
        return text
    path = around.resolve(text)
    return str(path) if path.is_file() else Problem(f"there is no file {path}")


def _place(text: str, around: Surroundings) -> str | Problem:
    if not text or text == ":memory:":
        return text
    if "\0" in text:
        return Problem("a path has no null character")
    return str(around.resolve(text))


def _profile(text: str) -> str | Problem:
    return text.strip().lower()  # whether there is one, the whole file says


def _own_profile(text: str) -> str | Problem:
    wanted = text.strip().lower()
    if PROFILE_ALIASES.get(wanted, wanted) in PROFILES:
        return Problem(f"there is a built-in profile `{wanted}`", "choose another name")
    if _UPSTREAM_NAME.fullmatch(wanted):
        return wanted
    return Problem("a profile's name is made of letters, digits, `.`, `_` and `-`")


def _built_in(text: str) -> str | Problem:
    wanted = text.strip().lower()
    if not wanted or PROFILE_ALIASES.get(wanted, wanted) in PROFILES:
        return wanted
    return _unknown("profile", text, [*PROFILES, *PROFILE_ALIASES], sorted(PROFILES))


def _format(text: str) -> str | Problem:
    known = ["auto", "none", STANDARD, *FORMATS, *FORMAT_ALIASES]
    if not text or text in known:
        return text
    return _unknown("tool-call format", text, known, ["auto", "none", *sorted(FORMATS)])


def _unknown(noun: str, text: str, known: list[str], listed: list[str]) -> Problem:
    near = did_you_mean(text, known)
    return Problem(f"no {noun} `{text}`", near or f"there are {', '.join(listed)}")


def _glob(text: str) -> str | Problem:
    return text or Problem("an empty name fits nothing", "write `*` for every name")


def _meaning(text: str) -> str | Problem:
    if not text:
        return Problem("an alias means a name")
    if text.count("*") > 1:
        return Problem("there is more than one `*`", "one stands for the name the client asked for")
    return text


def _target(text: str) -> str | Problem:
    upstream, slash, model = text.partition("/")
    if not slash:
        return Problem(
            f"`{text}` is not `upstream/model`",
            f"write `{text}/*` to keep the name the client asked for",
        )
    if not upstream or not model:
        return Problem(f"`{text}` is not `upstream/model`")
    if model.count("*") > 1:
        return Problem(
            f"`{text}` has more than one `*`", "one stands for the name the client asked for"
        )
    return text


def _name(text: str) -> str | Problem:
    if _UPSTREAM_NAME.fullmatch(text):
        return text
    return Problem(
        "an upstream's name is made of letters, digits, `.`, `_` and `-`",
        "a slash ends it in `upstream/model`" if "/" in text else "",
    )


def _header(text: str) -> str | Problem:
    if not _HEADER_NAME.fullmatch(text):
        return Problem("not a name of a header")
    if text.lower() in _CONNECTION_HEADERS:
        return Problem("this header belongs to the connection and cannot be set")
    return text


def _host(text: str) -> str | Problem:
    text = text.strip()
    if not text:
        return Problem("no host", "write `127.0.0.1`, or `0.0.0.0` for every network")
    if "//" in text:
        host = urlsplit(text).netloc.partition(":")[0] if text.count("[") == 0 else ""
        return Problem("a host, not an address", f"write `{host}`" if host else "")
    if "/" in text or any(character.isspace() for character in text):
        return Problem(f"`{text}` is no host")
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
        return Problem(f"`{text}` is no origin", "write `https://host` or `http://host:port`")
    if bare != text.rstrip("/"):
        return Problem("an origin ends with its host and port", f"write `{bare}`")
    return bare


_JUDGES: Final[dict[TextKind, Callable[[str], str | Problem]]] = {
    "address": _address,
    "built_in": _built_in,
    "format": _format,
    "glob": _glob,
    "header": _header,
    "host": _host,
    "meaning": _meaning,
    "name": _name,
    "origin": _origin,
    "own_profile": _own_profile,
    "profile": _profile,
    "target": _target,
}
