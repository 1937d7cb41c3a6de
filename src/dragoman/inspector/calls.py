"""The tool calls of an answer as cards: ids on both sides, arguments, schema, where each was found.

Tools that the vendor ran have separate cards: what was asked, and what was found.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.inspector.links import delta_text
from dragoman.recorder.positions import MarkerPosition, NativePositions
from dragoman.toolcalls.findings import NativeFinding
from dragoman.toolcalls.schema_check import misfit
from dragoman.turn.events import (
    CALL_KINDS,
    CUT_REASONS,
    TRUNCATED,
    BlockEnd,
    BlockStart,
    Event,
    Fault,
    Finish,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, ToolCallPart
from dragoman.turn.server_tools import ServerCall, ServerResult
from dragoman.wire.json_values import canonical_json, decode_any

ARGUMENT_CHARS: Final = 64 * 1024
_MOST_CALLS: Final = 500
_MOST_MARKERS: Final = 200  # of one call
_MOST_SOURCES: Final = 50  # of one card
_MOST_QUERIES: Final = 20
_ADDRESS_CHARS: Final = 2000
_TITLE_CHARS: Final = 300
REPAIRS: Final = frozenset(
    {"args_repaired", "args_as_object", "args_as_text", "args_trailing", "args_repeated"}
)


class Found(Struct, frozen=True):
    """Where a call was written as text."""

    channel: str
    family: str


class Marker(Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A native marker, in bytes of the upstream."""

    text: str
    start: int
    end: int


class SchemaCheck(Struct, frozen=True):
    ok: bool | None  # None: no schema was declared
    problems: list[str] = []


class Call(Struct, kw_only=True):
    """One tool call."""

    name: str
    block: int
    upstream_id: str = ""
    client_id: str = ""
    from_ms: float | None = None
    to_ms: float | None = None
    state: Literal["complete", "truncated", "incomplete"] = "incomplete"
    repaired: bool = False
    repeated: bool = False
    found: Found | None = None
    arguments: str = ""
    cut: bool = False  # there are more arguments than this
    schema: SchemaCheck = SchemaCheck(None)
    markers: list[Marker] = []


class Source(Struct, frozen=True):
    """What a vendor-run tool found; `title` may be the host."""

    title: str
    url: str


class VendorCall(Struct, kw_only=True):
    """One use of a tool that the vendor ran."""

    does: str
    block: int
    upstream_id: str = ""
    queries: list[str] = []
    arguments: str = ""  # of tools that are not asked in words, as JSON
    state: Literal["unfinished", "complete", "failed"] = "unfinished"
    sources: list[Source] = []
    more_sources: int = 0  # that are not listed here
    output: str = ""
    error: str = ""


def find_vendor_calls(events: Sequence[Event]) -> list[VendorCall]:
    """Return the uses of vendor-run tools in an answer, each with its result."""
    calls: dict[str, VendorCall] = {}
    for event in events:
        if not isinstance(event, BlockStart) or event.server is None:
            continue
        match event.server:
            case ServerCall() as asked if len(calls) < _MOST_CALLS:
                given = bytes(asked.arguments).decode("utf-8", "replace")
                calls[event.call_id] = VendorCall(
                    does=asked.tool or str(asked.does),
                    block=event.index,
                    upstream_id=event.call_id,
                    queries=[one[:_ADDRESS_CHARS] for one in asked.queries[:_MOST_QUERIES]],
                    arguments="" if given == "null" else given[:ARGUMENT_CHARS],
                )
            case ServerResult() as found if event.call_id in calls:
                call = calls[event.call_id]
                call.state = "failed" if found.error else "complete"
                call.error = found.error[:_TITLE_CHARS]
                image = found.image
                made = "" if image is None else image.url or f"an image of type {image.media_type}"
                call.output = (found.output or made)[:ARGUMENT_CHARS]
                call.sources = [
                    Source(one.shown_title[:_TITLE_CHARS], one.url[:_ADDRESS_CHARS])
                    for one in found.sources[:_MOST_SOURCES]
                ]
                call.more_sources = max(0, len(found.sources) - _MOST_SOURCES)
    return list(calls.values())


def find_calls(
    events: Sequence[Event],
    *,
    request: Request | None,
    client_ids: Sequence[str],
    findings: Sequence[NativeFinding],
    positions: NativePositions,
) -> list[Call]:
    """Return the calls of an answer."""
    calls: list[Call] = []
    arguments: list[str] = []
    truncated, earlier = _is_truncated(events), earlier_calls(request)
    for event in events:
        match event:
            case BlockStart() if event.kind in CALL_KINDS:
                calls.append(Call(name=event.name, block=event.index, upstream_id=event.call_id))
                arguments = []
            case BlockEnd() if calls and calls[-1].block == event.index:
                call, text = calls[-1], "".join(arguments)
                call.arguments, call.cut = text[:ARGUMENT_CHARS], len(text) > ARGUMENT_CHARS
                call.state = "complete"
                if not event.complete:
                    call.state = "truncated" if truncated else "incomplete"
                call.schema = check(request, call.name, text)
                call.repeated = (call.name, canonical_json(text)) in earlier
            case Loss() if calls and event.code in REPAIRS:
                calls[-1].repaired = True
            case _ if calls:
                text = delta_text(event) or ""
                if text and getattr(event, "index", None) == calls[-1].block:
                    arguments.append(text)
    if calls and calls[-1].state == "incomplete" and not calls[-1].arguments:
        calls[-1].arguments = "".join(arguments)[:ARGUMENT_CHARS]  # the answer failed inside of it
    for call, client_id in zip(calls, client_ids, strict=False):
        call.client_id = client_id
    _add_native(calls, findings, positions)
    return calls[:_MOST_CALLS]


def _is_truncated(events: Sequence[Event]) -> bool:
    """Return whether an answer ended at a limit, or because the upstream ended early."""
    for event in reversed(events):
        if isinstance(event, Finish):
            return event.reason in CUT_REASONS
        if isinstance(event, Fault):
            return event.code == TRUNCATED
    return True


def _add_native(
    calls: Sequence[Call], findings: Sequence[NativeFinding], positions: NativePositions
) -> None:
    """Add what is known of calls that were written as text."""
    native = [one for one in findings if one.problem is None]
    by_block = {call.block: call for call in calls}
    markers: dict[int, list[MarkerPosition]] = {}
    for owner, one in zip(
        marker_owners(len(native), positions.markers), positions.markers, strict=True
    ):
        if len(markers.setdefault(owner, [])) < _MOST_MARKERS:
            markers[owner].append(one)
    for number, finding in enumerate(native):
        call = by_block.get(finding.block)
        if call is None:
            continue
        call.repaired = True
        call.found = Found(finding.channel, finding.family)
        call.markers = [Marker(one.text, one.start, one.end) for one in markers.get(number, ())]


def marker_owners(count: int, markers: Sequence[MarkerPosition]) -> list[int]:
    """Return the number of the native call that each marker belongs to.

    Those around all calls belong to the first and the last of `count` calls.
    """
    owners: list[int] = []
    before = 0  # the call that the next marker without one belongs to, at its beginning
    for one in markers:
        if one.call is not None:
            before = one.call + 1
        owners.append(min(before, count - 1) if one.call is None else one.call)
    return owners


def check(request: Request | None, name: str, arguments: str) -> SchemaCheck:
    """Return whether arguments fit the schema that the client declared."""
    tool = None
    if request is not None:
        tool = next((one for one in request.tools if one.name == name), None)
    if tool is None or tool.schema is None:
        return SchemaCheck(None)
    try:
        value, schema = decode_any(arguments.encode()), decode_any(bytes(tool.schema))
        reason = misfit(value, schema)
    except (msgspec.DecodeError, DragomanError, RecursionError, UnicodeEncodeError):
        return SchemaCheck(ok=False, problems=["the arguments are not valid JSON"])
    return SchemaCheck(ok=not reason, problems=[reason] if reason else [])


def earlier_calls(request: Request | None) -> Mapping[tuple[str, str], int]:
    """Return how often each call, by name and arguments, is in the history of a request."""
    counts: dict[tuple[str, str], int] = {}
    for turn in () if request is None else request.turns:
        for part in turn.parts:
            if isinstance(part, ToolCallPart):
                key = part.name, canonical_json(part.arguments)
                counts[key] = counts.get(key, 0) + 1
    return counts
