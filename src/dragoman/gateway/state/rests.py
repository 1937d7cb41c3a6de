"""Cool-downs of upstreams, shared by processes: in a file or in Redis.

The workers of one gateway use a small file in the folder that they share, gateways on several machines use Redis.  A
process writes when a rest begins or ends, and reads twice a second, so that a request to an upstream that is well never
waits for another process.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from dragoman.gateway.state.redis_link import RedisLink, script

if sys.platform != "win32":  # which has no workers
    import fcntl

READ_SECONDS: Final = 0.4

# --- workers ----------------------------------------------------------------------------------------

_ENDS: Final = msgspec.json.Decoder(dict[str, float])


class WorkerRests:
    """A file with the time at which each rest ends, by the clock that all processes of a machine have in common.

    A worker that changes it holds a lock and replaces the file as a whole, so that the others read it without waiting.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "rests"
        self._next = folder / "rests.next"
        self._lock = os.open(folder / "rests.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._lock)

    def rest(self, upstream: str, seconds: float) -> None:
        """Let all workers know that an upstream rests.  A rest is never shortened."""
        end = time.monotonic() + seconds
        self._change(lambda ends: ends.update({upstream: max(end, ends.get(upstream, end))}))

    def well(self, upstream: str) -> None:
        """Let all workers know that an upstream answers again."""
        self._change(lambda ends: ends.pop(upstream, None))

    def read(self) -> dict[str, float]:
        """Return the seconds that each upstream still rests."""
        now = time.monotonic()
        return {name: end - now for name, end in self._ends().items() if end > now}

    def _ends(self) -> dict[str, float]:
        with suppress(OSError, msgspec.MsgspecError):  # without a file nothing rests
            return _ENDS.decode(self._path.read_bytes())
        return {}

    def _change(self, change: Callable[[dict[str, float]], object]) -> None:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            now = time.monotonic()
            ends = {name: end for name, end in self._ends().items() if end > now}
            change(ends)
            with suppress(OSError):  # other workers find out by themselves
                made = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(made, "wb") as file:
                    file.write(msgspec.json.encode(ends))
                self._next.replace(self._path)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)


# --- Redis ------------------------------------------------------------------------------------------

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
    """A sorted set of the upstreams by the time at which their rest ends, by Redis's clock."""

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
