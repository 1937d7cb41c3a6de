"""Builds what every reader of an answer needs: the facts of its exchange, and its stages.

`Translator`, `translate_body`, the client's `AnswerReader`, the inspector and the reader of recordings begin here.
"""

from collections.abc import Iterable, Sequence
from typing import TypedDict, Unpack

from dragoman.context import Exchange, Rendering
from dragoman.dialects.decoding import check_complete
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.framing import FrameReader, StreamReader, read_answer
from dragoman.envelopes import Sealer
from dragoman.errors import PeerError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import RETURNED_SEARCHES, Profile
from dragoman.toolcalls.findings import NativeFinding
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.stage import Splitter, native_stages
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import EventOrRun
from dragoman.turn.request import Request, Tool
from dragoman.turn.stages import (
    ServerTools,
    Stage,
    StopSequences,
    UsableCalls,
    WholeCalls,
    fault_of,
)
from dragoman.turn.tools import ToolTable, made_once


class ExchangeOptions(TypedDict, total=False):
    """What a caller may know about an exchange; each option has a default.

    Attributes:
        profile: What the upstream accepts: the name of a profile, or a `Profile`; default `generic`.
        request: The client's request.  Its tools, renamed tools and call ids are then known.
        tools: The request's tools, if there is no `request`.  None, the default: they are not known, and every
            call of the family that `native_format` or `model` names is found.  An empty sequence: no call is found.
        seed: What generated ids are derived from; default: the upstream's id of the answer.
        created: Unix seconds of the answer; default: the upstream's.
        previous_id: Responses: the stored answer whose items were put into the request.
        sealer: Signs reasoning state of the upstream's vendor; without one it is dropped.
        input_estimate: Tokens of the request, for clients that get a count first; default: an estimate.
        strict: A malformed event is a failure instead of a loss.
        rendering: How the client's answer looks; see `Rendering`.
        limits: What the upstream may send; see `Limits`.
        notes_ids: Collect the ids of stored responses, files and the like that the answer gives to the client:
            `Translator.take_given` returns them.  For a gateway whose clients share one key at a vendor, so that each
            can name only its own.  They take memory until they are taken.
    """

    profile: Profile | str
    request: Request | None
    tools: Sequence[Tool] | None
    seed: str
    created: int
    previous_id: str
    sealer: Sealer | None
    input_estimate: int | None
    strict: bool
    rendering: Rendering | None
    limits: Limits
    notes_ids: bool


def make_exchange(
    *,
    source: Dialect | None = None,
    target: Dialect | None = None,
    body: bytes = b"",
    continues: bool = False,
    **options: Unpack[ExchangeOptions],
) -> Exchange:
    """Put together what is known of an exchange; what is not given follows from the request.

    `source` is the upstream's dialect and `target` the client's, if the answer is written for one; `body`
    is the upstream's complete answer; with `continues` a paused answer is continued.
    """
    profile = options.get("profile", "generic")
    request = options.get("request")
    tools = tuple(options.get("tools") or ()) if request is None else request.tools
    input_estimate = options.get("input_estimate")
    if input_estimate is None:
        input_estimate = 0 if request is None else estimate_tokens(request)
    return Exchange(
        profile=find_profile(profile) if isinstance(profile, str) else profile,
        request=request,
        tools=ToolTable.of(tools),
        model="" if request is None else request.model,
        keep_identity=target is not None and source is target,
        upstream_body=body if source is target else b"",
        continues=continues,
        seed=options.get("seed", ""),
        created=options.get("created", 0),
        previous_id=options.get("previous_id", ""),
        sealer=options.get("sealer"),
        input_estimate=input_estimate,
        strict=options.get("strict", False),
        rendering=options.get("rendering") or Rendering(),
        limits=options.get("limits", DEFAULT_LIMITS),
        notes_ids=options.get("notes_ids", False),
        verbatim_ids=target is not None and target.verbatim_ids,
        half_calls=target is None or target.half_calls,
    )


def answer_stages(
    exchange: Exchange,
    tools: Sequence[Tool] | None,
    stop: Sequence[str],
    model: str,
    native_format: Format | str,
) -> list[Stage]:
    """Return the steps between reader and writer that this exchange needs."""
    stages: list[Stage] = [
        *native_stages(exchange, model=model, native_format=native_format, tools=tools)
    ]
    if exchange.profile.tool_calls == "whole" or not exchange.half_calls:
        stages.append(WholeCalls())
    request = exchange.request
    if request is not None and (names := _server_names(request.tools, None)):
        stages.append(ServerTools(names, needed=bool(request.needed)))
    if stop:
        stages.append(StopSequences(stop, input_estimate=exchange.input_estimate))
    if not exchange.half_calls:
        stages.append(UsableCalls(exchange.limits))
    return stages


@made_once
def _server_names(tools: tuple[Tool, ...], _target: None) -> frozenset[str]:
    """Return the names of vendor-run tools that no function has, without searches whose calls the client sends back."""
    declared = {tool.name for tool in tools if tool.server and tool.vendor not in RETURNED_SEARCHES}
    return frozenset(declared - {tool.name for tool in tools if not tool.server})


def findings_of(stages: Iterable[Stage]) -> Sequence[NativeFinding]:
    """Return the list in which the stage for native calls keeps what it finds; it grows with the answer."""
    return next((stage.findings for stage in stages if isinstance(stage, Splitter)), ())


# --- a complete answer ------------------------------------------------------------------------------


def read_whole(body: bytes, frames: FrameReader, exchange: Exchange) -> list[EventOrRun]:
    """Return the events of a complete answer; one that cannot be read ends with a fault."""
    try:
        if len(body) > exchange.limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", exchange.limits.max_response_bytes)
        if body.lstrip()[:1] in (b"{", b"["):
            check_complete(body, exchange.limits)
            read_answer(frames, body)
            return frames.assembler.take()
        reader = StreamReader(frames, exchange)
        return reader.feed(body) + reader.close()
    except PeerError as error:
        frames.assembler.fault(fault_of(error))
        return frames.assembler.take()
