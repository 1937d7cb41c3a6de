"""Which upstreams rest, known to all gateways on one Redis.

A sorted set has the upstreams by the time at which their rest ends, by Redis's clock.  Gateways write to it when a rest
begins or ends, and read it twice a second, so that a request to an upstream that is well never waits for Redis.
"""

from typing import Final

from dragoman.gateway.state.redis_link import RedisLink, script

READ_SECONDS: Final = 0.4

# KEYS: upstreams.  ARGV: name, seconds.  A rest is never shortened.
REST: Final = script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local until_ = now + ARGV[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local before = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
redis.call('ZADD', KEYS[1], string.format('%.6f', math.max(before, until_)), ARGV[1])
redis.call('EXPIRE', KEYS[1], 600)
return 1
""")
# KEYS: upstreams.  ARGV: name.
WELL: Final = script("return redis.call('ZREM', KEYS[1], ARGV[1])")
# KEYS: upstreams.  Returns names and the seconds that are left.
READ: Final = script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local found = redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'WITHSCORES')
for index = 2, #found, 2 do found[index] = string.format('%.6f', found[index] - now) end
return found
""")


class RedisRests:
    """The sorted set of upstreams that rest."""

    def __init__(self, link: RedisLink, prefix: str) -> None:
        self._link = link
        self._keys = (f"{prefix}resting",)

    def rest(self, upstream: str, seconds: float) -> None:
        """Let all gateways know that an upstream rests."""
        self._link.send(REST, self._keys, upstream, seconds)

    def well(self, upstream: str) -> None:
        """Let all gateways know that an upstream answers again."""
        self._link.send(WELL, self._keys, upstream)

    async def read(self) -> dict[str, float]:
        """Return the seconds that each upstream still rests.

        Raises:
            StateAwayError: Redis does not respond.
        """
        found = await self._link.call(READ, self._keys)
        return {
            name.decode(errors="replace"): float(seconds)
            for name, seconds in zip(found[::2], found[1::2], strict=True)
        }
