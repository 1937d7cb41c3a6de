"""Which client was given which ids of state that a vendor keeps.

An upstream sees only the gateway's key.  If several clients share it, one of them could name what belongs
to another: a response to go on from, a conversation, an item, a container, a file.  So an id in a request
must have been given to the same client key before, or be allowed by that key's settings.  Where requests and
answers have such ids is known to their dialects (`Dialect.named_state`, `Exchange.given`).
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from dragoman.dialects.vendor_state import Reference
from dragoman.turn.events import Fault, FaultKind

MAX_IDS: Final = 10_000  # that are remembered of one owner; the latest stay
_SHOWN_CHARS: Final = 256  # of an id in a message


def not_given(reference: Reference) -> Fault:
    """Return the refusal of a request that names what its key was not given, in the vendors' words."""
    thing = reference.kind.replace("_", " ").capitalize()
    message = f"{thing} with id '{reference.id[:_SHOWN_CHARS]}' not found."
    kind = FaultKind.BAD_REQUEST if reference.kind == "previous_response" else FaultKind.NOT_FOUND
    status = 400 if kind is FaultKind.BAD_REQUEST else 404
    code, param = f"{reference.kind}_not_found", reference.path.removeprefix("$.")
    return Fault(kind, message, status=status, code=code, param=param)


class GivenIds:
    """The latest ids that each owner was given, in this process; the store keeps them beyond it."""

    def __init__(self) -> None:
        self._ids: dict[str, OrderedDict[str, None]] = {}

    def add(self, owner: str, ids: Iterable[str]) -> None:
        known = self._ids.setdefault(owner, OrderedDict())
        for one in ids:
            known[one] = None
            known.move_to_end(one)
        while len(known) > MAX_IDS:
            known.popitem(last=False)

    def has(self, owner: str, one: str) -> bool:
        return one in self._ids.get(owner, ())

    def keep_only(self, owners: Iterable[str]) -> None:
        """Forget what belongs to keys that were withdrawn."""
        kept = set(owners)
        self._ids = {owner: ids for owner, ids in self._ids.items() if owner in kept}
