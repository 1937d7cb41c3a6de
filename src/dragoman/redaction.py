"""Removes secrets from text: the known ones, and text that looks like one."""

import functools
import json
import re
from collections.abc import Sequence
from typing import Final, TypeAlias

Secrets: TypeAlias = tuple[str, ...]

_BOTH: Final = (True, False)
REDACTED: Final = "[redacted]"
MAX_CHARS: Final = 8 * 1024  # of a text that is shown to anybody
# A secret this short may be part of a word; only the whole word is taken out.
_SHORT: Final = 8

# Text that looks like a credential, of any vendor or user.  The text in a named group is kept.
_PATTERNS: Final = re.compile(
    r"""
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
        \b(?:x-api-key|api[-_ ]?key|access[-_]token|auth[-_]token|authorization|client[-_]secret
            |password|secret)\b
        ["']?(?:\s+provided)?\s*[:=]\s*["']?
      )
      (?!(?:bearer|basic)\s|\[redacted\])[^\s"',;&<>{}()]{6,}
      # a password in an address
    | (?P<before>://)[^\s/@:]+:[^\s/@]+(?P<after>@)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# A byte of a secret, or an escape of JSON, which stays: overwriting a half of one would end its string.
_SECRET_BYTE: Final = re.compile(r"\\.?|.", re.DOTALL)
# How a match of `_PATTERNS` may begin, in lower case.  Ten times as fast as the expression itself.
_BEGINNINGS: Final = re.compile(
    "sk[-_]|gsk_|xai-|pplx-|nvapi-|fw_|tgp_|r8_|hf_|gh[opsu]_|github_pat_|glpat-|xox|aiza|akia|eyj|bearer|basic"
    "|x-api|api|access|auth|client|password|secret|://"
)
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


class Blotter:
    """Overwrites secrets in bytes of any length, so that every other byte keeps its place.

    `patterns` are expressions of more secrets, beside what looks like a credential anyway.
    """

    def __init__(self, secrets: Secrets, patterns: Sequence[str] = ()) -> None:
        escaped = (json.dumps(one, ensure_ascii=way)[1:-1] for one in secrets for way in _BOTH)
        self._known = _known(tuple(sorted({*secrets, *escaped})))
        self._patterns = [re.compile(one) for one in patterns]

    def blot(self, data: bytes) -> bytes:
        """Return the bytes with an asterisk for each byte of a secret; escapes of JSON are kept."""
        text = data.decode("latin-1")
        blotted = text if self._known is None else self._known.sub(_blotted, text)
        blotted = _blot_credentials(blotted)
        for pattern in self._patterns:
            blotted = pattern.sub(_blotted, blotted)
        return data if blotted is text else blotted.encode("latin-1")


def _blot_credentials(text: str) -> str:
    """Overwrite what looks like a credential; the full expression is tried only where one may begin."""
    parts: list[str] = []
    end = 0
    for candidate in _BEGINNINGS.finditer(text.lower()):
        start = candidate.start()
        match = _PATTERNS.match(text, start) if start >= end else None
        if match is not None:
            parts += (text[end:start], _blotted(match))
            end = match.end()
    return "".join((*parts, text[end:])) if parts else text


def _blotted(match: re.Match[str]) -> str:
    kept = match.groupdict()
    before = next((kept[name] for name in _KEPT_BEFORE if kept.get(name)), "")
    after = kept.get("after") or ""
    secret = match[0][len(before) : len(match[0]) - len(after)]
    return f"{before}{_SECRET_BYTE.sub(_asterisk, secret)}{after}"


def _asterisk(match: re.Match[str]) -> str:
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
