"""Halves of surrogate pairs that a peer cut over two events, put together again."""

from dragoman.turn.assembly import Assembler

_REPLACEMENT = "\ufffd"


class Pairs:
    """Join halves over neighbouring pieces of text; a half that stays alone is replaced and told."""

    def __init__(self) -> None:
        self.held = ""  # a first half that waits for its second

    def join(self, text: str, assembler: Assembler) -> str:
        """Return `text` with what was held before it, less a half at its end."""
        text = self.held + text
        self.held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self.held = text[-1]
            text = text[:-1]
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if whole.count(_REPLACEMENT) > text.count(_REPLACEMENT):
            assembler.loss("surrogate_replaced")
        return whole

    def give_up(self, assembler: Assembler) -> str:
        """Return what stands for the half that is held."""
        self.held = ""
        assembler.loss("surrogate_replaced")
        return _REPLACEMENT
