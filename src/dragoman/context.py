"""Everything that is known about one exchange; readers and writers are built from it.

The shell supplies ids, time and keys; the core generates none of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from dragoman.envelopes import Sealer
from dragoman.ids import ClientIds
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request
from dragoman.turn.tools import NO_TOOLS, ToolTable

# How an interrupted Messages stream ends.  Always with `error`, and a cut call is never closed.
#   open          the open block stays open: Claude Code retries only while no block has ended
#   close         an open text or thinking block is closed before `error`
#   message_stop  the same, and `message_stop` follows, for clients that wait for it
ErrorTail: TypeAlias = Literal["open", "close", "message_stop"]


class Rendering(Struct, frozen=True, kw_only=True, gc=False):
    """Choices a client may make about how its answers look.

    Attributes:
        chat_reasoning: The Chat fields that carry reasoning; `off` leaves it out.
        responses_reasoning: Whether Responses carries reasoning as a summary or as content.
        responses_refusal: Whether a refusal is a `refusal` part or plain text.
        responses_encrypted: "always" writes reasoning state even for a client that did not ask for it: an
            answer that is stored here needs it.
        stream_error_tail: How an interrupted Messages stream ends; see `ErrorTail`.
        chat_truncated_tail: "nothing" ends a truncated Chat stream as the upstream did, without an error
            event.
        framing: "list" writes the chunks of a Gemini stream as one JSON list, as Google does for clients that
            do not send `alt=sse`.  The other dialects have no such form.
    """

    chat_reasoning: Literal["reasoning_content", "reasoning", "both", "details", "off"] = (
        "reasoning_content"
    )
    responses_reasoning: Literal["summary", "content"] = "summary"
    responses_refusal: Literal["refusal", "text"] = "refusal"
    responses_encrypted: Literal["asked", "always"] = "asked"
    stream_error_tail: ErrorTail = "open"
    chat_truncated_tail: Literal["error", "nothing"] = "error"
    framing: Literal["sse", "list"] = "sse"


T = TypeVar("T")


class _Once(Generic[T]):
    """A value that is computed at its first access; `cached_property` of Python 3.11 costs four times as much."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.__doc__ = make.__doc__
        self._make = make
        self._name = make.__name__

    def __get__(self, exchange: Any, _kind: type) -> T:
        made = exchange.__dict__[self._name] = self._make(exchange)
        return made


class Exchange(Struct, frozen=True, kw_only=True, dict=True):
    """One request and its answer."""

    profile: Profile
    request: Request | None = None  # the client's, if it is at hand
    tools: ToolTable = NO_TOOLS  # the client's declared tools
    model: str = ""  # the model name in the response; empty: the upstream's own
    # The answer keeps the upstream's id, model and time: what a same-dialect relay writes itself must
    # fit the bytes it passes on.
    keep_identity: bool = False
    continues: bool = False  # the caller sends the requests that continue a paused answer
    previous_id: str = ""  # of the answer that this one goes on from, if it was kept here
    seed: str = ""  # what ids are derived from; empty: the upstream's id of the answer
    created: int = 0  # Unix seconds; 0: the upstream's
    sealer: Sealer | None = None  # without one, foreign reasoning state is not carried
    # Tokens of the request, for clients that get a count before the upstream reports one.
    input_estimate: int = 0
    strict: bool = False  # a malformed event is an error instead of a loss
    rendering: Rendering = Rendering()
    limits: Limits = DEFAULT_LIMITS
    # `given` collects ids: several clients share the upstream's key, and each may name only its own.
    notes_ids: bool = False
    # The client takes ids of calls as models write them: see `encode_id`.
    verbatim_ids: bool = False
    # The client's dialect has a form for a call whose arguments are cut or not an object.
    half_calls: bool = True
    # The upstream's complete answer, if it is of the client's dialect: fields that the dialect does not define
    # are kept in what is written.
    upstream_body: bytes = b""

    @_Once
    def given(self) -> set[str]:
        """Return ids of state, at the upstream or here, that the client gets with the answer, if `notes_ids`."""
        return set()

    @_Once
    def call_ids(self) -> ClientIds:
        """Return the ids that the client gets for the answer's calls; the request used none of them."""
        request = self.request
        if request is None or not request.turns:
            used: Iterable[str] = () if request is None else request.outlined_ids
        else:
            used = _call_ids(request)
        return ClientIds(used, verbatim=self.verbatim_ids)

    @property
    def expects_call_signatures(self) -> bool:
        """Whether state that signs a call may arrive and can be carried; it is written before the call."""
        return self.profile.signs_calls and self.sealer is not None


def _call_ids(request: Request) -> Iterator[str]:
    """Yield the ids of a history; nothing is searched before the first is taken."""
    yield from request.call_ids


class Target(Struct, frozen=True, kw_only=True):
    """The target of a request, and which changes of the request are allowed."""

    profile: Profile
    model: str = ""  # the upstream's name for the model; empty: the client's
    strict: bool = False  # what would be a loss of meaning is refused instead
    repair_history: bool = False  # orphan tool results become text instead of an error
    # What happens to a last assistant turn that the target cannot continue.
    prefill: Literal["reject", "continue"] = "reject"
    known_ids: dict[str, str] = {}  # native ids behind `gh-…` ids, as far as remembered
    limits: Limits = DEFAULT_LIMITS


class EncodedRequest(Struct, frozen=True):
    """A request in a target's dialect."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    # Stop sequences that the target cannot match; they are matched on the answer.
    stop: tuple[str, ...] = ()
