"""The front door for requests: from a client's dialect into an upstream's, and refusals back.

From a dialect into itself the client's bytes pass, but for what the upstream must not or cannot see.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects import dialect
from dragoman.dialects.decoding import decode
from dragoman.dialects.dialect import Dialect
from dragoman.errors import DragomanError, Malformed, TooLarge
from dragoman.exchange import Target
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.opaque import PREFIX, Sealer
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_TOOLS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


class _Outline(Struct):
    """What must be known of a request that is passed on unread."""

    model: str
    stream: bool = False


_OUTLINE: Final = msgspec.json.Decoder(_Outline)
# Refusals that concern what a vendor may well understand, though nobody else does.
_VENDORS_OWN: Final = frozenset(
    {"unsupported_content_block", "unsupported_parameter", "item_not_found"}
)


class TranslatedRequest(Struct, frozen=True):
    """A client's request in an upstream's dialect."""

    body: bytes
    request: Request  # what the client meant
    losses: tuple[Loss, ...] = ()
    stop: tuple[str, ...] = ()  # for `Translator(stop=…)`: what the upstream cannot match itself


def translate_request(  # noqa: PLR0913 -- where from, where to, and how
    body: bytes,
    *,
    source: str,
    target: str,
    profile: Profile | str = "generic",
    model: str = "",
    strict: bool = False,
    repair_history: bool = False,
    prefill: str = "reject",
    sealer: Sealer | None = None,
    known_ids: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> TranslatedRequest:
    """Turn a client's request into one for an upstream; `model` is the upstream's name for the model.

    Raises:
        Malformed: the request is not of its dialect; carries the path.
        Untranslatable: the target cannot say what the request asks for; carries the path.
        TooLarge: it passes `max_request_bytes`.
    """
    if len(body) > limits.max_request_bytes:
        raise TooLarge("max_request_bytes", limits.max_request_bytes)
    request = _decode(body, source, target, sealer, limits)
    to = Target(
        profile=find_profile(profile) if isinstance(profile, str) else profile,
        model=model or request.model,
        strict=strict,
        repair_history=repair_history,
        prefill="continue" if prefill == "continue" else "reject",
        known_ids=dict(known_ids or {}),
        limits=limits,
    )
    if source == target:
        return _forward(body, request, dialect(target), to)
    encoded = dialect(target).encode_request(request, to)
    losses = request.losses + encoded.losses
    return TranslatedRequest(encoded.body, request, losses, encoded.stop)


def _decode(
    body: bytes, source: str, target: str, sealer: Sealer | None, limits: Limits
) -> Request:
    """Read a request; what only the vendor of its dialect understands may pass to that dialect."""
    from_dialect = dialect(source)
    try:
        return from_dialect.decode_request(body, sealer=sealer, limits=limits)
    except Malformed as error:
        if source != target or error.code not in _VENDORS_OWN or _has_minted(body):
            raise
        outline = decode(_OUTLINE, body)
        return Request(dialect=from_dialect.name, model=outline.model, stream=outline.stream)


def _has_minted(body: bytes) -> bool:
    """Say whether a request may hold ids or envelopes that were made here."""
    return PREFIX.encode() in body or b'"gx' in body or b'"gh-' in body


def _forward(body: bytes, request: Request, to: Dialect, target: Target) -> TranslatedRequest:
    """Keep the client's bytes; only the model, and what means nothing upstream, is written anew."""
    fields = decode(_FIELDS, body)
    profile = target.profile
    rewritten: list[str] = []
    if _has_minted(body) or profile.id_style in ("kimi", "mistral9") or profile.reasoning_filler:
        rewritten += to.history_fields
    if profile.schema_dialect != "any":
        rewritten.append("tools")
    losses = request.losses
    if rewritten:
        encoded = to.encode_request(request, target)
        losses += tuple(loss for loss in encoded.losses if _concerns(loss, rewritten))
        fresh = decode(_FIELDS, encoded.body)
        for name in rewritten:
            if name in fresh:
                fields[name] = fresh[name]
            else:
                fields.pop(name, None)
    elif target.model == request.model:
        return TranslatedRequest(body, request, losses)
    fields["model"] = Raw(msgspec.json.encode(target.model))
    return TranslatedRequest(msgspec.json.encode(fields), request, losses)


def _concerns(loss: Loss, fields: Sequence[str]) -> bool:
    """Say whether a loss lies in one of the top-level fields."""
    return any(loss.path.startswith(f"$.{name}") for name in fields)


def refuse(error: DragomanError, *, target: str, request_id: str = "") -> tuple[int, bytes]:
    """Turn an error of ours about a client's request into that client's error answer."""
    return dialect(target).encode_fault(fault_of_request(error), request_id)


def fault_of_request(error: DragomanError) -> Fault:
    """Return the fault for a client's request that cannot be served as it is."""
    path = getattr(error, "path", "")
    code = getattr(error, "code", "")
    if isinstance(error, TooLarge):
        return Fault(FaultKind.TOO_LARGE, str(error), status=413, code="request_too_large")
    kind = FaultKind.BAD_REQUEST if error.http_status == 400 else FaultKind.GATEWAY
    return Fault(kind, str(error), status=error.http_status, code=code, param=path)


def decode_tools(body: bytes) -> tuple[Tool, ...]:
    """Read a JSON list of tool definitions, each in the shape of any of the three dialects.

    Raises:
        Malformed: it is no list, or a definition fits no dialect.
    """
    tools: list[Tool] = []
    definitions = decode(_TOOLS, body)
    for index, raw in enumerate(definitions):
        tools += _decode_tool(bytes(raw), f"$[{index}]")
    return tuple(tools)


def _decode_tool(raw: bytes, path: str) -> tuple[Tool, ...]:
    keys = decode(_FIELDS, raw).keys()
    shapes: tuple[str, ...] = ("responses", "anthropic", "chat")
    if "input_schema" in keys:
        shapes = ("anthropic",)
    elif "function" in keys or "custom" in keys:
        shapes = ("chat",)
    reasons: list[str] = []
    for name in shapes:
        body = b'%b,"tools":[%b]}' % (_EMPTY_REQUEST[name], raw)
        try:
            return dialect(name).decode_request(body, sealer=None, limits=DEFAULT_LIMITS).tools
        except Malformed as error:
            reasons.append(f"{name}: {error}")
    raise Malformed(f"a tool definition that fits no dialect ({'; '.join(reasons)})", path=path)


_EMPTY_REQUEST: Final = {
    "chat": b'{"model":"m","messages":[]',
    "anthropic": b'{"model":"m","max_tokens":1,"messages":[]',
    "responses": b'{"model":"m","input":[]',
}
