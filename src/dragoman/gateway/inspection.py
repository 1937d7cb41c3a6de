"""The inspector in the gateway: access by key, and the exchanges that are running or have just ended."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from dragoman.gateway.config.settings import Record
from dragoman.gateway.keys import Holder, Keyring
from dragoman.gateway.logging import Logger, RequestRecord
from dragoman.gateway.origins import is_loopback
from dragoman.gateway.request_context import RequestContext
from dragoman.inspector.access import Viewer
from dragoman.inspector.api import Facts, Inspector
from dragoman.inspector.summary import LogRecord, Summary, client_name, summarize

_MOST_ENDED: Final = 2000  # exchanges that are kept until someone looks


class KeyAccess:
    """Who may look, by the keys of the settings that are in force."""

    def __init__(self, keyring: Callable[[], Keyring]) -> None:
        self._keyring = keyring

    def viewer(self, headers: Mapping[str, str], remote: str) -> Viewer | None:
        """Return who a request is from; without keys, only clients on this machine may look."""
        found = self._keyring().identify(headers)
        if not isinstance(found, Holder):
            return None
        if found.anonymous and not is_loopback(remote):
            return None
        return _viewer(found)

    def viewer_of(self, owner: str) -> Viewer | None:
        found = self._keyring().of_owner(owner)
        return None if found is None or found.anonymous else _viewer(found)


def _viewer(holder: Holder) -> Viewer:
    return Viewer(all=holder.may_inspect, owner=holder.owner)


class Inspection:
    """The inspector over a gateway's folder of recordings and its memory."""

    def __init__(  # noqa: PLR0913 -- the parts of a gateway that it looks at
        self,
        *,
        record: Record,
        address: str,
        keyring: Callable[[], Keyring],
        running: Callable[[], Iterable[RequestContext]],
        logger: Logger,
        secret: bytes,
    ) -> None:
        self._record = record
        self._address = address
        self._running = running
        self._logger = logger
        self._ended: deque[tuple[RequestRecord, str, str]] = deque(maxlen=_MOST_ENDED)
        self.inspector: Inspector = Inspector(
            Path(record.dir) if record.dir else None,
            access=KeyAccess(keyring),
            secret=secret,
            facts=self._facts,
            news=self._news,
        )

    def reconfigure(self, record: Record) -> None:
        """Show the folder of other settings from now on."""
        self._record = record
        self.inspector.index.look_at(Path(record.dir) if record.dir else None)

    def ended(self, context: RequestContext, record: RequestRecord) -> None:
        """Keep an exchange that has ended, until someone looks."""
        if not context.outcome.is_exchange:
            return
        agent = context.http.headers.get("user-agent", "")
        self._ended.append((record, agent, context.owner))

    def _facts(self) -> Facts:
        record = self._record
        size = record.max_bytes / 1024**3
        keep = f"{record.max_age_days:g} days or {size:.3g} GB"
        when = record.when if record.dir else "off"
        return Facts(address=self._address, recording=when, keep=keep if record.dir else "")

    def _news(self) -> list[Summary]:
        """Return the exchanges that have ended since this was last asked, and those that are running."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        found = [self._summary(*one, running=False) for one in ended]
        for context in self._running():
            if context.outcome.is_exchange:
                record = context.log_record(0, left=False)
                agent = context.http.headers.get("user-agent", "")
                found.append(self._summary(record, agent, context.owner, running=True))
        return found

    def _summary(self, record: RequestRecord, agent: str, owner: str, *, running: bool) -> Summary:
        clean = msgspec.convert(self._logger.clean_record(record), LogRecord, strict=False)
        return summarize(clean, client=client_name(agent), owner=owner, running=running)
