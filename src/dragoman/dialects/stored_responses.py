"""Stored responses of dialects with `stores_responses`: what of requests and answers is kept, and how it is put back.

Items are never read, only passed on, as the very bytes they were: a later request begins with the same
bytes as the one before it, which keeps prefix caches warm.  The gateway's store decides where things are kept.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import decode, decode_at, decode_or_none
from dragoman.dialects.encoding import encode
from dragoman.errors import MalformedError, TooLargeError
from dragoman.ids import derived_id
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.events import Fault, FaultKind
from dragoman.wire.sse import Frame

# Codes of errors about items and responses that are not stored here; an upstream of the dialect may store them.
NOT_STORED: Final = frozenset({"previous_response_not_found", "item_not_found"})

_REFERENCE: Final = "item_reference"
_ASKS: Final = (b"previous_response_id", _REFERENCE.encode())
_REASONING_PREFIX: Final = "rs_"
# Echoes of the request that are large and the same in every answer of a conversation.
_SHARED: Final = ("instructions", "tools")
_NULL: Final = Raw(b"null")
_LAST_EVENTS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "error"}
)
_NUMBER: Final = re.compile(rb'"sequence_number": ?(\d{1,9})')
_MAX_PAGE: Final = 100
_DEFAULT_PAGE: Final = 20


class _Head(Struct, gc=False):
    """The fields that show an item's kind."""

    type: str | None = None
    role: str | None = None
    id: str | None = None


class _RequestOutline(Struct, gc=False):
    input: Raw = _NULL
    store: bool | None = None


_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final[msgspec.json.Decoder[str | None]] = msgspec.json.Decoder(str | None)
_INPUT: Final[msgspec.json.Decoder[str | list[Raw] | None]] = msgspec.json.Decoder(
    str | list[Raw] | None
)
_ITEMS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_HEAD: Final = msgspec.json.Decoder(_Head)
_REQUEST: Final = msgspec.json.Decoder(_RequestOutline)


# --- requests -------------------------------------------------------------------------------------


class Asked(Struct, frozen=True):
    """A request that refers to stored items, or to a stored response that it continues."""

    fields: dict[str, Raw]
    previous_id: str  # of the answer it goes on from; empty: none
    items: tuple[Raw, ...]  # its own input
    references: dict[int, str]  # ids of kept items, by their place in the input


class Expanded(Struct, frozen=True):
    """A request with all of its conversation."""

    body: bytes
    previous_id: str = ""  # of the answer it goes on from, for the echo in its own answer


def may_ask(body: bytes) -> bool:
    """Return whether a request may refer to stored items.  Fast check: false positives are fine."""
    return any(name in body for name in _ASKS)


def asked_of(body: bytes) -> Asked | None:
    """Return what a request needs from the store; None if it refers to no stored items.

    Raises:
        MalformedError: it is not a request.
    """
    fields = decode(_FIELDS, body)
    previous = decode_at(_TEXT, fields.get("previous_response_id", _NULL), "$.previous_response_id")
    items = _input_items(fields.get("input", _NULL))
    references = {
        index: head.id
        for index, raw in enumerate(items)
        if (head := _head(raw)).id and _is_reference(head)
    }
    if not previous and not references:
        return None
    return Asked(fields, previous or "", items, references)


def expanded(
    asked: Asked,
    history: Sequence[bytes],
    found: Mapping[str, bytes],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes:
    """Return the request with the kept items, then its own.

    Reasoning that is not kept stays a reference: the request is sent without it, and its reader reports the loss.

    Raises:
        MalformedError: an item is not kept; carries its path.
        TooLargeError: the whole passes `max_request_bytes`.
    """
    own: list[bytes] = []
    for index, raw in enumerate(asked.items):
        item_id = asked.references.get(index)
        if item_id is None:
            own.append(bytes(raw))
        elif item_id in found:
            own.append(found[item_id])
        elif item_id.startswith(_REASONING_PREFIX):
            own.append(bytes(raw))
        else:
            reason = f"the item `{item_id}` is not stored here; send the item itself"
            raise MalformedError(reason, path=f"$.input[{index}].id", code="item_not_found")
    items = (*history, *own)
    if sum(map(len, items)) > limits.max_request_bytes:
        raise TooLargeError("max_request_bytes", limits.max_request_bytes)
    fields = {name: raw for name, raw in asked.fields.items() if name != "previous_response_id"}
    fields["input"] = Raw(b"[%b]" % b",".join(items))
    return encode(fields)


def unknown_previous(response_id: str) -> MalformedError:
    """Return the refusal of a request that goes on from an answer that is not kept."""
    reason = f"the response `{response_id}` is not stored here"
    path = "$.previous_response_id"
    return MalformedError(reason, path=path, code="previous_response_not_found")


def _input_items(raw: Raw) -> tuple[Raw, ...]:
    """Return the items of an `input`; a text is a user's message."""
    given = decode_at(_INPUT, raw, "$.input")
    if isinstance(given, str):
        return (Raw(b'{"type":"message","role":"user","content":%b}' % bytes(raw).strip()),)
    return tuple(given or ())


def _head(raw: bytes | Raw) -> _Head:
    """Return the fields that show an item's kind; none, if it is not an item: its reader reports that."""
    try:
        return decode(_HEAD, bytes(raw))
    except MalformedError:
        return _Head()


def _is_reference(head: _Head) -> bool:
    return head.type == _REFERENCE or (head.type is None and head.role is None)


# --- answers --------------------------------------------------------------------------------------


class Item(Struct, frozen=True, gc=False):
    """One item, and the id under which it can be asked for."""

    body: bytes
    id: str = ""


class Exchanged(Struct, frozen=True):
    """One request and its answer, in the pieces in which they are kept."""

    id: str  # of the answer
    head: bytes  # the answer without its output and without what it shares with others
    shared: bytes  # settings that the answers of a conversation repeat, as a JSON object
    input: tuple[Item, ...]
    output: tuple[Item, ...]

    @property
    def size(self) -> int:
        items = (*self.input, *self.output)
        return len(self.head) + len(self.shared) + sum(len(item.body) for item in items)


def exchanged(request_body: bytes, response: bytes) -> Exchanged | None:
    """Return the pieces to store of an expanded request and its answer; None if nothing is stored.

    Raises:
        MalformedError: one of them is not what it should be.
    """
    asked = decode(_REQUEST, request_body)
    if asked.store is False:
        return None
    fields = decode(_FIELDS, response)
    response_id = decode_at(_TEXT, fields.get("id", _NULL), "$.id")
    if not response_id:
        return None
    output = decode_at(_ITEMS, fields.pop("output", Raw(b"[]")), "$.output")
    shared = {name: fields.pop(name) for name in _SHARED if name in fields}
    return Exchanged(
        response_id,
        encode(fields),
        encode(shared),
        tuple(_kept_items(_input_items(asked.input))),
        tuple(_kept_items(output)),
    )


def _kept_items(raws: Sequence[Raw]) -> list[Item]:
    heads = ((bytes(raw), _head(raw)) for raw in raws)
    # A reference that is left refers to reasoning that is not stored.
    return [Item(body, head.id or "") for body, head in heads if head.type != _REFERENCE]


def response_of(head: bytes, shared: bytes, output: Sequence[bytes]) -> bytes:
    """Return an answer that was taken apart by `exchanged`."""
    tail = b"," + shared[1:] if len(shared) > len(b"{}") else b"}"
    return b'%b,"output":[%b]%b' % (head[:-1], b",".join(output), tail)


def deleted(response_id: str) -> bytes:
    """Return the answer to a deletion."""
    return encode({"id": response_id, "object": "response", "deleted": True})


def not_found(response_id: str) -> Fault:
    """Return the failure to find a response: it is unknown, too old, deleted, or another client's."""
    message = f"Response with id '{response_id}' not found."
    return Fault(FaultKind.NOT_FOUND, message, status=404, code="response_not_found", param="id")


def not_cancellable() -> Fault:
    """Return the refusal to cancel: an answer that is kept has ended."""
    message = "Cannot cancel a synchronous response."
    return Fault(FaultKind.BAD_REQUEST, message, status=400)


# --- streams of stored responses ------------------------------------------------------------------


class _EventHead(Struct):
    type: str = ""


_EVENT_HEAD: Final = msgspec.json.Decoder(_EventHead)


def is_last_event(frame: Frame) -> bool:
    """Return whether nothing may follow this event of a response."""
    if frame.event in _LAST_EVENTS or frame.data == b"[DONE]":
        return True
    if frame.event:
        return False
    head = decode_or_none(_EVENT_HEAD, frame.data)
    return head is not None and head.type in _LAST_EVENTS


def error_event(fault: Fault, last: bytes) -> bytes:
    """Return the event that ends a broken stream, numbered after the `last` frames that were sent."""
    seen = _NUMBER.findall(last)
    event = {
        "type": "error",
        "code": fault.code,
        "message": fault.message,
        "param": None,
        "sequence_number": int(seen[-1]) + 1 if seen else 0,
    }
    return b"\n\nevent: error\ndata: %b\n\n" % encode(event)


# --- lists of items -------------------------------------------------------------------------------


class Page(Struct, frozen=True, gc=False):
    """Which part of a list of items is wanted."""

    after: str = ""  # the id of an item; empty: from the beginning
    limit: int = _DEFAULT_PAGE
    order: Literal["asc", "desc"] = "desc"


def page_of(query: Mapping[str, str]) -> Page:
    """Read the parameters of a list.

    Raises:
        MalformedError: one of them is wrong; carries its name.
    """
    limit, order = query.get("limit", str(_DEFAULT_PAGE)), query.get("order", "desc")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= _MAX_PAGE:
        raise MalformedError(f"`limit` is a number from 1 to {_MAX_PAGE}", path="limit")
    if order not in ("asc", "desc"):
        raise MalformedError("`order` is `asc` or `desc`", path="order")
    return Page(query.get("after", ""), int(limit), "asc" if order == "asc" else "desc")


def item_list(response_id: str, items: Sequence[bytes], page: Page) -> bytes:
    """Return one page of the input of a response.

    Raises:
        MalformedError: there is no item to begin after.
    """
    listed = _listed(response_id, items)
    if page.order == "desc":
        listed.reverse()
    ids = [item.id for item in listed]
    if page.after and page.after not in ids:
        reason = f"the list has no item `{page.after}`"
        raise MalformedError(reason, path="after", code="item_not_found")
    first = ids.index(page.after) + 1 if page.after else 0
    shown = listed[first : first + page.limit]
    return b'{"object":"list","data":[%b],"first_id":%b,"last_id":%b,"has_more":%b}' % (
        b",".join(item.body for item in shown),
        encode(shown[0].id if shown else None),
        encode(shown[-1].id if shown else None),
        encode(first + len(shown) < len(listed)),
    )


def _listed(response_id: str, items: Sequence[bytes]) -> list[Item]:
    """Return items as a list shows them: each has a type, a state, and a unique id."""
    listed: list[Item] = []
    used: set[str] = set()
    for index, raw in enumerate(items):
        fields = decode(_FIELDS, raw)
        head = _head(raw)
        kind = head.type or "message"
        item_id = head.id or ""
        if not item_id or item_id in used:
            prefix = _PREFIXES.get(kind, "item_")
            item_id = derived_id(prefix, response_id, f"input {index}")
        used.add(item_id)
        fields["type"] = Raw(encode(kind))
        fields["id"] = Raw(encode(item_id))
        if kind in _PREFIXES:
            fields.setdefault("status", Raw(b'"completed"'))
        if kind == "message" and bytes(fields.get("content", _NULL))[:1] == b'"':
            fields["content"] = _as_parts(fields["content"], head.role)
        listed.append(Item(encode(fields), item_id))
    return listed


def _as_parts(text: Raw, role: str | None) -> Raw:
    """Return the content of a message that is one text as a list of parts."""
    if role == "assistant":
        return Raw(b'[{"type":"output_text","text":%b,"annotations":[]}]' % bytes(text))
    return Raw(b'[{"type":"input_text","text":%b}]' % bytes(text))


# Of the ids of items that clients send without one.
_PREFIXES: Final[dict[str, str]] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
}
