"""Where the engine puts what it finds."""

from typing import Protocol


class Sink(Protocol):
    """Takes text, reasoning, calls and problems in the order in which they stand in the answer."""

    calls: int  # calls begun so far, over all channels
    overfull: bool  # the arguments of the call that is open have passed their limit

    def text(self, text: str, /) -> None: ...
    def reasoning(self, text: str, /) -> None: ...

    def begin(self, call_id: str, name: str, /) -> None:
        """Begin a call; an empty id means that the format has none."""
        ...

    def args(self, json: str, /) -> None:
        """Add to the arguments of the call that is open."""
        ...

    def hold(self, size: int, /) -> None:
        """Count what has come of the open call's arguments and must wait: the same limit holds."""
        ...

    def end(self, *, complete: bool) -> None:
        """End the call that is open; one that was cut or is invalid is not complete."""
        ...

    def problem(self, code: str, detail: str = "", *, limit: str = "") -> None:
        """Tell what was dropped, mended or not understood; the code is one of `turn.loss`."""
        ...
