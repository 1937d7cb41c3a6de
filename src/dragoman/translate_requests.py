"""Translates requests from a client's dialect into an upstream's, and our errors back.

If both dialects are the same, the client's bytes are forwarded and only what the upstream must not or cannot
see is rewritten.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final, TypedDict, Unpack

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.context import Target
from dragoman.dialects import dialect, dialect_names
from dragoman.dialects.decoding import decode, valid_utf8
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.server_tools import MARK, check_needed, returns_search
from dragoman.dialects.tool_policy import must_narrow, narrowed
from dragoman.envelopes import BASE64_PREFIX, PREFIX, Sealer
from dragoman.errors import (
    DragomanError,
    MalformedError,
    NameTooLongError,
    TooLargeError,
    UntranslatableError,
)
from dragoman.ids import takes_id
from dragoman.limits import DEFAULT_LIMITS, MAX_ERROR_CHARS, MAX_ERROR_WORD_CHARS, Limits
from dragoman.profiles import for_model
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import RETURNED_SEARCHES, Profile
from dragoman.toolcalls.detection import bare_name, known_family
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    SYSTEM,
    ImagePart,
    Request,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.turn.tools import made_once

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ELEMENTS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


class _Outline(Struct):
    """The fields of a request that is forwarded unread."""

    model: str
    stream: bool = False


class _Shape(Struct):
    """The fields that tell the kinds of messages apart."""

    role: str | None = None
    type: str | None = "message"


_NULL: Final = Raw(b"null")
_GENERIC: Final = find_profile("generic")
# Fields of a request that hold a name.
_NAMES: Final = ("model", "user_id", "tier", "cache_key", "verbosity")
_names_of: Final = attrgetter(*_NAMES)
_LEADING: Final = frozenset({"system", "developer"})  # roles of instructions
_SHAPES: Final = msgspec.json.Decoder(list[_Shape])
_OUTLINE: Final = msgspec.json.Decoder(_Outline)
# Codes of refusals for what only the dialect's own vendor may understand.
_VENDORS_OWN: Final = frozenset(
    {"unsupported_content_block", "unsupported_parameter", "item_not_found"}
)


class ClientRequest(Struct, frozen=True):
    """A client's request, read once, for whichever upstream it then goes to."""

    body: bytes
    request: Request  # what the client meant
    # Why it cannot be translated: only the vendor of its dialect understands it.  None: it can.
    vendors_own: MalformedError | None = None


class TranslatedRequest(Struct, frozen=True):
    """A client's request in an upstream's dialect.

    Attributes:
        body: The body for the upstream.
        request: What was sent to the upstream, as a value.
        losses: What was not carried over unchanged.
        stop: For `Translator(stop=…)`: stop sequences that the upstream cannot match.
    """

    body: bytes
    request: Request  # as it was sent to the upstream
    losses: tuple[Loss, ...] = ()
    stop: tuple[str, ...] = ()  # for `Translator(stop=…)`: what the upstream cannot match itself


class RequestOptions(TypedDict, total=False):
    """The target of a request, and which changes of the request are allowed; each option has a default.

    Attributes:
        profile: What the upstream accepts: the name of a profile, or a `Profile`; default `generic`.
        continues: The caller sends the requests that continue a paused answer, as `Translator(continues=True)` allows.
            Without it, tools that need such a request, such as Moonshot's search, are not declared.
        model: The upstream's name of the model; default: the client's.
        strict: What would be a loss of meaning raises `UntranslatableError` instead.
        repair_history: A tool result without its call becomes text of the user; default: it raises
            `UntranslatableError`.
        prefill: What happens to the last assistant turn of a Messages request that the target cannot continue.
            `reject`, the default, raises `UntranslatableError`; with `continue` a user turn asks the model to go on
            (`prefill_emulated`).
        known_ids: The upstream's ids behind ids of calls that were too long for the client (`gh-…`).  An id that
            is not in it goes to the upstream as the client sent it.
        limits: What the client may send; see `Limits`.
    """

    profile: Profile | str
    continues: bool
    model: str
    strict: bool
    repair_history: bool
    prefill: str
    known_ids: Mapping[str, str] | None
    limits: Limits


def read_request(
    body: bytes, *, source: str, sealer: Sealer | None = None, limits: Limits = DEFAULT_LIMITS
) -> ClientRequest:
    """Read a client's request.

    Raises:
        MalformedError: the request is not of its dialect; carries the path.
        TooLargeError: it passes a limit, which the error names.
    """
    from_dialect = dialect(source)
    body = valid_utf8(body)  # Test: test_bytes_that_are_not_utf8_never_reach_an_upstream.
    try:
        request = from_dialect.decode_request(body, sealer=sealer, limits=limits)
        check_request(request, limits)
        return ClientRequest(body, request)
    except MalformedError as error:
        if error.code not in _VENDORS_OWN or _has_minted(body):
            raise
        outline = decode(_OUTLINE, body)
        request = Request(dialect=from_dialect.name, model=outline.model, stream=outline.stream)
        check_request(request, limits)
        return ClientRequest(body, request, error)


def check_request(request: Request, limits: Limits) -> None:
    """Refuse a request with more parts or tools, or longer names, than any real one has.

    Raises:
        TooLargeError: it passes `max_parts` or `max_tools`.
        NameTooLongError: a name or an id is too long; carries its path.
    """
    name_chars, id_chars = limits.max_name_chars, limits.max_id_chars
    if len(request.tools) > limits.max_tools:
        raise TooLargeError("max_tools", limits.max_tools)
    if max(map(len, _names_of(request))) > name_chars:
        field = next(one for one in _NAMES if len(getattr(request, one)) > name_chars)
        raise NameTooLongError("max_name_chars", name_chars, path=path_of(request, field))
    if len(request.previous_id) > id_chars:
        raise NameTooLongError("max_id_chars", id_chars, path=path_of(request, "previous_id"))
    longest, at = _longest_name(request.tools, None) if request.tools else (0, 0)
    if longest > name_chars:
        raise NameTooLongError("max_name_chars", name_chars, path=f"$.tools[{at}]")
    parts = 0
    for turn in request.turns:
        parts += len(turn.parts)
        if len(turn.name) > name_chars:
            raise NameTooLongError("max_name_chars", name_chars, path=turn.path)
        for part in turn.parts:
            if type(part) is ToolCallPart:
                if len(part.name) > name_chars:
                    raise NameTooLongError("max_name_chars", name_chars, path=turn.path)
                if len(part.id) > id_chars:
                    raise NameTooLongError("max_id_chars", id_chars, path=turn.path)
            elif type(part) is ToolResultPart:
                parts += len(part.parts)
                if len(part.call_id) > id_chars:
                    raise NameTooLongError("max_id_chars", id_chars, path=turn.path)
    if parts > limits.max_parts:
        raise TooLargeError("max_parts", limits.max_parts)


@made_once
def _longest_name(tools: tuple[Tool, ...], _target: None) -> tuple[int, int]:
    """Return the length of the longest name of a tool, and which tool has it."""
    return max((len(tool.name), at) for at, tool in enumerate(tools))


def write_request(
    client: ClientRequest,
    *,
    target: str,
    changed: Request | None = None,
    **options: Unpack[RequestOptions],
) -> TranslatedRequest:
    """Write a client's request for an upstream; `changed` replaces what the client sent.

    Raises:
        MalformedError: only the vendor of the client's dialect understands it, and `target` is another.
        UntranslatableError: the target cannot do what the request asks for; carries the path.
    """
    request = changed or client.request
    if client.vendors_own is not None and request.dialect != target:
        raise client.vendors_own
    profile = options.get("profile", _GENERIC)
    model = options.get("model", "") or request.model
    found = find_profile(profile) if isinstance(profile, str) else profile
    fitting = _profile_for(found, model, target)
    if fitting.chat_search in RETURNED_SEARCHES and not (
        options.get("continues") or returns_search(request.tools)
    ):
        # Its search runs in a second request, which no one would send.
        fitting = structs.replace(fitting, chat_search="")
    to = Target(
        profile=fitting,
        model=model,
        strict=options.get("strict", False),
        repair_history=options.get("repair_history", False),
        prefill="continue" if options.get("prefill") == "continue" else "reject",
        known_ids=dict(options.get("known_ids") or {}),
        limits=options.get("limits", DEFAULT_LIMITS),
    )
    check_needed(request, dialect(target), to.profile)
    if request.dialect == target:
        return _forward(client, request, dialect(target), to)
    encoded = dialect(target).encode_request(request, to)
    return TranslatedRequest(encoded.body, request, request.losses + encoded.losses, encoded.stop)


@lru_cache(maxsize=256)
def _profile_for(profile: Profile, model: str, target: str) -> Profile:
    """Return the profile with what it leaves to the model."""
    return for_model(profile, bare_name(model), known_family(model), target)


def translate_request(
    body: bytes,
    *,
    source: str,
    target: str,
    sealer: Sealer | None = None,
    **options: Unpack[RequestOptions],
) -> TranslatedRequest:
    """Turn a client's request into one for an upstream.

    Args:
        body: The client's body.
        source: The client's dialect.
        target: The upstream's dialect.
        sealer: Opens envelopes of reasoning state in the history; None: they are dropped.
        **options: The target's profile, model and the like; see `RequestOptions`.

    Raises:
        MalformedError: the request is not of its dialect; carries the path.
        UntranslatableError: the target cannot do what the request asks for; carries the path.
        TooLargeError: it passes a limit, which the error names.
        ConfigError: there is no such dialect or profile.
    """
    limits = options.get("limits", DEFAULT_LIMITS)
    client = read_request(body, source=source, sealer=sealer, limits=limits)
    return write_request(client, target=target, **options)


def _holds_minted(client: ClientRequest) -> bool:
    """Return whether a request that was read may hold ids or envelopes that were made here.

    They occur in calls, results and reasoning: searching all bytes costs more than reading the request.
    """
    for turn in client.request.turns:
        for part in turn.parts:
            if type(part) is TextPart or type(part) is ImagePart:
                continue
            if type(part) is ToolResultPart:
                known = part.call_id[:1] != "g"
            else:
                known = type(part) is ToolCallPart and part.id[:1] != "g" and not part.opaque
            if not known:
                return _has_minted(client.body)
    # An envelope that did not open was left out and reported.
    return bool(client.request.losses) and _has_minted(client.body)


def _has_minted(body: bytes) -> bool:
    """Return whether a request may hold ids or envelopes that were made here."""
    marks = (PREFIX.encode(), BASE64_PREFIX.encode(), b'"gx', b'"gh-', MARK.encode())
    return any(mark in body for mark in marks)


def _forward(
    client: ClientRequest, request: Request, to: Dialect, target: Target
) -> TranslatedRequest:
    """Keep the client's bytes; rewrite only the model, and what the upstream cannot read or must not see."""
    profile = target.profile
    _refuse_kept(request, to, profile)
    choice = to.field_names.get("tool_choice", "tool_choice")
    rewritten: set[str] = set()
    adapted = (
        profile.id_style in ("kimi", "mistral9")
        or profile.reasoning_filler != ""
        or (profile.refuses_reasoning and request.has_reasoning)
        or (not profile.send_ids and bool(request.call_ids))
        or not all(takes_id(profile.id_style, one) for one in _limited_ids(request, profile))
    )
    if adapted or _holds_minted(client):
        rewritten.update(to.history_fields)
    if profile.schema_dialect != "any":
        rewritten.update(("tools", choice) if must_narrow(request, profile) else ("tools",))
    losses: tuple[Loss, ...] = ()  # what reading would lose is forwarded here
    changed = request is not client.request
    edits = bool(rewritten or changed or _must_fit(request, to, profile))
    if not edits and target.model == request.model:
        return TranslatedRequest(client.body, request)
    fields = decode(_FIELDS, to.one_spelling(client.body) if edits else client.body)
    declared = "tools" in fields
    if rewritten or changed:
        as_it_is = target
        if not adapted:  # what passes before anything was made here, passes so afterwards too
            as_it_is = structs.replace(
                target, profile=structs.replace(profile, midturn_system=True)
            )
        encoded = to.encode_request(request, as_it_is)
        before = fresh = decode(_FIELDS, encoded.body)
        if changed:
            before = decode(_FIELDS, to.encode_request(client.request, as_it_is).body)
            names = fresh.keys() | before.keys()
            rewritten.update(name for name in names if fresh.get(name) != before.get(name))
        if not adapted and _leads_back(fields, before, fresh, to):
            rewritten.difference_update(to.history_fields[:-1])
        found = (*request.losses, *encoded.losses)
        losses += tuple(loss for loss in found if _concerns(loss, rewritten))
        for name in rewritten:
            if name not in fresh:
                fields.pop(name, None)
            elif name not in to.history_fields:
                fields[name] = _with_own_settings(fields.get(name), before.get(name), fresh[name])
            else:
                own = None if adapted else fields.get(name)
                fields[name] = _with_own(own, before.get(name), fresh[name])
    if _must_fit(request, to, profile):
        for fit in (_fit_tools, _fitted):
            fitted, changes = fit(fields, request, to, target)
            for name, raw in fitted.items():
                if raw == _NULL:
                    fields.pop(name, None)
                else:
                    fields[name] = raw
            losses += changes
    if declared and choice in fields and "tools" not in fields:
        del fields[choice]
        losses += (Loss("tool_choice_dropped", f"$.{choice}"),)
    fields["model"] = Raw(encode(target.model))
    return TranslatedRequest(encode(fields), request, losses)


def _limited_ids(request: Request, profile: Profile) -> Collection[str]:
    """Return the ids of calls that an upstream may refuse: none, if it takes any."""
    return () if profile.id_style == "any" else request.call_ids


def _refuse_kept(request: Request, to: Dialect, profile: Profile) -> None:
    """Refuse a request whose conversation only the vendor's own servers could hold."""
    for name in to.kept_by_vendor:
        asked = bytes(request.extensions.get(name, b"null"))
        if asked not in (b"null", b"false") and profile.origin != to.name:
            reason = "this upstream stores no conversations; send all messages"
            raise UntranslatableError(reason, path=f"$.{name}")


def _must_fit(request: Request, to: Dialect, profile: Profile) -> bool:
    """Return whether a request holds what the upstream would refuse or misread."""
    return (
        must_narrow(request, profile)
        or _is_instructed(request, to, profile)
        or to.misfits(request, profile)
    )


def _is_instructed(request: Request, to: Dialect, profile: Profile) -> bool:
    """Return whether there are instructions between messages that the upstream does not accept."""
    takes = profile.midturn_system or profile.own_midturn_system or to.without_instructions is None
    return not takes and any(turn.role is SYSTEM for turn in request.turns)


def _fit_tools(
    fields: Mapping[str, Raw], request: Request, to: Dialect, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that hold tools which the upstream does not take, as it takes them."""
    return (
        to.fit_tools(fields, request, target) if to.misfits(request, target.profile) else ({}, ())
    )


def _fitted(
    fields: Mapping[str, Raw], request: Request, to: Dialect, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that the upstream would refuse or misread, as it takes them."""
    profile = target.profile
    fitted: dict[str, Raw] = {}
    losses: tuple[Loss, ...] = ()
    if profile.schema_dialect == "any" and must_narrow(request, profile):
        fitted, losses = narrowed(fields, request, to.any_tool)
    if to.without_instructions is not None and _is_instructed(request, to, profile):
        fitted["messages"], changes = to.without_instructions(fields["messages"])
        losses += changes
    return fitted, losses


def _leads_back(
    own: Mapping[str, Raw], before: dict[str, Raw], fresh: dict[str, Raw], to: Dialect
) -> bool:
    """Put instructions at the head of the client's messages back there, if they did not change.

    Our writer puts them into a separate field, and an upstream's cache would lose its whole prefix.
    """
    *elsewhere, name = to.history_fields
    lists = [one.get(name) for one in (own, fresh)]
    if not elsewhere or any(one is None or not bytes(one).startswith(b"[") for one in lists):
        return False
    if any(fresh.get(field) != before.get(field) for field in elsewhere):
        return False
    mine, new = decode(_SHAPES, own[name]), decode(_SHAPES, fresh[name])
    more = len(mine) - len(new)
    if more <= 0 or mine[more:] != new or any(one.role not in _LEADING for one in mine[:more]):
        return False
    front = decode(_ELEMENTS, own[name])[:more]
    for fields in {id(one): one for one in (before, fresh)}.values():
        fields[name] = Raw(encode([*front, *decode(_ELEMENTS, fields[name])]))
    return True


def _with_own(own: Raw | None, before: Raw | None, fresh: Raw) -> Raw:
    """Keep the client's bytes of every message that is not changed and holds nothing made here.

    An upstream's cache of prefixes would else lose all that came before the first change.
    """
    lists = [one for one in (own, before, fresh) if one is not None and bytes(one).startswith(b"[")]
    if len(lists) < 3 or any(decode(_SHAPES, one) != decode(_SHAPES, fresh) for one in lists):
        return fresh
    triples = zip(*(decode(_ELEMENTS, one) for one in lists), strict=True)
    kept = (
        bytes(old if same == new and not _has_minted(bytes(old)) else new)
        for old, same, new in triples
    )
    return Raw(b"[" + b",".join(kept) + b"]")


def _with_own_settings(own: Raw | None, before: Raw | None, fresh: Raw) -> Raw:
    """Change only those settings of an object that differ: a client may send more of them than a turn holds."""
    objects = [one for one in (own, before, fresh) if one is not None and bytes(one)[:1] == b"{"]
    if len(objects) < 3:
        return fresh
    kept, old, new = (decode(_FIELDS, one) for one in objects)
    for name in old.keys() | new.keys():
        if name not in new:
            kept.pop(name, None)
        elif new[name] != old.get(name):
            kept[name] = new[name]
    return Raw(encode(kept))


def _concerns(loss: Loss, fields: Collection[str]) -> bool:
    """Return whether a loss lies in one of the top-level fields."""
    return any(loss.path.startswith(f"$.{name}") for name in fields)


def error_response(error: DragomanError, *, target: str, request_id: str = "") -> tuple[int, bytes]:
    """Turn an error about a client's request into a response in the client's dialect: its status and body.

    Args:
        error: What `translate_request` raised.
        target: The client's dialect.
        request_id: An id to put into the body, where the dialect has a place for it.
    """
    return dialect(target).encode_fault(fault_of_request(error), request_id)


def fault_of_request(error: DragomanError) -> Fault:
    """Return the fault for a client's request that cannot be served as it is."""
    path = getattr(error, "path", "")[:MAX_ERROR_WORD_CHARS]
    code = getattr(error, "code", "")
    message = str(error)[:MAX_ERROR_CHARS]
    if isinstance(error, TooLargeError) and not isinstance(error, NameTooLongError):
        return Fault(FaultKind.TOO_LARGE, message, status=413, code="request_too_large")
    kind = FaultKind.BAD_REQUEST if error.http_status < 500 else FaultKind.GATEWAY
    # Vendors name a field without the sign of the root.
    param = path.removeprefix("$").removeprefix(".")
    return Fault(kind, message, status=error.http_status, code=code, param=param)


def decode_tools(body: bytes) -> tuple[Tool, ...]:
    """Read a JSON list of tool definitions, each in the shape of any dialect.

    Args:
        body: The list, as JSON text.

    Raises:
        MalformedError: it is not a list, or a definition fits no dialect.
    """
    tools: list[Tool] = []
    definitions = decode(_ELEMENTS, body)
    for index, raw in enumerate(definitions):
        tools += _decode_tool(bytes(raw), f"$[{index}]")
    return tuple(tools)


_ANY_MESSAGES: Final = b'[{"role":"user","content":"x"}]'  # that every dialect can read


def _decode_tool(raw: bytes, path: str) -> tuple[Tool, ...]:
    keys = decode(_FIELDS, raw).keys()
    dialects = [dialect(name) for name in dialect_names()]
    shown = [one for one in dialects if not one.tool_fields.isdisjoint(keys)]
    reasons: list[str] = []
    # A plain definition has the shape of Responses; those of Gemini show themselves by their fields.
    plain = [one for one in reversed(dialects) if one.model_paths is None]
    for one in shown or plain:
        body = one.least_request % (_ANY_MESSAGES, b"[%b]" % raw)
        try:
            return one.decode_request(body, sealer=None, limits=DEFAULT_LIMITS).tools
        except MalformedError as error:
            reasons.append(f"{one.name}: {error}")
    raise MalformedError(
        f"a tool definition that fits no dialect ({'; '.join(reasons)})", path=path
    )
