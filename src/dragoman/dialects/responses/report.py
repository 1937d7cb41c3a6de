"""What a request loses on its way to an upstream: told, or refused if the target is strict."""

from dragoman.errors import Untranslatable
from dragoman.turn.loss import Loss


class Report:
    """Collect the losses of one request."""

    def __init__(self, *, strict: bool) -> None:
        self.losses: list[Loss] = []
        self.strict = strict

    def note(self, loss: Loss) -> None:
        """Tell what changes nothing of the request's meaning."""
        self.losses.append(loss)

    def lose(self, loss: Loss) -> None:
        """Tell what changes the request's meaning.

        Raises:
            Untranslatable: the target is strict.
        """
        if self.strict:
            detail = f": {loss.detail}" if loss.detail else ""
            reason = f"this upstream cannot take it ({loss.code}{detail})"
            raise Untranslatable(reason, path=loss.path)
        self.losses.append(loss)
