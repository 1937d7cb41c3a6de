"""Identifies clients by their keys, and checks their models, limits and budgets; `state/` counts.

Time comes in as monotonic seconds; budgets, which follow the calendar, read the clock of the keyring.
"""

import hashlib
import hmac
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Self

from dragoman.dialects.dialect import KEY_HEADERS
from dragoman.gateway.admission import Admission, Counters, Entrance
from dragoman.gateway.config.settings import Key
from dragoman.gateway.headers import decimal
from dragoman.gateway.prices import in_dollars, nanodollars
from dragoman.gateway.state.key_limits import Refusal
from dragoman.gateway.state.spending import BudgetName, Spent, reset_of
from dragoman.globs import Glob
from dragoman.turn.events import Fault, FaultKind

ANONYMOUS: Final = "anonymous"
_LISTED_MODELS: Final = 20  # as many globs as fit into a readable error
_HOW: Final = "send it as `x-api-key: KEY`, `x-goog-api-key: KEY` or `authorization: Bearer KEY`"


class Holder:
    """A client that showed a key, or one that was not asked for it."""

    __slots__ = (
        "_clock", "_globs", "_vendor_ids", "enters_at_once", "entrance", "has_budget", "key", "name", "owner",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        key: Key | None,
        counters: Counters | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`counters` count the requests of a key with limits; without them, this process does."""
        self.has_budget: bool = key is not None and bool(key.budget_day or key.budget_month)
        self._clock = clock  # Unix seconds
        self.name: str = name  # for logs
        self.owner: str = _owner(key)
        self.key: Key | None = key
        self.entrance: Entrance = Entrance()
        if key is not None and _limits(key):
            self.entrance = Entrance(counters, _counted_as(key))
        # Whether a request may begin is known at once: no server is asked, and none waits.
        self.enters_at_once: bool = self.entrance.shared_meter is None and not self.max_queue
        self._vendor_ids = () if key is None else tuple(Glob(text) for text in key.vendor_ids)
        self._globs = () if key is None else tuple(Glob(text) for text in key.models)

    def may_use(self, model: str) -> Fault | None:
        """Return why this client may not use a model, by the name it asks for."""
        if not self._globs or any(glob.matches(model) for glob in self._globs):
            return None
        names = [f"`{glob.text}`" for glob in self._globs[:_LISTED_MODELS]]
        more = len(self._globs) - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        message = f"this key may not use the model `{model[:200]}`; it may use {listed}"
        return Fault(FaultKind.PERMISSION, message, status=403, param="model")

    @property
    def max_queue(self) -> int:
        """How many requests may wait until others of this key end."""
        return 0 if self.key is None or not self.key.concurrent else self.key.max_queue

    @property
    def anonymous(self) -> bool:
        """The gateway asks for no keys."""
        return self.key is None

    @property
    def shown_owner(self) -> str:
        """The owner as recordings have it; empty for a key without a name, whose owner is a digest of the key."""
        return self.owner if self.key is None or self.key.name else ""

    @property
    def may_inspect(self) -> bool:
        """The client may look at exchanges of others."""
        return self.key is None or self.key.inspect

    @property
    def may_record(self) -> bool:
        """The client may ask for a recording of its exchange."""
        return self.key is None or self.key.record

    @property
    def may_read_metrics(self) -> bool:
        """The client may read `/metrics`, which has figures of all keys."""
        return self.key is None or self.key.metrics

    def may_name(self, vendor_id: str) -> bool:
        """Return whether the settings let this client name state of a vendor's by its id."""
        return any(glob.matches(vendor_id) for glob in self._vendor_ids)

    def enter(self, now: float, estimate: int) -> Admission | Fault:
        """Begin a request of about `estimate` tokens; a refused one costs nothing."""
        if self.has_budget and estimate and (fault := self._over_budget()):
            return fault
        entered = self.entrance.enter(self.key, now, estimate)
        return entered if isinstance(entered, Admission) else self.refuse(entered)

    async def enter_shared(self, now: float, estimate: int) -> Admission | Fault | None:
        """Do the same where several machines count, or requests wait; None: this one may wait for a place."""
        # What this gateway has counted itself is known without asking.
        if self.has_budget and estimate and (fault := self._over_budget()):
            return fault
        entered = await self.entrance.enter_shared(self.key, now, estimate)
        if isinstance(entered, Admission):
            return entered
        return None if entered.limit == "concurrent" and self.max_queue else self.refuse(entered)

    def refuse(self, refusal: Refusal) -> Fault:
        """Return the refusal of a request beyond a limit of this key."""
        return _limited(self.key, refusal, self._clock)

    def charge(self, dollars: float) -> None:
        """Add what a request cost to the sums of this client's budgets."""
        nano, today = nanodollars(dollars), self._clock()
        self.entrance.meter.charge(nano, today)
        if self.entrance.shared_meter is not None:
            self.entrance.shared_meter.charge(nano, today)

    def budgets(self) -> Iterator[tuple[str, float, float]]:
        """Return for each budget its period, and how many dollars it has and are spent."""
        if self.key is None or not self.has_budget:
            return
        spent = self._spent()
        if self.key.budget_day:
            yield "day", self.key.budget_day, in_dollars(spent.day)
        if self.key.budget_month:
            yield "month", self.key.budget_month, in_dollars(spent.month)

    def _over_budget(self) -> Fault | None:
        assert self.key is not None  # noqa: S101 -- it has a budget
        budget = self.entrance.meter.spent(self._clock()).over(self.key)
        return None if budget is None else _budget_spent(self.key, budget, self._clock())

    def _spent(self) -> Spent:
        """Return the sums here or, if they are larger, those of all machines."""
        today = self._clock()
        here = self.entrance.meter.spent(today)
        if self.entrance.shared_meter is None:
            return here
        there = self.entrance.shared_meter.spent(today)
        return Spent(max(here.day, there.day), max(here.month, there.month))


def _budget_spent(key: Key | None, budget: BudgetName, now: float) -> Fault:
    """Return the refusal of a request whose key has spent its budget: no client retries it."""
    amount = decimal(getattr(key, budget)).removesuffix(".0")
    message = (
        f"this key has spent its budget of {amount} US dollars for this {budget.removeprefix('budget_')}"
        f" (`{budget}` in its settings); it may spend again from {reset_of(budget, now):%Y-%m-%d %H:%M} UTC"
    )
    return Fault(FaultKind.BILLING, message, status=402, code="budget_spent")


def _limited(key: Key | None, refusal: Refusal, clock: Callable[[], float]) -> Fault:
    limit = refusal.limit
    if limit == "budget_day" or limit == "budget_month":  # noqa: PLR1714 -- a type checker reads it
        return _budget_spent(key, limit, clock())
    allowed = getattr(key, limit)
    what = limit.replace("_", " ")
    if limit == "concurrent":
        queue = 0 if key is None else key.max_queue
        what = f"requests at once and {queue} that wait" if queue else "requests at once"
    wait = float(math.ceil(refusal.seconds))  # clients read whole seconds
    message = (
        f"this key is limited to {allowed} {what} (`{limit}` in its settings);"
        f" try again in {wait:.0f}s"
    )
    return Fault(FaultKind.RATE_LIMIT, message, status=429, retry_after=wait)


class Keyring:
    """All keys that open this gateway.  Without any, everybody is the same anonymous client.

    `state` counts the requests of keys with limits, by a digest of the key; without it, this process does.  `clock`
    returns Unix seconds.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        state: Counters | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._holders: dict[bytes, Holder] = {}
        for number, key in enumerate(keys, start=1):
            # An empty key must never be what a client without one has.
            if key.key.value:
                holder = Holder(key.name or f"key-{number}", key, state, clock)
                self._holders.setdefault(_digest(key.key.value), holder)
        self._anonymous = None if keys else Holder(ANONYMOUS, None)

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners that stored data may have."""
        holders = (*self._holders.values(), *filter(None, (self._anonymous,)))
        return tuple(holder.owner for holder in holders)

    def budgets(self) -> Iterator[tuple[str, str, float, float]]:
        """Return all budgets: the name of the key, the period, and how many dollars it has and are spent."""
        for holder in self._holders.values():
            for period, budget, spent in holder.budgets():
                yield holder.name, period, budget, spent

    def identify(self, headers: Mapping[str, str], in_url: Sequence[str] = ()) -> Holder | Fault:
        """Return whose credential a request carries; header names are lower case, or their case is ignored.

        `in_url` are keys in its URL, where its dialect allows that.
        Every key is compared, in a time that does not depend on which one fits.
        """
        if self._anonymous is not None:
            return self._anonymous
        credential = given_credential(headers, in_url)
        if isinstance(credential, Fault):
            return credential
        if not credential:
            return _unknown(f"this gateway requires a key: {_HOW}")
        digest = _digest(credential)
        found: Holder | None = None
        for known, holder in self._holders.items():
            if hmac.compare_digest(known, digest):
                found = holder
        return found or _unknown("this gateway does not know the key that was sent")

    def of_owner(self, owner: str) -> Holder | None:
        """Return the client that an owner is."""
        holders = (*self._holders.values(), *filter(None, (self._anonymous,)))
        return next((one for one in holders if one.owner == owner), None)

    def adopt(self, old: Self) -> None:
        """Go on with what the keys of another keyring have used, for keys of the same value."""
        for digest, holder in self._holders.items():
            before = old._holders.get(digest)
            if before is not None:
                holder.entrance.adopt(before.entrance)
        if self._anonymous is not None and old._anonymous is not None:
            self._anonymous.entrance.adopt(old._anonymous.entrance)


def given_credential(headers: Mapping[str, str], in_url: Sequence[str] = ()) -> str | Fault:
    """Return the credential of a request, empty if it has none."""
    # Test: test_a_key_is_taken_from_either_header.
    shown = [*(headers.get(name, "").strip() for name in KEY_HEADERS), *in_url]
    keys = list(dict.fromkeys(filter(None, shown)))
    if len(keys) > 1:
        return _unknown("the request contains different keys; send one of them")
    plain = keys[0] if keys else ""
    authorization = headers.get("authorization", "").strip()
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if authorization and scheme.lower() != "bearer":
        if plain:
            return plain
        return _unknown(f"`authorization` must use the Bearer scheme: {_HOW}")
    # Digests are compared: the time shows nothing about either value.
    if plain and token and not hmac.compare_digest(_digest(plain), _digest(token)):
        return _unknown(
            f"`{_key_header(headers)}` and `authorization` contain different keys; send one of them, or the same"
            " in both (Claude Code sends both if ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are set)"
        )
    return plain or token


def _key_header(headers: Mapping[str, str]) -> str:
    return next((name for name in KEY_HEADERS if name in headers), "the URL")


def _owner(key: Key | None) -> str:
    """Return the owner of a key's stored data: the key's configured name, else its digest.

    Never the place in the list: the next key would get the data of a key that is withdrawn.
    """
    if key is None:
        return ANONYMOUS
    if key.name:
        return f"name:{key.name}"
    value = key.key.value.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(value, digest_size=16, person=b"dragoman owner").hexdigest()
    return f"key:{digest}"


def _counted_as(key: Key) -> bytes:
    """Return a digest under which processes count the requests of a key."""
    value = key.key.value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(value, digest_size=16, person=b"dragoman limits").digest()


def _limits(key: Key) -> bool:
    return bool(
        key.requests_per_minute
        or key.tokens_per_minute
        or key.concurrent
        or key.budget_day
        or key.budget_month
    )


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()


def _unknown(message: str) -> Fault:
    return Fault(FaultKind.AUTH, message, status=401)
