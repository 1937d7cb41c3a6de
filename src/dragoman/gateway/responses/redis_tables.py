"""Kept answers in Redis, for several gateways: the same operations as `Database`.

An item that appears in many requests is kept once, under a digest of its bytes.  Everything expires: an item at the same
time as the last answer that needs it.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from dragoman.dialects.stored_responses import Exchanged, Item
from dragoman.gateway.responses.database import Stored, StoreError
from dragoman.gateway.state.redis_link import CALL_SECONDS

T = TypeVar("T")
_PREFIX: Final = "dragoman:"
_DAY: Final = 86_400
_DEFAULT_DAYS: Final = 30.0  # where the settings have no limit


class _Row(Struct, array_like=True):
    """An answer, with the digests of its items."""

    head: bytes
    inputs: int
    pieces: list[str]


_ROW: Final = msgspec.msgpack.Decoder(_Row)


class StoreAwayError(StoreError):
    """The server that holds the answers does not respond."""

    http_status = 503


class RedisTables:
    """One connection.  Every method runs in the thread that made it."""

    def __init__(
        self, url: str, *, max_bytes: int, max_age_days: float, available: Callable[[], bool]
    ) -> None:
        """`available` returns whether the server responds; if not, every operation fails at once."""
        from redis import Redis  # noqa: PLC0415 -- an extra
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        self._redis: Redis = Redis.from_url(
            url,
            protocol=2,
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._max_bytes = max_bytes
        self._seconds = max(1, int((max_age_days or _DEFAULT_DAYS) * _DAY))
        self._available = available
        self.owners: tuple[str, ...] = ()  # whose answers may be stored

    def close(self) -> None:
        self._redis.close()

    # --- reading --------------------------------------------------------------------------------

    def find(self, owner: str, name: str) -> Stored | None:
        """Return an answer of this owner; None also if Redis had no room for all of it."""

        def work() -> Stored | None:
            packed: Any = self._redis.get(_name("response", owner, name))
            if packed is None:
                return None
            row = _ROW.decode(packed)
            bodies: Any = self._redis.mget([_name("piece", owner, one) for one in row.pieces])
            if None in bodies:
                return None
            end = 1 + row.inputs
            return Stored(row.head, bodies[0], bodies[1:end], bodies[end:])

        return self._run(work)

    def find_items(self, owner: str, item_ids: Iterable[str]) -> dict[str, bytes]:
        """Return the items of this owner that are kept, by their ids."""
        wanted = list(item_ids)

        def work() -> dict[str, bytes]:
            digests: Any = self._redis.mget([_name("item", owner, one) for one in wanted])
            known = {one: digest.decode() for one, digest in zip(wanted, digests, strict=True) if digest}  # fmt: skip
            if not known:
                return {}
            bodies: Any = self._redis.mget([_name("piece", owner, one) for one in known.values()])
            return {one: body for one, body in zip(known, bodies, strict=True) if body is not None}

        return self._run(work)

    def find_given(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return which of these ids this owner was given."""
        key = _name("given", owner)

        def work() -> set[str]:
            return {one for one in ids if self._redis.zscore(key, one) is not None}

        return self._run(work)

    # --- writing --------------------------------------------------------------------------------

    def keep(self, owner: str, exchanged: Exchanged) -> bool:
        """Keep an answer, in place of one of the same id; false if it is larger than its owner's share."""
        share = self._max_bytes // max(1, len(self.owners))
        if self._max_bytes and exchanged.size > share:
            return False
        items = (Item(exchanged.shared), *exchanged.input, *exchanged.output)
        digests = [hashlib.blake2b(item.body, digest_size=16).hexdigest() for item in items]
        names = [_name("piece", owner, digest) for digest in digests]
        row = _Row(exchanged.head, len(exchanged.input), digests)

        def work() -> bool:
            prolonged = self._redis.pipeline(transaction=False)
            for name in names:
                prolonged.expire(name, self._seconds)
            there = prolonged.execute()
            written = self._redis.pipeline()
            for name, digest, item, known in zip(names, digests, items, there, strict=True):
                if not known:
                    written.set(name, item.body, ex=self._seconds)
                if item.id:
                    written.set(_name("item", owner, item.id), digest, ex=self._seconds)
            packed = msgspec.msgpack.encode(row)
            written.set(_name("response", owner, exchanged.id), packed, ex=self._seconds)
            written.execute()
            return True

        return self._run(work)

    def delete(self, owner: str, name: str) -> bool:
        """Delete an answer of this owner; its items expire, for other answers may need them."""
        return self._run(lambda: bool(self._redis.delete(_name("response", owner, name))))

    def note_given(self, owner: str, ids: Iterable[str], most: int) -> None:
        """Record that an owner was given these ids; only the owner's latest `most` ids are kept."""
        key = _name("given", owner)

        def work() -> None:
            now = time.time()
            written = self._redis.pipeline()
            written.zadd(key, dict.fromkeys(ids, now))
            written.zremrangebyscore(key, "-inf", now - self._seconds)
            written.zremrangebyrank(key, 0, -most - 1)
            written.expire(key, self._seconds)
            written.execute()

        self._run(work)

    def _run(self, work: Callable[[], T]) -> T:
        from redis.exceptions import RedisError  # noqa: PLC0415 -- an extra

        if not self._available():
            raise StoreAwayError("stored responses cannot be reached: Redis does not respond")
        try:
            return work()
        except RedisError as error:
            raise StoreAwayError(f"stored responses cannot be reached: {error}") from error


def _name(kind: str, owner: str, one: str = "") -> str:
    return f"{_PREFIX}{kind}:{owner}:{one}"
