"""What a dialect is: functions over the common events and requests, and facts about its HTTP API.

A dialect is one folder with the twelve files that ARCHITECTURE.md lists.  Dialects do not know each other, and
shells know none of them: a shell asks the registry in `dialects/__init__.py` and uses the fields below.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Raw

from dragoman.context import EncodedRequest, Exchange, Target
from dragoman.dialects.framing import FrameReader
from dragoman.dialects.vendor_state import Reference, given_ids, may_give, references
from dragoman.dialects.vocabulary import Vocabulary
from dragoman.envelopes import Sealer
from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer
from dragoman.turn.events import EventOrRun, Fault, FinishReason, Usage
from dragoman.turn.losses import Loss
from dragoman.turn.request import DialectName, Request


class Writer(Protocol):
    """Write one answer: events to bytes.  Refuses an illegal order with `IllegalOrderError`."""

    losses: list[Loss]  # what the dialect has no form for
    # The complete response object, once the answer has ended; empty in dialects whose servers store none.
    response: bytes

    def send(self, event: EventOrRun, /) -> bytes: ...

    def expect(self, raw: bytes, /, *, resume: bool) -> None:
        """Look at upstream bytes of the same dialect that may be forwarded instead of the next events.

        With `resume` everything before them was forwarded or written.
        """
        ...

    def adopt(self, raw: bytes, /) -> None:
        """Keep the fields of upstream bytes of the same dialect that the dialect does not define.

        Called before the events of the bytes in which an answer starts, and of those in which it ends.
        """
        ...

    def skip(self, event: EventOrRun, /) -> None:
        """Record a delta, as `send` does, whose upstream bytes are forwarded.  Raises the same."""
        ...

    def passed(self, raw: bytes, /) -> None:
        """Note that bytes of the same dialect were sent in place of what was written."""
        ...


AuthStyle: TypeAlias = Literal["bearer", "x-api-key", "x-goog-api-key", "none"]
KEY_HEADERS: Final = ("x-api-key", "x-goog-api-key")  # whose value is a key and nothing else


def auth_header(style: AuthStyle, key: str) -> dict[str, str]:
    """Return the header that carries a key."""
    match style:
        case "bearer":
            return {"authorization": f"Bearer {key}"}
        case "x-api-key" | "x-goog-api-key":
            return {style: key}
    return {}


@dataclass(frozen=True)
class TokenCounting:
    """The endpoint of a dialect that counts the tokens of a request."""

    fields: frozenset[str]  # of a request: those on which the count depends
    count_field: str  # of an answer
    encode: Callable[[int], bytes]  # a count as clients read it
    path: str = ""  # after a server's base URL; empty where paths name the model
    # The path and the body of a question about a request, where they are not `path` and the request's `fields`.
    question: Callable[[bytes, Profile], tuple[str, bytes]] | None = None


class PathRequest(NamedTuple):
    """What the URL of a client's request asks for, in a dialect whose URLs name the model."""

    asks: Literal["answer", "count_tokens", "models", "nothing"]  # nothing: it is not served
    model: str = ""  # empty: all models
    stream: bool = False
    framing: Literal["sse", "list"] = "sse"  # of the stream; see `Rendering`
    route: str = ""  # the path with `{model}` in place of the name, for traces


@dataclass(frozen=True)
class ModelPaths:
    """The URLs of a dialect that name the model and the kind of answer.

    Wherever a request is kept, translated or recorded, it is one JSON object that has both as fields.
    """

    shown: str  # such a path, for people
    # What a client's URL asks for: its method, its path as it was sent, its query.  None: it is not of the dialect.
    read: Callable[[str, str, Mapping[str, str]], PathRequest | None]
    join: Callable[[PathRequest, bytes], bytes]  # a URL and a body as one object
    split: Callable[[bytes], tuple[str, bytes]]  # back: the path after a base URL, and the body


class ListedModel(NamedTuple):
    """A model as a client's list shows it."""

    name: str
    display: str
    context: int  # tokens; 0: not known
    output: int


@dataclass(frozen=True)
class ModelLists:
    """The lists of models of a dialect whose clients do not read the common list."""

    path: str  # of an upstream's list, after its base URL
    encode: Callable[[Sequence[ListedModel], Mapping[str, str]], bytes | Fault]  # with a query
    encode_one: Callable[[ListedModel], bytes]


@dataclass(frozen=True)
class ReasoningSigns:
    """How an upstream of unknown kind shows what it does with reasoning in the history."""

    named: re.Pattern[str]  # finds the field in an error message
    sent: re.Pattern[bytes]  # finds it in a request's body
    names_field: bool = False  # what `named` finds is the field's name; servers differ in it


class DecodeRequest(Protocol):
    def __call__(self, body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
        """Read a client's request.  Raises `MalformedError` with the path, `TooLargeError`."""
        ...


@dataclass(frozen=True)
class Dialect:
    """One API dialect."""

    name: DialectName
    path: str  # of its requests, after a server's base URL
    decode_request: DecodeRequest
    encode_request: Callable[[Request, Target], EncodedRequest]
    # Frames of a stream, and complete bodies, to events.
    frame_reader: Callable[[Exchange], FrameReader]
    writer: Callable[[Exchange], Writer]
    # Writes a complete answer, and adds what the dialect has no form for to the losses.
    encode_body: Callable[[Answer, Exchange, list[Loss]], bytes]
    # HTTP status and error body to a fault, and back.
    decode_fault: Callable[[int, bytes], Fault]
    encode_fault: Callable[[Fault, str], tuple[int, bytes]]  # with the request's id
    # The module with the rules of its streams, `GRAMMAR` and `RULES`.  A name, because only the checker loads it.
    checker: str
    # The least request, with `%b` for a JSON list of messages and one of tools.
    least_request: bytes
    # Content types that only this dialect has: they show whose messages those of an unknown program are.
    own_types: frozenset[str] = frozenset()
    tool_fields: frozenset[str] = frozenset()  # fields that only its tool definitions have
    verbatim_ids: bool = False  # its clients take any text as the id of a call
    # It has a form for a call whose arguments are cut or not an object.  False: an answer with such a call fails.
    half_calls: bool = True
    typed_messages: bool = False  # entries of a conversation have a `type`, not a role alone

    # --- its streams
    keep_alive: bytes = (
        b": keep-alive\n\n"  # sent to show that a stream is alive; clients ignore it
    )
    # Whole frames of an upstream as all of its clients read them, for a relay.  Called for every read, so frames that
    # need no change are recognized fast.
    readable_frames: Callable[[bytes], bytes] = bytes
    last_word: bytes = b""  # what follows the finish of an answer; empty if that is itself the last
    # A failure again, sent alone and a moment after its event, for clients that do not see the event.
    fault_again: Callable[[Fault], bytes] | None = None
    # Apart from calls, a frame does not depend on the frames before it: a relay that rewrote one may forward
    # the next one unchanged.
    independent_frames: bool = False

    # Where its requests have a setting, by the name that losses and refusals use for it; only those that differ.
    field_names: Mapping[str, str] = field(default_factory=dict)
    # What its fields are, for code that looks at its JSON without reading it.
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    # --- requests that pass within the dialect
    # Fields that hold the conversation: a same-dialect relay rewrites these and nothing else.
    history_fields: tuple[str, ...] = ("messages",)
    # A body with one name for each field, where clients may choose between two.
    one_spelling: Callable[[bytes], bytes] = bytes
    any_tool: bytes = b'"required"'  # the `tool_choice` that forces some tool, whichever
    # Whether a request holds tools (or settings) that the upstream does not take, and the fields as it takes
    # them; `null` means that a field is removed.
    misfits: Callable[[Request, Profile], bool] = lambda _request, _profile: False
    fit_tools: Callable[
        [Mapping[str, Raw], Request, Target], tuple[dict[str, Raw], tuple[Loss, ...]]
    ] = lambda _fields, _request, _target: ({}, ())
    # Turns instructions between messages into text of the user, where not every server knows a role for them.
    without_instructions: Callable[[Raw], tuple[Raw, tuple[Loss, ...]]] | None = None
    # Removes from a body the line that only the dialect's own vendor can use and that spoils prefix caches.
    strip_billing: Callable[[bytes], bytes] | None = None
    # --- vendor-run tools
    tools_vendor: str = ""  # whose tools its requests declare; empty: no vendor's
    # Each host has its own fields for them: a client of the dialect cannot read what another host shows.
    host_fields: bool = False
    pauses: bool = (
        False  # its servers may pause an answer in which they run tools, until `continue_request`
    )
    # Fields that ask the vendor to keep the conversation on its servers.  Other servers ignore them, so that the
    # conversation would be lost without an error.
    kept_by_vendor: tuple[str, ...] = ()

    # The request that continues an answer which ended with `PAUSE`: the body that was sent, with what the answer
    # holds so far.  None: servers of this dialect do not pause.
    continue_request: Callable[[bytes, Answer], bytes] | None = None
    continues_by_token: bool = False  # `continue_request` needs the finish of the answer alone

    # --- its HTTP API
    # How its URLs name the model.  None: they do not, all requests go to `path`.
    model_paths: ModelPaths | None = None
    model_lists: ModelLists | None = None
    auth: AuthStyle = "bearer"  # how the vendor's clients send a key
    request_headers: tuple[tuple[str, str], ...] = ()  # sent with every request
    # Headers without which the vendor ignores or refuses something in a body that was written here.
    headers_for: Callable[[bytes], Mapping[str, str]] = lambda _body: {}
    # Headers that its clients alone send: they show the dialect of a request to a path that several dialects have.
    own_headers: tuple[str, ...] = ()
    key_parameters: tuple[str, ...] = ()  # parameters of a URL in which clients may send their key
    # Headers of a client that an upstream of the same dialect gets too; of the second kind only if its profile
    # takes betas.
    client_headers: tuple[str, ...] = ()
    beta_headers: tuple[str, ...] = ()
    # A header in which clients send how many seconds they wait for a complete answer.
    timeout_header: str = ""
    # Names of rate-limit headers, with `{which}` for `limit`, `remaining` or `reset`, and `{what}` for what counts.
    rate_limits: str = "x-ratelimit-{which}-{what}"
    count_tokens: TokenCounting | None = None
    vendor: str = ""  # whose ids of files and other state its requests may name
    # The state at a vendor that a request names; the ids of such state that an answer, or one event of a
    # stream, gives to its client; a fast check whether an event may give some.
    named_state: Callable[[bytes], list[Reference]] = references
    given_ids: Callable[[bytes], set[str]] = given_ids
    may_give: Callable[[bytes], bool] = may_give
    # The word of its answers for a finish reason.
    finish_word: Callable[[FinishReason], str] = str
    # Its servers store responses: requests may continue one by its id, and each has its own paths.
    stores_responses: bool = False
    # The token counts in a complete body that is not an answer, such as a conversation that an upstream compacted.
    read_usage: Callable[[bytes], Usage | None] = lambda _body: None
    reasoning_signs: ReasoningSigns | None = None

    def serves(self, path: str) -> bool:
        """Return whether requests for an answer have this path, on a server with any base URL."""
        if self.model_paths is None:
            return path.endswith(self.path)
        asked = self.model_paths.read("POST", path, {})
        return asked is not None and asked.asks == "answer"

    def wire_request(self, body: bytes) -> tuple[str, bytes]:
        """Return the path of a request, after a server's base URL, and its body there.

        Raises:
            MalformedError: the body is not an object.
        """
        return (self.path, body) if self.model_paths is None else self.model_paths.split(body)

    def with_needed_headers(self, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return headers together with those that a written body needs; a header may have values of both."""
        out = dict(headers)
        for name, value in self.headers_for(body).items():
            there = out.get(name, "")
            if value not in (one.strip() for one in there.split(",")):
                out[name] = f"{there},{value}" if there else value
        return out

    def auth_header(self, key: str, style: Literal["auto"] | AuthStyle = "auto") -> dict[str, str]:
        """Return the header that carries a key, in the vendor's own style unless another is given."""
        return auth_header(self.auth if style == "auto" else style, key)
