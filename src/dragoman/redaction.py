"""Removes secrets from text: the known ones, and text that looks like one."""

import functools
import json
import re
import string
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

Secrets: TypeAlias = tuple[str, ...]

_BOTH: Final = (True, False)
REDACTED: Final = "[redacted]"
MAX_CHARS: Final = 8 * 1024  # of a text that is shown
# A secret this short may be part of a word; only the whole word is taken out.
_SHORT: Final = 8

# Text that looks like a credential, of any vendor or user.  The text in a named group is kept.
_CREDENTIAL_TEXT: Final = r"""
      # keys by the letters that vendors put before them
      \b(?:sk[-_]|gsk_|xai-|pplx-|nvapi-|fw_|tgp_|r8_|hf_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-)
        [A-Za-z0-9_*.\-]{8,}
    | \bAIza[A-Za-z0-9_\-]{20,}
    | \bAKIA[A-Z0-9]{12,}
      # a signed token, or the beginning of one
    | \beyJ[A-Za-z0-9_\-.]{8,}
      # what follows a word for a secret
    | (?P<scheme>\b(?:bearer|basic)\s+)(?!auth)[A-Za-z0-9._~+/=\-]{6,}
    | (?P<name>
        \b(?:x-api-key|api[-_ ]?key|access[-_]token|auth(?:orization)?[-_]token|authorization|client[-_]secret
            |password|secret)\b
        ["']?(?:\s+provided)?\s*[:=]\s*["']?
      )
      (?!(?:bearer|basic)\s|\[redacted\])[^\s"',;&<>{}()]{6,}
"""
# A password in an address; some programs escape its slashes in JSON.  No address has a quote, which ends a string.
_ADDRESS_TEXT: Final = r"(?P<before>:\\?/\\?/)[^\s/@:\"\\]+:[^\s/@\"\\]+(?P<after>@)"
_HOW: Final = re.IGNORECASE | re.VERBOSE
_CREDENTIAL: Final = re.compile(_CREDENTIAL_TEXT, _HOW)
_ADDRESS: Final = re.compile(_ADDRESS_TEXT)
_PATTERNS: Final = re.compile(f"{_CREDENTIAL_TEXT} | {_ADDRESS_TEXT}", _HOW)
# A byte of a secret, or an escape of JSON, which stays: overwriting a half of one would end its string.
_SECRET_BYTE: Final = re.compile(r"\\u[0-9a-fA-F]{4}|\\.?|.", re.DOTALL)
# Each match of `_CREDENTIAL` holds one of these, in lower case and with `-` for `_`; by a byte of them that is rare.
_HINTS: Final = {
    ord(rare): hints
    for rare, hints in {
        "-": (
            b"sk-", b"xai-", b"pplx-", b"fw-", b"tgp-", b"r8-", b"hf-", b"gho-", b"ghp-", b"ghs-", b"ghu-", b"pat-",
        ),
        "x": (b"xox",), "z": (b"aiza",), "k": (b"akia",), "j": (b"eyj",), "w": (b"password",),
        "b": (b"bearer", b"basic"), "c": (b"access", b"secret"), "p": (b"api",), "u": (b"auth",),
    }.items()
}  # fmt: skip
_FOLDED: Final = bytes.maketrans(
    string.ascii_uppercase.encode() + b"_", string.ascii_lowercase.encode() + b"-"
)
_MOST_SEEN_BYTES: Final = 2 * 1024 * 1024  # of parts that a blotter remembers
OBJECT_CUT: Final = b'{"'
LIST_CUT: Final = b'},{"'  # fewer and larger parts, for a request: a message or a tool is one
_KEPT_BEFORE: Final = ("scheme", "name", "before")


def redact(text: str, secrets: Secrets = ()) -> str:
    """Return a text without any of `secrets`, and without what looks like a credential.

    A text of more than `MAX_CHARS` is cut.  The cut may halve a secret, which is then not recognised, so
    the last characters before it are left out too, as many as the longest secret has.
    """
    cut = len(text) > MAX_CHARS
    text = text[:MAX_CHARS]
    known = _known(secrets)
    if known is not None:
        text = known.sub(REDACTED, text)
    text = _PATTERNS.sub(_kept, text)
    return text[: -max(map(len, secrets), default=1)] + "…" if cut else text


def hide(text: str, secrets: Secrets) -> str:
    """Return a text without any of `secrets`; what merely looks like a credential stays."""
    known = _known(secrets)
    return text if known is None else known.sub(REDACTED, text)


def hide_in_json(data: bytes, secrets: Secrets) -> bytes:
    """Return JSON, or a stream of it, without any of `secrets`, however its strings are escaped."""
    escaped = tuple(json.dumps(one, ensure_ascii=way)[1:-1] for one in secrets for way in _BOTH)
    # Most bodies hold none.  They can be large, and this search is much faster than an expression.
    if not any(
        one.encode("utf-8", "surrogateescape") in data for one in {*secrets, *escaped} if one
    ):
        return data
    known = _known((*secrets, *escaped))
    if known is None:
        return data
    text = data.decode("utf-8", "surrogateescape")
    hidden = known.sub(REDACTED, text)
    return data if hidden == text else hidden.encode("utf-8", "surrogateescape")


def _has_address(data: bytes) -> bool:
    return data.find(b"://") >= 0 or data.find(rb":\/") >= 0


class Blotter:
    """Overwrites secrets in bytes of any length, so that every other byte keeps its place.

    `patterns` are expressions of more secrets, beside what looks like a credential anyway.

    Most bytes of a conversation repeat: a request repeats the history, and the events of a stream differ in a word.
    So data is cut where objects begin, where no credential continues, and a part that was found clean is not searched
    again.  This makes it about ten times as fast as searching everything.
    """

    def __init__(self, secrets: Secrets, patterns: Sequence[str] = ()) -> None:
        escaped = (json.dumps(one, ensure_ascii=way)[1:-1] for one in secrets for way in _BOTH)
        forms = {one.encode("utf-8", "surrogateescape") for one in (*secrets, *escaped) if one}
        # A secret with a brace goes on in the next part.
        self._within = _known(_as_text(one for one in forms if b"{" not in one))
        self._across = _known(_as_text(one for one in forms if b"{" in one))
        self._needles = tuple(one for one in forms if b"{" not in one)
        self._patterns = [re.compile(one) for one in patterns]
        self._clean: set[bytes] = set()  # parts without a secret
        self._seen_bytes = 0
        self._blotted: dict[bytes, bytes] = {}  # parts with one, and what is written for them
        self._escaped: dict[bytes, bytes] = {}  # parts as JSON writes them, without secrets
        self._whole = self._across is not None or bool(self._patterns)  # parts are not enough

    def blot(self, data: bytes) -> bytes:
        """Return the bytes with an asterisk for each byte of a secret; escapes of JSON are kept."""
        parts = data.split(OBJECT_CUT)
        if not self._clean.issuperset(parts):
            data = self._blot_parts(parts)
        if self._across is not None:
            data = _substituted(self._across, data)
        if _has_address(data):
            data = _substituted(_ADDRESS, data)
        for pattern in self._patterns:
            data = _substituted(pattern, data)
        return data

    @property
    def reads_parts(self) -> bool:
        """Data may be looked at in parts, cut where objects begin."""
        return not self._whole

    def finds(self, data: bytes) -> bool:
        """Return whether bytes have a secret that is not overwritten; nothing of them is remembered."""
        if self._has_needle(data):
            return True
        patterns = self._patterns.copy()
        if _has_hint(data):
            patterns.append(_CREDENTIAL)
        if _has_address(data):
            patterns.append(_ADDRESS)
        if self._across is not None:
            patterns.append(self._across)
        if not patterns:
            return False
        text = data.decode("latin-1")
        return any(_blotted(match) != match[0] for one in patterns for match in one.finditer(text))

    def _has_needle(self, data: bytes) -> bool:
        # `in` raises and drops an exception in Python 3.11, which takes longer than most searches.
        return any(data.find(one) >= 0 for one in self._needles)

    def blot_escaped(self, data: bytes, cut: bytes = OBJECT_CUT) -> bytes:
        """Return what `blot` returns as the inside of a JSON string; parts are escaped only once.

        `cut` is where data is cut: `OBJECT_CUT`, or `LIST_CUT`.

        Raises:
            UnicodeDecodeError: the bytes are not UTF-8.
        """
        if self._whole:
            return escape(self.blot(data))
        parts = data.split(cut)
        glue = cut.replace(b'"', b'\\"')
        try:  # no part with an address is in it
            return glue.join(map(self._escaped.__getitem__, parts))
        except KeyError:
            if _has_address(data):
                return escape(self.blot(data))
        self._blot_parts(parts)
        escaped = self._escaped
        for part in set(parts) - escaped.keys():
            escaped[part] = escape(self._blotted.get(part, part))
        return glue.join(map(escaped.__getitem__, parts))

    def _blot_parts(self, parts: list[bytes]) -> bytes:
        """Return the parts as one again, each without its secrets, and remember what was found in them."""
        if self._seen_bytes > _MOST_SEEN_BYTES:
            self._clean, self._blotted, self._escaped, self._seen_bytes = set(), {}, {}, 0
        new = set(parts) - self._clean - self._blotted.keys()
        together = OBJECT_CUT.join(new)
        self._seen_bytes += len(together)
        if self._has_needle(together) or _has_hint(together):
            for part in new:
                text = part.decode("latin-1")
                blotted = text if self._within is None else self._within.sub(_blotted, text)
                blotted = _CREDENTIAL.sub(_blotted, blotted)
                if blotted != text:
                    self._blotted[part] = blotted.encode("latin-1")
            new -= self._blotted.keys()
        self._clean |= new
        return OBJECT_CUT.join([self._blotted.get(one, one) for one in parts])


@functools.lru_cache(maxsize=16)
def blotter(secrets: Secrets, patterns: tuple[str, ...]) -> Blotter:
    """Return the blotter of these secrets, which knows what it has seen of earlier exchanges."""
    return Blotter(secrets, patterns)


def _has_hint(data: bytes) -> bool:
    folded = data.translate(_FOLDED)
    find = folded.find
    for rare, hints in _HINTS.items():
        if rare in folded:  # this takes a tenth of a search for more than one byte
            for hint in hints:
                if find(hint) >= 0:
                    return True
    return False


def escape(data: bytes) -> bytes:
    """Return bytes as the inside of a JSON string.

    Raises:
        UnicodeDecodeError: they are not UTF-8.
    """
    return msgspec.json.encode(data.decode())[1:-1]


def _as_text(secrets: Iterable[bytes]) -> Secrets:
    return tuple(sorted(one.decode("latin-1") for one in secrets))


def _substituted(pattern: re.Pattern[str], data: bytes) -> bytes:
    text = data.decode("latin-1")
    blotted = pattern.sub(_blotted, text)
    return data if blotted == text else blotted.encode("latin-1")


def _blotted(match: re.Match[str]) -> str:
    kept = match.groupdict()
    before = next((kept[name] for name in _KEPT_BEFORE if kept.get(name)), "")
    after = kept.get("after") or ""
    secret = match[0][len(before) : len(match[0]) - len(after)]
    return f"{before}{_SECRET_BYTE.sub(_asterisk, secret)}{after}"


def _asterisk(match: re.Match[str]) -> str:
    if match[0].startswith("\\u"):
        return "\\u002a" if len(match[0]) > 2 else match[0]
    return match[0] if match[0][0] == "\\" else "*"


def _kept(match: re.Match[str]) -> str:
    before = next((match[name] for name in _KEPT_BEFORE if match[name]), "")
    return f"{before}{REDACTED}{match['after'] or ''}"


@functools.lru_cache(maxsize=8)
def _known(secrets: Secrets) -> re.Pattern[str] | None:
    """Return a pattern for all secrets; the longest first, because one may be the beginning of another."""
    ordered = sorted({one for one in secrets if one}, key=len, reverse=True)
    if not ordered:
        return None
    return re.compile("|".join(map(_finding, ordered)))


def _finding(secret: str) -> str:
    escaped = re.escape(secret)
    return escaped if len(secret) >= _SHORT else rf"(?<!\w){escaped}(?!\w)"
