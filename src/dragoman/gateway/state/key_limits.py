"""How much of its limits a key has used, counted in this process.

Limits per minute are buckets that drain at a steady pace: a key with 60 requests a minute may send 60 at once and
then one a second.  Time comes in as monotonic seconds; for budgets, which follow the calendar, as Unix seconds.
"""

from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from dragoman.gateway.state.spending import BudgetName, Budgets, Spending, Spent

LimitName: TypeAlias = (
    Literal["concurrent", "requests_per_minute", "tokens_per_minute"] | BudgetName
)

# Seconds by which a process may be behind another: its event loop reads the clock once a turn, and may be held up.
_SKEW: Final = 60.0
_ROUNDING: Final = 1e-6  # a client that waited as long as it should must not be refused by rounding


class KeyLimits(Budgets, Protocol):
    """The limits of a key in its settings; 0 means no limit."""

    @property
    def requests_per_minute(self) -> int: ...
    @property
    def tokens_per_minute(self) -> int: ...
    @property
    def concurrent(self) -> int: ...


class Refusal(NamedTuple):
    """Which limit a request would exceed, and for how many seconds; 0 for budgets, which have a date."""

    limit: LimitName
    seconds: float


# When another request of the same key ends is not known.
BUSY: Final = Refusal("concurrent", 1.0)


class Levels(NamedTuple):
    """How full the buckets of a key were on all machines."""

    at: float
    requests: float
    tokens: float
    machines: int


class SharedMeter(Protocol):
    """What counts the requests of one key on several machines."""

    @property
    def levels(self) -> Levels | None:
        """The latest that the server reported."""
        ...

    @property
    def catching_up(self) -> bool:
        """The server is back, and does not know yet what all machines admitted without it."""
        ...

    async def enter(self, limits: KeyLimits, estimate: int) -> str | Refusal:
        """Begin a request of about `estimate` tokens; return its ticket, which `leave` needs.

        Raises:
            StateAwayError: the server that counts does not respond.
        """
        ...

    def owe(self, estimate: int) -> str:
        """Note a request that was admitted without asking; return a ticket for `leave`."""
        ...

    def leave(self, ticket: str, tokens: int) -> None:
        """End a request that used `tokens` more than estimated, or fewer if negative."""
        ...

    def charge(self, nano: int, today: float) -> None:
        """Add what a request cost; it is sent when the server responds."""
        ...

    def spent(self, today: float) -> Spent:
        """Return the sums of all machines, as of the last request here."""
        ...


class Bucket:
    """How much of a limit per minute is used up: it fills by spending and drains with time."""

    __slots__ = ("at", "level")

    def __init__(self) -> None:
        self.level: float = 0.0
        self.at: float = 0.0  # when `level` was true

    def wait(self, cost: float, *, per_minute: int, now: float) -> float:
        """Return the seconds until `cost` fits; one larger than the limit fits an empty bucket."""
        passed = now - self.at
        if passed > 0:
            self.level = max(0.0, self.level - passed * per_minute / 60)
        if not -_SKEW < passed <= 0:
            self.at = now
        over = self.level + min(cost, per_minute) - per_minute
        return over * 60 / per_minute if over > _ROUNDING else 0.0

    def spend(self, amount: float) -> None:
        """Add an amount to the level; a negative one corrects an estimate that was too high."""
        self.level = max(0.0, self.level + amount)

    def learn(self, level: float, at: float) -> None:
        """Set the level to a server's report, unless this bucket was used after the report."""
        if at > self.at:
            self.level, self.at = level, at


class Meter:
    """What one key has under way and has used: it outlives a reload of the settings.

    If a server counts for several machines and goes away, this meter learns how full the buckets were.  From then on
    a request costs as often as there are machines: each assumes that the others admit as many as it does, so that
    all of them together stay within the limits.
    """

    __slots__ = ("machines", "requests", "running", "spending", "tokens")

    def __init__(self) -> None:
        self.spending: Spending = Spending()
        self.requests: Bucket = Bucket()
        self.tokens: Bucket = Bucket()
        self.running: int = 0
        self.machines: int = 1  # that count the same key when no server counts for all

    def enter(self, limits: KeyLimits | None, now: float, estimate: int) -> Refusal | None:
        """Begin a request of about `estimate` tokens; a refused one costs nothing."""
        if limits is not None:
            refusal = self._over_limit(limits, now, estimate * self.machines)
            if refusal is not None:
                return refusal
            if limits.requests_per_minute:
                self.requests.spend(self.machines)
            if limits.tokens_per_minute:
                self.tokens.spend(estimate * self.machines)
        self.running += 1
        return None

    def learn(self, levels: Levels) -> None:
        """Set both buckets to the levels that a server reported for all machines."""
        self.requests.learn(levels.requests, levels.at)
        self.tokens.learn(levels.tokens, levels.at)
        self.machines = max(1, levels.machines)

    def leave(self, tokens: int) -> None:
        """End a request that used `tokens` more than estimated, or fewer if negative."""
        self.running -= 1
        self.tokens.spend(tokens)

    def charge(self, nano: int, today: float) -> None:
        """Add what a request cost."""
        self.spending.add(nano, today)

    def spent(self, today: float) -> Spent:
        """Return what was spent on the current day and in the current month."""
        return self.spending.spent(today)

    def _over_limit(self, limits: KeyLimits, now: float, tokens: int) -> Refusal | None:
        if limits.concurrent and self.running * self.machines >= limits.concurrent:
            return BUSY
        limit = limits.requests_per_minute
        if limit and (seconds := self.requests.wait(self.machines, per_minute=limit, now=now)):
            return Refusal("requests_per_minute", seconds)
        limit = limits.tokens_per_minute
        if limit and tokens and (wait := self.tokens.wait(tokens, per_minute=limit, now=now)):
            return Refusal("tokens_per_minute", wait)
        return None
