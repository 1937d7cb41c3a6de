"""A failure that ends a stream, as it may be told: with the upstream's name, and without secrets."""

from collections.abc import Callable, Sequence

from dragoman.translate import PRELUDE
from dragoman.turn.events import Event, Fault


class Telling:
    """The last stage of an answer.  A failure before its first content is the pump's to tell, or to mend."""

    def __init__(self, tell: Callable[[Fault], Fault]) -> None:
        self._tell = tell
        self._begun = False

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """Return the same events, but for a failure."""
        if events and type(events[-1]) is Fault:
            return [self._told(event) for event in events]
        if not self._begun:
            self._begun = any(type(event) not in PRELUDE for event in events)
        return events if isinstance(events, list) else list(events)

    def _told(self, event: Event) -> Event:
        if type(event) is Fault and self._begun:
            return self._tell(event)
        self._begun = self._begun or type(event) not in PRELUDE
        return event
