"""Answers of the Responses dialect, kept for `previous_response_id`, `item_reference` and `GET`.

    store = await open_store(settings.store, environ=os.environ)
    body = (await store.expand(body, owner)).body
    await store.keep(owner, body, response)

All work with the database is done in one separate thread, one task after another; if too many
tasks are waiting, the caller waits first.  An owner cannot see the answers of another owner.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from dragoman.dialects.stored_responses import (
    Expanded,
    Page,
    asked_of,
    deleted,
    exchanged,
    expanded,
    item_list,
    may_ask,
    not_cancellable,
    response_of,
    unknown_previous,
)
from dragoman.gateway.config.settings import Store
from dragoman.gateway.responses.database import MEMORY, Database, StoreError, default_path
from dragoman.gateway.responses.redis_tables import RedisTables
from dragoman.gateway.vendor_ids import MAX_IDS
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.events import Fault

T = TypeVar("T")

_MAX_WAITING: Final = 64  # tasks; each holds a request or an answer
_SECONDS: Final = 10.0  # for a task and those before it
_KEEP_SECONDS: Final = 1.0  # the same, where the end of a stream waits for it
_FAILURES: Final = 3  # in a row, after which nothing is kept
_SKIP_SECONDS: Final = 30.0


class ResponsesStore:
    """What was answered, by owner and id."""

    def __init__(self, database: Database | RedisTables, thread: ThreadPoolExecutor) -> None:
        self._database = database
        self._thread = thread  # the one that made `database`
        self._places = asyncio.Semaphore(_MAX_WAITING)
        self._closed = False
        self._failures = 0  # to keep a response, in a row
        self._skip_until = 0.0  # none is kept before

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        max_bytes: int = 0,
        max_age_days: float = 0.0,
        owners: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open or make the file at `path`, or `:memory:`; see `set_owners`.

        Raises:
            ConfigError: it cannot be used.
        """
        make = partial(Database, path, max_bytes=max_bytes, max_age_days=max_age_days, clock=clock)
        return await cls.over(make, owners)

    @classmethod
    async def over(
        cls, make: Callable[[], Database | RedisTables], owners: Sequence[str] = ()
    ) -> Self:
        """Open the tables that a function returns, in the thread that uses them."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="responses-store")
        try:
            database = await asyncio.get_running_loop().run_in_executor(thread, make)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        store = cls(database, thread)
        store.set_owners(owners)
        return store

    def set_owners(self, owners: Sequence[str]) -> None:
        """Set the owners that may keep answers: each has an equal share of the room.

        The answers of other owners are deleted first when room is needed.
        """
        self._database.owners = tuple(owners)

    async def close(self) -> None:
        """Do what is waiting, and close.  Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown(wait=False)

    async def expand(self, body: bytes, owner: str, *, limits: Limits = DEFAULT_LIMITS) -> Expanded:
        """Return a request with the stored items that it refers to; other requests are unchanged.

        Raises:
            MalformedError: an answer or an item is not kept here, or the body is not a request.
            TooLargeError: the whole passes `max_request_bytes`.
            StoreError: the store cannot be read.
        """
        if not may_ask(body):
            return Expanded(body)

        def work() -> Expanded:
            asked = asked_of(body)
            if asked is None:
                return Expanded(body)
            history: list[bytes] = []
            if asked.previous_id:
                stored = self._database.find(owner, asked.previous_id)
                if stored is None:
                    raise unknown_previous(asked.previous_id)
                history = stored.input + stored.output
            found: dict[str, bytes] = {}
            if asked.references:
                found = self._database.find_items(owner, asked.references.values())
            return Expanded(expanded(asked, history, found, limits=limits), asked.previous_id)

        return await self._run(work)

    async def keep(self, owner: str, request_body: bytes, response: bytes) -> bool:
        """Keep the answer to an expanded request, unless it has `"store": false`; return whether it is kept.

        The end of a stream waits for this: it takes a second at most.  After several failures in a row
        nothing is kept for a while, and nothing is tried.

        Raises:
            MalformedError: one of them is not what it should be.
            StoreError: the store cannot be written.
        """
        now = asyncio.get_running_loop().time()
        if now < self._skip_until:
            return False

        def work() -> bool:
            kept = exchanged(request_body, response)
            return kept is not None and self._database.keep(owner, kept)

        try:
            kept = await self._run(work, _KEEP_SECONDS)
        except StoreError as failed:
            self._failures += 1
            if self._failures < _FAILURES:
                raise
            self._skip_until = asyncio.get_running_loop().time() + _SKIP_SECONDS
            message = f"{failed}; no response is stored for {_SKIP_SECONDS:g} s"
            raise StoreError(message) from failed
        self._failures = 0
        return kept

    async def note_given(self, owner: str, ids: Iterable[str]) -> None:
        """Remember ids of state that an upstream keeps and this owner was given.

        Raises:
            StoreError: the store cannot be written.
        """
        await self._run(partial(self._database.note_given, owner, tuple(ids), MAX_IDS))

    async def find_given(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return which of these ids this owner was given.

        Raises:
            StoreError: the store cannot be read.
        """
        return await self._run(partial(self._database.find_given, owner, tuple(ids)))

    async def get(self, response_id: str, owner: str) -> bytes | None:
        """Return an answer; None if there is none (see `stored_responses.not_found`)."""

        def work() -> bytes | None:
            stored = self._database.find(owner, response_id)
            if stored is None:
                return None
            return response_of(stored.head, stored.shared, stored.output)

        return await self._run(work)

    async def delete(self, response_id: str, owner: str) -> bytes | None:
        """Delete an answer and return the confirmation; None if there is none."""
        was_there = await self._run(partial(self._database.delete, owner, response_id))
        return deleted(response_id) if was_there else None

    async def input_items(self, response_id: str, owner: str, page: Page) -> bytes | None:
        """Return a page of the items that an answer was made from; None if there is no such answer.

        Raises:
            MalformedError: the page begins after an item that is not in the list.
        """

        def work() -> bytes | None:
            stored = self._database.find(owner, response_id)
            return None if stored is None else item_list(response_id, stored.input, page)

        return await self._run(work)

    async def cancel(self, response_id: str, owner: str) -> Fault | None:
        """Return why an answer cannot be cancelled: it has ended; None if there is none."""
        found = await self._run(partial(self._database.find, owner, response_id))
        return None if found is None else not_cancellable()

    async def _run(self, work: Callable[[], T], seconds: float = _SECONDS) -> T:
        try:
            async with asyncio.timeout(seconds), self._places:
                if self._closed:
                    raise StoreError("the response store is closed")
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except TimeoutError as error:
            message = f"the response store took longer than {seconds:g} s"
            raise StoreError(message) from error
        except sqlite3.Error as error:
            raise StoreError(f"the response store failed: {error}") from error


async def open_store(
    settings: Store,
    *,
    environ: Mapping[str, str],
    owners: Sequence[str] = (),
    clock: Callable[[], float] = time.time,
    shared: Callable[[Store], RedisTables] | None = None,
) -> ResponsesStore | None:
    """Open the store that the settings ask for; None if they ask for none.

    `shared` opens tables that several gateways share; they are used instead of this process's memory.

    Raises:
        ConfigError: its file cannot be used.
    """
    if settings.responses == "off":
        return None
    if settings.responses == "memory" and shared is not None:
        return await ResponsesStore.over(partial(shared, settings), owners)
    return await ResponsesStore.open(
        _path(settings, environ),
        max_bytes=settings.max_bytes,
        max_age_days=settings.max_age_days,
        owners=owners,
        clock=clock,
    )


def _path(settings: Store, environ: Mapping[str, str]) -> str:
    if settings.responses == "memory":
        return MEMORY
    return str(Path(settings.path).expanduser()) if settings.path else default_path(environ)
