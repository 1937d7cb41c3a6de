"""Where a request's beginning differs from the turn before, and so where its prompt cache broke.

A prompt cache covers tools, system prompt and messages, in this order, up to the first difference.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects import vocabulary
from dragoman.inspector.answer_rows import values
from dragoman.inspector.summary import Problem, Row

_TOOLS: Final = "tools"  # where they are in a request, whatever the dialect
_PRICES: Final = 3  # of fresh, cached and output tokens
_DEPENDENT: Final = 1e-9
_UNEXPLAINED: Final = 0.01  # of a cost: upstreams round
_AROUND: Final = 60  # characters that are shown before and behind a difference
_MOST_LEAVES: Final = 200_000
_TIME: Final = re.compile(r"\d{1,4}[-:/.T]\d{1,2}(?:[-:/.T]\d{1,2})?|\b1[5-9]\d{8,11}\b")
_WINDOW: Final = 20  # characters around a difference in which a time is looked for
_IDLE_SECONDS: Final = 300.0  # after which upstreams usually drop a cache
_LEAST_LOST: Final = 256  # tokens that are worth a word
CACHE_BROKE: Final = Problem("cache", "cache broke", "warn")
_FIELDS_DECODER: Final = msgspec.json.Decoder(dict[str, Raw])


class Leaf(Struct, frozen=True, gc=False):
    """A plain value of a request."""

    path: str
    text: str


class Excerpt(Struct, frozen=True):
    text: str
    at: int  # of the first character that differs


class Billed(Struct, frozen=True):
    """The token counts of a turn, and their total cost."""

    fresh: float
    cached: float
    output: float
    cost: float


class CacheBreak(Struct, frozen=True, kw_only=True):
    """The first difference between two requests."""

    byte: int  # of the value at `path`
    path: str
    before: Excerpt
    after: Excerpt
    kept: float  # which part of the earlier request is the same
    cause: str
    fix: str
    tokens: int = 0  # that were read again
    cost: float | None = None  # of these tokens, beyond what they cost from the cache
    doc: str = ""  # address of the page that explains prompt caches


def leaves(body: bytes) -> list[Leaf]:
    """Return what a request gives to a model, in the order of its cache."""
    known = vocabulary()
    return _leaves_of(body, (_TOOLS, *sorted(known.system), *sorted(known.history)))


def _leaves_of(body: bytes, fields: Sequence[str]) -> list[Leaf]:
    try:
        given = _FIELDS_DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return []
    found: list[Leaf] = []
    for name in fields:
        if name in given:
            found += islice(_of_field(name, bytes(given[name])), _MOST_LEAVES - len(found))
    return found


def _of_field(name: str, data: bytes) -> Iterator[Leaf]:
    no_input = vocabulary().no_input
    for path, _, _, text in values(data):
        if not any(part.partition("[")[0] in no_input for part in path.split(".")[-2:]):
            yield Leaf(f"$.{name}{path[1:]}", text)


def first_difference(before: Sequence[Leaf], after: Sequence[Leaf]) -> CacheBreak | None:
    """Return where a request stops to be the beginning of the next one; None: it is its beginning."""
    same = 0
    for at, old in enumerate(before):
        if at >= len(after):
            return _difference(before, at, old, Leaf(old.path, ""), same, fewer=True)
        new = after[at]
        if old.text != new.text:
            return _difference(before, at, old, new, same, fewer=len(after) < len(before))
        same += len(old.text)
    return None


def _difference(  # noqa: PLR0913 -- the two values and what is around them
    before: Sequence[Leaf], at: int, old: Leaf, new: Leaf, same: int, *, fewer: bool
) -> CacheBreak:
    most = min(len(old.text), len(new.text))
    start = next((one for one in range(most) if old.text[one] != new.text[one]), most)
    total = same + sum(len(leaf.text) for leaf in before[at:])
    cause, fix = _cause(old, new, start, fewer=fewer)
    return CacheBreak(
        byte=len(new.text[:start].encode("utf-8", "replace")),
        path=new.path if new.text else old.path,
        before=_excerpt(old.text, start),
        after=_excerpt(new.text, start),
        kept=(same + start) / total if total else 1.0,
        cause=cause,
        fix=fix,
    )


def _excerpt(text: str, at: int) -> Excerpt:
    first = max(0, at - _AROUND)
    head = "…" if first else ""
    tail = "…" if at + _AROUND < len(text) else ""
    return Excerpt(f"{head}{text[first : at + _AROUND]}{tail}", at - first + len(head))


def _cause(old: Leaf, new: Leaf, at: int, *, fewer: bool) -> tuple[str, str]:
    """Return why two requests differ, and what to do about it."""
    around = [one.text[max(0, at - _WINDOW) : at + _WINDOW] for one in (old, new)]
    if all(_TIME.search(text) for text in around):
        return (
            "This looks like a timestamp.",
            "Move it behind the last cached message, or write only the date.",
        )
    field = new.path[2:].partition("[")[0].partition(".")[0]
    if field == _TOOLS:
        return "The list of tools changed.", "Send the same tools in the same order in every turn."
    if field in vocabulary().history:
        if fewer:
            return "The history was compacted.", "This is expected once after each compaction."
        return "An earlier message was edited.", "Append messages instead of changing earlier ones."
    return (
        "The system prompt changed.",
        "Move what changes behind the last cached message.",
    )


def lost_tokens(rows: Sequence[Row]) -> Iterator[int]:
    """Yield for each turn how many tokens of the turn before were read again, by the upstream's counts."""
    reports = any(row.tokens_cached for row in rows)
    before: Row | None = None
    for row in rows:
        lost = 0
        if before is not None and reports and before.tokens_in and row.tokens_in is not None:
            expected = min(before.tokens_in, row.tokens_in)
            lost = expected - row.tokens_cached
            if lost < max(_LEAST_LOST, expected // 2) or row.level == "failed":
                lost = 0
        yield lost
        if row.level != "failed":
            before = row


def judge(
    old: Row, row: Row, difference: CacheBreak | None, lost: int
) -> tuple[CacheBreak | None, int, str]:
    """Return the cache break of a turn, the tokens that were read again, and why if the request is the same.

    `difference` is where the request differs from that of the turn before, `lost` what the upstream's counts show.
    """
    if difference is not None:
        reports = bool(old.tokens_cached or row.tokens_cached)
        tokens = lost if reports else int((old.tokens_in or 0) * (1 - difference.kept))
        if tokens < _LEAST_LOST:
            return None, 0, ""
        return structs.replace(difference, tokens=tokens), tokens, ""
    if not lost:
        return None, 0, ""
    if old.upstream != row.upstream:
        note = (
            f"Cache not used: {row.upstream} answered instead of {old.upstream}, and each upstream"
            " has its own cache. The request itself did not change."
        )
    elif row.time - old.time > _IDLE_SECONDS:
        note = (
            "Cache not used: more than 5 minutes passed; the upstream probably dropped it."
            " The request itself did not change."
        )
    else:
        note = "Cache not used, although the request did not change."
    return None, lost, note


def price_of_losing(turns: Sequence[Billed]) -> float | None:
    """Return how much more a token costs that is not read from the cache; None: the costs do not show it.

    A cost is a sum over fresh, cached and output tokens, so the costs of a few turns determine the three prices.  They
    are known only if they explain the cost of every turn; with discounts or prices of writing a cache they do not.
    """
    rows = [(one.fresh, one.cached, one.output) for one in turns]
    costs = [one.cost for one in turns]
    if len(rows) <= _PRICES:
        return None
    products = [
        [sum(row[i] * row[j] for row in rows) for j in range(_PRICES)] for i in range(_PRICES)
    ]
    sums = [
        sum(row[i] * cost for row, cost in zip(rows, costs, strict=True)) for i in range(_PRICES)
    ]
    whole = _determinant(products)
    scale = products[0][0] * products[1][1] * products[2][2]
    if abs(whole) <= _DEPENDENT * scale:
        return None  # the turns are too much alike
    prices = [_determinant(_with_column(products, at, sums)) / whole for at in range(_PRICES)]
    for row, cost in zip(rows, costs, strict=True):
        explained = sum(price * count for price, count in zip(prices, row, strict=True))
        if abs(explained - cost) > _UNEXPLAINED * cost:
            return None
    return prices[0] - prices[1] if prices[0] > prices[1] >= 0 else None


def _determinant(of: list[list[float]]) -> float:
    (a, b, c), (d, e, f), (g, h, i) = of
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def _with_column(matrix: list[list[float]], at: int, column: Sequence[float]) -> list[list[float]]:
    return [
        [column[i] if j == at else value for j, value in enumerate(row)]
        for i, row in enumerate(matrix)
    ]


def fingerprint(body: bytes) -> str:
    """Return what distinguishes the agents of one client: their tools and the beginning of their instructions."""
    found = _leaves_of(body, (_TOOLS, *sorted(vocabulary().system)))
    names = [
        leaf.text
        for leaf in found
        if leaf.path.startswith("$.tools") and leaf.path.endswith(".name")
    ]
    system = next((leaf.text for leaf in found if not leaf.path.startswith("$.tools")), "")
    return "\n".join((*names, system[:200]))
