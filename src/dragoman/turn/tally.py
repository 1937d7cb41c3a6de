"""What the calls of one answer amount to, wherever they were found: in fields of their own, or in text."""

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.turn.events import CALL_KINDS, ArgsDelta, BlockStart, Event, InputDelta
from dragoman.turn.losses import Loss


class Tally:
    """Count calls and their arguments."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls = 0
        self._size = 0  # of the last call's arguments
        self._turn_size = 0  # of all calls

    def count(self, event: Event, /) -> None:
        """Take one event.

        Raises:
            TooLargeError: it passes a limit.
        """
        match event:
            case ArgsDelta(json=text) | InputDelta(text=text):
                self._add(len(text))
            case BlockStart(kind=kind) if kind in CALL_KINDS:
                self._size = 0
                self._calls += 1
                if self._calls > self._limits.max_calls:
                    raise TooLargeError("max_calls", self._limits.max_calls)
            case Loss(limit=limit) if limit:
                # A call in text that passes a limit is cut, and reported, where it is read.
                raise TooLargeError(limit, getattr(self._limits, limit))
            case _:
                pass

    def _add(self, size: int) -> None:
        limits = self._limits
        self._size += size
        if self._size > limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", limits.max_tool_args_bytes)
        self._turn_size += size
        if self._turn_size > limits.max_turn_args_bytes:
            raise TooLargeError("max_turn_args_bytes", limits.max_turn_args_bytes)
