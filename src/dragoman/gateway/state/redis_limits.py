"""Key limits that hold for all gateways on one Redis.

The buckets of a key are a hash, its requests under way a sorted set of tickets by the time at which they expire.  A
gateway prolongs the tickets of its open requests, so those of a gateway that crashed stop counting.  All times are
Redis's.  One script decides each request, so a limit is exact however the requests are distributed.

What is admitted while Redis is away is charged when it is back.  A server that lost its memory begins with what the
gateways know of the buckets.  Machines report that they run, so that each knows its share of a limit when Redis goes
away.

What a key has spent is one number for each day and month, whose name has the date by the gateway's clock.  Costs that
Redis did not confirm are sent again.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from dragoman.gateway.prices import nanodollars
from dragoman.gateway.state.key_limits import KeyLimits, Levels, LimitName, Refusal
from dragoman.gateway.state.redis_link import Argument, RedisLink, StateAwayError, script
from dragoman.gateway.state.spending import Spent, period_names

LEASE_SECONDS: Final = 30  # how long a ticket counts unless it is prolonged
_SUM_SECONDS: Final = 40 * 86_400  # how long the sum of a day or month is kept
_LIMITS: Final[tuple[LimitName, ...]] = (
    "concurrent",
    "requests_per_minute",
    "tokens_per_minute",
    "budget_day",
    "budget_month",
)
_NAMES: Final = {name.encode(): name for name in _LIMITS}

# The beginning of a script that counts: see `redis_link.py`.
_IN_TIME: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
if now > tonumber(ARGV[#ARGV]) then return redis.error_reply('it did not respond in time') end
"""
# KEYS: buckets, tickets, sum of the day, of the month, machines.  ARGV: requests and tokens per minute, concurrent,
# estimate, ticket, lease, owed requests, owed tokens, budgets of day and month, what is in the buckets if Redis does
# not know.  Without a ticket, only what is owed is charged.  Returns the limit that is exceeded, if any, the seconds to
# wait, the sums of keys with budgets, what is in the buckets, and the number of machines.
ENTER: Final = script(
    _IN_TIME
    + """
local rpm, tpm, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, lease = tonumber(ARGV[4]), tonumber(ARGV[6])
local kept = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local passed = math.max(0, now - (tonumber(kept[3]) or now))
if not kept[3] then kept = {ARGV[11], ARGV[12]} end
local requests = math.max(0, kept[1] - passed * rpm / 60) + ARGV[7]
local tokens = math.max(0, math.max(0, kept[2] - passed * tpm / 60) + ARGV[8])
local limit, wait = '', 0
local asks = ARGV[5] ~= ''
local day = ARGV[9] ~= '0' and redis.call('GET', KEYS[3]) or '0'
local month = ARGV[10] ~= '0' and redis.call('GET', KEYS[4]) or '0'
if ARGV[9] ~= '0' and tonumber(day) >= tonumber(ARGV[9]) then limit = 'budget_day' end
if ARGV[10] ~= '0' and tonumber(month) >= tonumber(ARGV[10]) then limit = 'budget_month' end
if asks and limit == '' and most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) >= most then limit, wait = 'concurrent', 1 end
end
if asks and limit == '' and rpm > 0 and requests + 1 - rpm > 0.000001 then
  limit, wait = 'requests_per_minute', (requests + 1 - rpm) * 60 / rpm
end
if asks and limit == '' and tpm > 0 and cost > 0 then
  local over = tokens + math.min(cost, tpm) - tpm
  if over > 0.000001 then limit, wait = 'tokens_per_minute', over * 60 / tpm end
end
if asks and limit == '' then
  if rpm > 0 then requests = requests + 1 end
  if tpm > 0 then tokens = tokens + cost end
  if most > 0 then
    redis.call('ZADD', KEYS[2], now + lease, ARGV[5])
    redis.call('EXPIRE', KEYS[2], lease * 2)
  end
end
local drained = 60
if rpm > 0 then drained = math.max(drained, requests * 60 / rpm) end
if tpm > 0 then drained = math.max(drained, tokens * 60 / tpm) end
redis.call('HSET', KEYS[1], 'requests', string.format('%.6f', requests),
  'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], math.ceil(math.min(drained, 86400)) + 60)
return {limit, string.format('%.6f', wait), day, month, string.format('%.6f', requests),
  string.format('%.6f', tokens), redis.call('ZCARD', KEYS[5])}
"""
)
# KEYS: buckets, tickets.  ARGV: ticket, tokens to add.
LEAVE: Final = script("""
redis.call('ZREM', KEYS[2], ARGV[1])
local tokens = redis.call('HGET', KEYS[1], 'tokens')
if tokens and tonumber(ARGV[2]) ~= 0 then
  redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', math.max(0, tokens + ARGV[2])))
end
return 1
""")
# KEYS: sums.  ARGV: seconds until they expire, what is added to each.  Returns the sums.
CHARGE: Final = script(
    _IN_TIME
    + """
local sums = {}
for index, key in ipairs(KEYS) do
  sums[index] = redis.call('INCRBY', key, ARGV[index + 1])
  redis.call('EXPIRE', key, ARGV[1])
end
return sums
"""
)
# KEYS: tickets.  ARGV: lease, tickets.
PROLONG: Final = script("""
local time = redis.call('TIME')
for index = 2, #ARGV - 1 do redis.call('ZADD', KEYS[1], time[1] + ARGV[1], ARGV[index]) end
redis.call('EXPIRE', KEYS[1], ARGV[1] * 2)
return 1
""")
# KEYS: buckets, machines.  ARGV: requests and tokens per minute.  Returns what is in the buckets, and the number of
# machines.
LEVELS: Final = script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local kept = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local minutes = math.max(0, now - (tonumber(kept[3]) or now)) / 60
local found = {}
for field = 1, 2 do
  found[field] = string.format('%.6f', math.max(0, (tonumber(kept[field]) or 0) - minutes * ARGV[field]))
end
found[3] = redis.call('ZCARD', KEYS[2])
return found
""")
# KEYS: machines.  ARGV: name of this one, seconds for which it counts.
REPORT: Final = script("""
local time = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', time[1])
redis.call('ZADD', KEYS[1], time[1] + ARGV[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2] * 2)
return 1
""")
_MAX_LOST: Final = 1000  # tickets
_MINUTE: Final = 60.0


class RedisMeter:
    """What one key has under way and has used at all gateways."""

    def __init__(self, link: RedisLink, prefix: str, key: str, gateway: str) -> None:
        self._link = link
        self._machines = f"{prefix}machines"
        self._buckets = f"{prefix}limits:{key}"
        self._running = f"{prefix}running:{key}"
        self._gateway = gateway
        self._numbers = count()
        self._tickets: set[str] = set()  # of requests under way here
        self._limits = (0, 0)  # per minute: requests, tokens
        self._asked_at = -math.inf  # when the last request began
        self.levels: Levels | None = None
        self._lost: list[str] = []  # tickets that Redis may have, of calls without a response
        self._owed_requests = 0
        self._owed_tokens = 0
        self._spent = f"{prefix}spent:{key}"
        self._sums: dict[str, int] = {}  # the sums that Redis reported last, by their names
        self._unsent: dict[str, int] = {}  # what Redis has to add to each sum
        self._sending: asyncio.Task[None] | None = None

    @property
    def catching_up(self) -> bool:
        """Redis is back, and does not know yet what all gateways admitted without it."""
        return self._link.catching_up

    async def enter(self, limits: KeyLimits, estimate: int) -> str | Refusal:
        """Begin a request of about `estimate` tokens; return a ticket for `leave`.

        Raises:
            StateAwayError: Redis does not respond.
        """
        ticket = self._ticket()
        self._limits = limits.requests_per_minute, limits.tokens_per_minute
        self._asked_at = _now()
        # What generates nothing, such as cancelling a response, is not refused for its cost.
        budgets = (limits.budget_day, limits.budget_month) if estimate else (0.0, 0.0)
        try:
            limit, seconds = await self._call(limits.concurrent, estimate, ticket, budgets)
        except StateAwayError:
            self._tickets.discard(ticket)
            if len(self._lost) < _MAX_LOST:
                self._lost.append(ticket)
            raise
        except asyncio.CancelledError:  # the client left
            self.leave(ticket, -estimate)
            raise
        if limit:
            self._tickets.discard(ticket)
            return Refusal(_NAMES[limit], float(seconds))
        return ticket

    async def charge_owed(self) -> None:
        """Charge what was admitted while Redis was away.

        Raises:
            StateAwayError: Redis does not respond.
        """
        if self._owed_requests or self._owed_tokens:
            await self._call(0, 0, "", (0.0, 0.0))

    async def _call(
        self, concurrent: int, estimate: int, ticket: str, budgets: tuple[float, float]
    ) -> tuple[bytes, bytes]:
        """Run `ENTER` with what is owed; return the limit that is exceeded, and the seconds to wait."""
        owed = self._owed_requests, self._owed_tokens
        self._owed_requests = self._owed_tokens = 0
        day, month = self._names(time.time())
        keys = (self._buckets, self._running, day, month, self._machines)
        arguments: tuple[Argument, ...] = (
            *self._limits, concurrent, estimate, ticket, LEASE_SECONDS, *owed, *map(nanodollars, budgets), *self._known(),
        )  # fmt: skip
        try:
            limit, seconds, *sums, requests, tokens, machines = await self._link.call(
                ENTER, keys, *arguments
            )
        except StateAwayError:
            self._owed_requests += owed[0]
            self._owed_tokens += owed[1]
            raise
        self._learn(requests, tokens, machines)
        if any(budgets):
            self._note((day, month), sums)
        return limit, seconds

    def owe(self, estimate: int) -> str:
        """Note a request that was admitted while Redis was away; return a ticket for `leave`."""
        self._owed_requests += 1
        self._owed_tokens += estimate
        return self._ticket()

    def leave(self, ticket: str, tokens: int) -> None:
        """End a request that used `tokens` more than estimated, or fewer if negative."""
        self._tickets.discard(ticket)
        if self._link.available:
            self._link.send(LEAVE, (self._buckets, self._running), ticket, tokens)
        else:
            self._owed_tokens += tokens

    def charge(self, nano: int, today: float) -> None:
        """Add what a request cost; it is sent when Redis responds."""
        for name in self._names(today):
            self._unsent[name] = self._unsent.get(name, 0) + nano
        self._send_costs()

    def spent(self, today: float) -> Spent:
        """Return the sums of all gateways, as of the last request here."""
        return Spent(*(self._sums.get(name, 0) for name in self._names(today)))

    async def wait_sent(self) -> None:
        """Wait until costs that are being sent have arrived."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    def _names(self, today: float) -> tuple[str, str]:
        """Return the keys of the sums of the current day and month."""
        day, month = period_names(today)
        return f"{self._spent}:{day}", f"{self._spent}:{month}"

    def _note(self, names: tuple[str, ...], sums: Sequence[bytes | int]) -> None:
        self._sums = dict(zip(names, map(int, sums), strict=True))

    def _send_costs(self) -> None:
        """Send what was spent, unless Redis is away or something is being sent."""
        if self._unsent and self._sending is None and self._link.available:
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        sent, self._unsent = self._unsent, {}
        try:
            sums = await self._link.call(CHARGE, tuple(sent), _SUM_SECONDS, *sent.values())
        except StateAwayError:
            for name, nano in sent.items():
                self._unsent[name] = self._unsent.get(name, 0) + nano
            self._sending = None  # the next cost, or the next connection, tries again
        else:
            self._note(tuple(sent), sums)
            self._sending = None
            self._send_costs()

    def prolong(self) -> None:
        """Keep the tickets of open requests, which Redis may have lost; drop those of calls that failed; send costs."""
        if not self._link.available:
            return
        self._send_costs()
        lost, self._lost = self._lost, []
        for ticket in lost:
            self._link.send(LEAVE, (self._buckets, self._running), ticket, 0)
        if self._tickets:
            self._link.send(PROLONG, (self._running,), LEASE_SECONDS, *self._tickets)

    @property
    def in_use(self) -> bool:
        """A request came within the last minute, so that its limits may not be drained yet."""
        return _now() - self._asked_at < _MINUTE

    async def read_levels(self) -> None:
        """Learn how full the buckets are, to which other gateways may have added.

        Raises:
            StateAwayError: Redis does not respond.
        """
        keys = (self._buckets, self._machines)
        self._learn(*await self._link.call(LEVELS, keys, *self._limits))

    def _learn(self, requests: bytes, tokens: bytes, machines: int) -> None:
        """Keep what Redis reports, unless it cannot know yet what the other gateways admitted."""
        if not self.catching_up:
            self.levels = Levels(_now(), float(requests), float(tokens), machines)

    def _known(self) -> tuple[float, float]:
        """Return how full the buckets are according to the last report."""
        if self.levels is None:
            return 0.0, 0.0
        minutes = (_now() - self.levels.at) / _MINUTE
        requests, tokens = self._limits
        return (
            max(0.0, self.levels.requests - minutes * requests),
            max(0.0, self.levels.tokens - minutes * tokens),
        )

    def _ticket(self) -> str:
        ticket = f"{self._gateway}:{next(self._numbers)}"
        self._tickets.add(ticket)
        return ticket


def _now() -> float:
    return asyncio.get_running_loop().time()
