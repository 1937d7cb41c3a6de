"""Key limits that hold for all gateways on one Redis.

The buckets of a key are a hash, its requests under way a sorted set of tickets by the time at which they expire.  A
gateway prolongs the tickets of its open requests, so those of a gateway that crashed stop counting.  All times are
Redis's.  What is admitted while Redis is away is charged with the next request that reaches it.
"""

import asyncio
from itertools import count
from typing import Final

from dragoman.gateway.state.key_limits import KeyLimits, LimitName, Refusal
from dragoman.gateway.state.redis_link import Argument, RedisLink, StateAwayError, script

LEASE_SECONDS: Final = 30  # how long a ticket counts unless it is prolonged
_NAMES: Final[dict[bytes, LimitName]] = {
    name.encode(): name for name in ("concurrent", "requests_per_minute", "tokens_per_minute")
}

# KEYS: buckets, tickets.  ARGV: requests and tokens per minute, concurrent, estimate, ticket, lease, owed requests,
# owed tokens.  Returns the limit that is exceeded, if any, and the seconds to wait.
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
if most > 0 then
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
return {limit, string.format('%.6f', wait)}
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

    async def enter(self, limits: KeyLimits, estimate: int) -> str | Refusal:
        """Begin a request of about `estimate` tokens; return a ticket for `leave`.

        Raises:
            StateAwayError: Redis does not respond.
        """
        ticket = self._ticket()
        owed = self._owed_requests, self._owed_tokens
        arguments: tuple[Argument, ...] = (
            limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent,
            estimate, ticket, LEASE_SECONDS, *owed,
        )  # fmt: skip
        self._owed_requests = self._owed_tokens = 0
        try:
            limit, seconds = await self._link.call(
                ENTER, (self._buckets, self._running), *arguments
            )
        except StateAwayError:
            self._tickets.discard(ticket)
            self._owed_requests += owed[0]
            self._owed_tokens += owed[1]
            raise
        except asyncio.CancelledError:  # the client left
            self.leave(ticket, -estimate)
            raise
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

    def prolong(self) -> None:
        """Keep the tickets of open requests; put them back if Redis lost them."""
        if self._tickets:
            self._link.send(PROLONG, (self._running,), LEASE_SECONDS, *self._tickets)

    def _ticket(self) -> str:
        ticket = f"{self._gateway}:{next(self._numbers)}"
        self._tickets.add(ticket)
        return ticket
