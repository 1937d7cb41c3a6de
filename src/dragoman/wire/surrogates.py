"""Characters that a peer cut in two: halves of UTF-16 surrogate pairs."""

import re
from collections.abc import Callable, Hashable
from typing import Final

_HALF: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def join_surrogates(text: str) -> str:
    """Join the halves of surrogate pairs; what is left alone becomes U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """Join characters that were cut between two deltas of the same channel.

    Nothing is looked at until `active` is set, which a reader does at the first half it meets.
    """

    def __init__(self, replaced: Callable[[], None]) -> None:
        self.active = False
        self._replaced = replaced  # called when a half stayed alone
        self._held: dict[Hashable, str] = {}  # a first half that ended a delta, by channel

    def __bool__(self) -> bool:
        return bool(self._held)

    def join(self, channel: Hashable, text: str) -> str:
        """Return `text` with what waited before it, without what must wait after it."""
        if not self.active:
            return text
        text = self._held.pop(channel, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[channel] = text[-1]
            text = text[:-1]
        whole = join_surrogates(text)
        if whole.count(_REPLACEMENT) > text.count(_REPLACEMENT):
            self._replaced()
        return whole

    def release(self, *channels: Hashable) -> list[tuple[Hashable, str]]:
        """Give up waiting in `channels`, or in all: return what takes the place of the halves."""
        given_up = [one for one in channels or tuple(self._held) if self._held.pop(one, "")]
        for _ in given_up:
            self._replaced()
        return [(one, _REPLACEMENT) for one in given_up]
