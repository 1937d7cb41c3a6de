"""Key limits that hold for all gateways on one Redis.

The buckets of a key are a hash, its requests under way a sorted set of tickets by the time at which they expire.  A
gateway prolongs the tickets of its open requests, so those of a gateway that crashed stop counting.  All times are
Redis's.  What is admitted while Redis is away is charged with the next request that reaches it.

What a key has spent is one number for each day and month, whose name has the date by the gateway's clock.  Costs that
Redis did not confirm are sent again.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from dragoman.gateway.prices import nanodollars
from dragoman.gateway.state.key_limits import KeyLimits, LimitName, Refusal
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

# KEYS: buckets, tickets, sum of the day, of the month.  ARGV: requests and tokens per minute, concurrent, estimate,
# ticket, lease, owed requests, owed tokens, budgets of day and month.  Returns the limit that is exceeded, if any, the
# seconds to wait, and the sums of keys with budgets.
ENTER: Final = script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local rpm, tpm, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, lease = tonumber(ARGV[4]), tonumber(ARGV[6])
local kept = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local passed = math.max(0, now - (tonumber(kept[3]) or now))
local requests = math.max(0, (tonumber(kept[1]) or 0) - passed * rpm / 60) + ARGV[7]
local tokens = math.max(0, math.max(0, (tonumber(kept[2]) or 0) - passed * tpm / 60) + ARGV[8])
local limit, wait = '', 0
local day = ARGV[9] ~= '0' and redis.call('GET', KEYS[3]) or '0'
local month = ARGV[10] ~= '0' and redis.call('GET', KEYS[4]) or '0'
if ARGV[9] ~= '0' and tonumber(day) >= tonumber(ARGV[9]) then limit = 'budget_day' end
if ARGV[10] ~= '0' and tonumber(month) >= tonumber(ARGV[10]) then limit = 'budget_month' end
if limit == '' and most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) >= most then limit, wait = 'concurrent', 1 end
end
if limit == '' and rpm > 0 and requests + 1 - rpm > 0.000001 then
  limit, wait = 'requests_per_minute', (requests + 1 - rpm) * 60 / rpm
end
if limit == '' and tpm > 0 and cost > 0 then
  local over = tokens + math.min(cost, tpm) - tpm
  if over > 0.000001 then limit, wait = 'tokens_per_minute', over * 60 / tpm end
end
if limit == '' then
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
return {limit, string.format('%.6f', wait), day, month}
""")
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
CHARGE: Final = script("""
local sums = {}
for index, key in ipairs(KEYS) do
  sums[index] = redis.call('INCRBY', key, ARGV[index + 1])
  redis.call('EXPIRE', key, ARGV[1])
end
return sums
""")
# KEYS: tickets.  ARGV: lease, tickets.
PROLONG: Final = script("""
local time = redis.call('TIME')
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], time[1] + ARGV[1], ARGV[index]) end
redis.call('EXPIRE', KEYS[1], ARGV[1] * 2)
return 1
""")


class RedisMeter:
    """What one key has under way and has used at all gateways."""

    def __init__(self, link: RedisLink, prefix: str, key: str, gateway: str) -> None:
        self._link = link
        self._buckets = f"{prefix}limits:{key}"
        self._running = f"{prefix}running:{key}"
        self._gateway = gateway
        self._numbers = count()
        self._tickets: set[str] = set()  # of requests under way here
        self._owed_requests = 0
        self._owed_tokens = 0
        self._spent = f"{prefix}spent:{key}"
        self._sums: dict[str, int] = {}  # the sums that Redis reported last, by their names
        self._unsent: dict[str, int] = {}  # what Redis has to add to each sum
        self._sending: asyncio.Task[None] | None = None

    async def enter(self, limits: KeyLimits, estimate: int) -> str | Refusal:
        """Begin a request of about `estimate` tokens; return a ticket for `leave`.

        Raises:
            StateAwayError: Redis does not respond.
        """
        ticket = self._ticket()
        owed = self._owed_requests, self._owed_tokens
        day, month = self._names(time.time())
        # What generates nothing, such as cancelling a response, is not refused for its cost.
        budgets = (limits.budget_day, limits.budget_month) if estimate else (0, 0)
        arguments: tuple[Argument, ...] = (
            limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent,
            estimate, ticket, LEASE_SECONDS, *owed, *map(nanodollars, budgets),
        )  # fmt: skip
        self._owed_requests = self._owed_tokens = 0
        try:
            limit, seconds, *sums = await self._link.call(
                ENTER, (self._buckets, self._running, day, month), *arguments
            )
        except StateAwayError:
            self._tickets.discard(ticket)
            self._owed_requests += owed[0]
            self._owed_tokens += owed[1]
            raise
        except asyncio.CancelledError:  # the client left
            self.leave(ticket, -estimate)
            raise
        if any(budgets):
            self._note((day, month), sums)
        if limit:
            self._tickets.discard(ticket)
            return Refusal(_NAMES[limit], float(seconds))
        return ticket

    def owe(self, estimate: int) -> str:
        """Note a request that was admitted while Redis was away; return a ticket for `leave`."""
        self._owed_requests += 1
        self._owed_tokens += estimate
        return self._ticket()

    def leave(self, ticket: str, tokens: int) -> None:
        """End a request; `tokens` is by how many its estimate was too low."""
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

    async def settle(self) -> None:
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
        """Keep the tickets of open requests, put them back if Redis lost them; send costs that are due."""
        self._send_costs()
        if self._tickets:
            self._link.send(PROLONG, (self._running,), LEASE_SECONDS, *self._tickets)

    def _ticket(self) -> str:
        ticket = f"{self._gateway}:{next(self._numbers)}"
        self._tickets.add(ticket)
        return ticket
