"""Tool-call ids: legal for every peer, reversible, and without state.

Ids of an upstream (`functions.bash:15`) are kept verbatim in the turn.  A client gets them through
`encode_id`: verbatim where its dialect takes any text, else escaped to what every dialect accepts.  When the
client sends them back, `decode_id` restores them from either form, and `UpstreamIds` renders them in the
style that the upstream wants.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

# Messages accepts 64 characters, and so does OpenAI's Responses API when a client sends an id back.
MAX_CLIENT_ID: Final = 64

IdStyle: TypeAlias = Literal["any", "openai40", "responses64", "anthropic64", "mistral9", "kimi"]

_PLAIN: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_CLIENT_ID}}}")
_RESERVED: Final = re.compile(r"g[xh][0-9]*-")
_ESCAPED: Final = re.compile(r"gx[0-9]*-(.*)", re.DOTALL)
_HEX_PAIR: Final = re.compile(r"-([0-9a-f]{2})")
_HEX_PAIR_BYTES: Final = re.compile(rb"-([0-9a-f]{2})")
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS: Final = [low + high for high in _BASE62 for low in _BASE62]  # halves the divisions
_EIGHT: Final = 62**8  # fits into a machine word, unlike the whole number
_FOUR: Final = 62**4
_TWO: Final = 62**2
_LENGTHS: Final[Mapping[str, int]] = {"openai40": 40, "responses64": 64, "anthropic64": 64}
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")


def derived_id(prefix: str, seed: str, what: str, length: int = 24) -> str:
    """Return an id that depends on nothing but its arguments."""
    return prefix + _digest(f"{seed}\0{what}", length)


def base62(number: int, length: int) -> str:
    """Return the last digits of a number, the least significant first."""
    digits = ""
    while len(digits) < length:
        number, eight = divmod(number, _EIGHT)
        high, low = divmod(eight, _FOUR)
        digits += (
            _PAIRS[low % _TWO] + _PAIRS[low // _TWO] + _PAIRS[high % _TWO] + _PAIRS[high // _TWO]
        )
    return digits[:length]


def _digest(text: str, length: int) -> str:
    hashed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base62(int.from_bytes(hashed, "big"), length)


def encode_id(native: str, k: int = 0, *, verbatim: bool = False) -> str:
    """Return the id that a client sees: at most 64 of `[A-Za-z0-9_-]`, one for each (native, k).

    `k` above 0 distinguishes calls that have the same native id.  With `verbatim`, an id of at most 64
    printable characters without blanks stays as it is, unless it looks like an escaped one.
    """
    if not k and _stays(native, verbatim=verbatim) and not _RESERVED.match(native):
        return native
    escaped = "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte == 0x5F else f"-{byte:02x}"
        for byte in native.encode("utf-8", "surrogatepass")
    )
    legible = f"gx{k or ''}-{escaped}"
    if len(legible) <= MAX_CLIENT_ID:
        return legible
    digest = hashlib.sha256(f"{native}\0{k}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"gh-{digest[:32]}"


def _stays(native: str, *, verbatim: bool) -> bool:
    """Return whether a client can take a native id as it is."""
    if not verbatim:
        return _PLAIN.fullmatch(native) is not None
    return 0 < len(native) <= MAX_CLIENT_ID and native.isprintable() and " " not in native


def decode_id(client_id: str, known: Mapping[str, str] | None = None) -> str:
    """Return the native id behind what a client sent.

    `known` maps `gh-…` ids, which cannot be decoded, to their native ids, as long as these are remembered.
    Without it, a call and its result still have the same id.
    """
    if client_id.startswith("gh-"):
        return known.get(client_id, client_id) if known else client_id
    if not client_id.startswith("gx"):
        return client_id
    match = _ESCAPED.fullmatch(client_id)
    if not match:
        return client_id
    body = match.group(1)
    if "-" in _HEX_PAIR.sub("", body):
        return client_id
    try:
        raw = _HEX_PAIR_BYTES.sub(lambda pair: bytes.fromhex(pair.group(1).decode()), body.encode())
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return client_id


class ClientIds:
    """Ids for the calls of one answer: no two alike, and none that the history used.

    An answer has one such object (`Exchange.call_ids`).  Everything that names a call to the client uses it.
    """

    def __init__(self, used: Iterable[str] = (), *, verbatim: bool = False) -> None:
        self._verbatim = verbatim  # see `encode_id`
        self._history = used  # read at the first call: most answers make none
        self._used: set[str] | None = None  # the same, once it is read, and ids given out here
        self._by_block: dict[
            tuple[int, str], str
        ] = {}  # ids given out here, by block and native id
        # By native id: the first `k` that was not tried.  Each used id is met once at most, not once a call.
        self._next: dict[str, int] = {}

    def of(self, block: int, native: str) -> str:
        """Return the client's id for the call in a block of the answer, the same one every time."""
        known = self._by_block.get((block, native))
        if known is not None:
            return known
        if self._used is None:
            self._used = set(self._history)
        k = self._next.get(native, 0)
        while True:
            client_id = encode_id(native, k, verbatim=self._verbatim)
            if client_id not in self._used:
                break
            k += 1
        self._used.add(client_id)
        self._next[native] = k + 1
        self._by_block[block, native] = client_id
        return client_id


def takes_id(style: IdStyle, client_id: str) -> bool:
    """Return whether an upstream of a style accepts a client's id as it is."""
    longest = _LENGTHS.get(style, 0)
    return not longest or (len(client_id) <= longest and _WORD.fullmatch(client_id) is not None)


class UpstreamIds:
    """Ids of one request's history in the upstream's style; the same call always gets the same."""

    def __init__(self, style: IdStyle, known: Mapping[str, str] | None = None) -> None:
        self._style = style
        self._any = style == "any"
        self._length = _LENGTHS.get(style, 0)
        self._known = known
        self._ids: dict[str, str] = {}  # by the client's id
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}  # by native id: the first suffix that was not tried

    def of(self, client_id: str, name: str = "") -> str:
        """Return the upstream's id for a call of the tool `name`, or for its result."""
        rendered = self._ids.get(client_id)
        if rendered is not None:
            return rendered
        native = decode_id(client_id, self._known) if client_id[:1] == "g" else client_id
        rendered = native if self._any else self._render(native, name)
        if rendered in self._taken:
            rendered = self._distinct(native, name, rendered)
        self._taken.add(rendered)
        self._ids[client_id] = rendered
        return rendered

    def _distinct(self, native: str, name: str, base: str) -> str:
        """Return an id that no other call has, where the first choice is taken."""
        k = self._next.get(native, 1)
        rendered = base
        while rendered in self._taken:
            rendered = self._render(f"{native}_{k}", name)
            if rendered == base:
                rendered = f"{base}_{k}"
            k += 1
        self._next[native] = k
        return rendered

    def _render(self, native: str, name: str) -> str:
        match self._style:
            case "any":
                return native
            case "mistral9":
                return _mistral(native)
            case "kimi":
                return f"functions.{name}:{len(self._ids)}"
            case _:
                return self._short(native)

    def _short(self, native: str) -> str:
        if len(native) <= self._length and _WORD.fullmatch(native):
            return native
        return f"gh-{hashlib.sha256(native.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _mistral(native: str) -> str:
    if len(native) == 9 and native.isalnum() and native.isascii():
        return native
    return _digest(native, 9)
