"""Encodes a `Request` as the body for a Responses upstream."""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.decoding import entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import GO_ON, effort_of, go_on_loss
from dragoman.dialects.responses.history_writer import ItemEncoder, Report
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.responses.tools_reader import SHELLS
from dragoman.dialects.responses.tools_writer import Audience, Toolset, define
from dragoman.dialects.server_tools import base_kind
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.history import settle
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    Request,
    Role,
    Sampling,
    ServerToolPart,
    TextPart,
    Tool,
    ToolCallPart,
    Turn,
)
from dragoman.turn.tools import ToolTable
from dragoman.wire.json_values import decode_any

# --- reasoning and output format ------------------------------------------------------------------

JSON_INSTRUCTION: Final = "Respond with a single JSON object."

SCHEMA_INSTRUCTION: Final = (
    "Respond with a single JSON object that is valid against this JSON schema:\n"
)

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def reasoning_settings(
    request: Request, profile: Profile, report: Report, toolset: Toolset
) -> dict[str, str]:
    """Return the `reasoning` that the request asks for, as far as the upstream knows it."""
    wish, path = request.reasoning, path_of(request, "thinking")
    effort = wish.effort
    match wish.mode:
        case "off":
            effort = "none"
        case "budget" if not effort:
            effort = effort_of(wish.budget or 0)
        case _:
            pass
    thinks = wish.mode not in ("default", "off")
    if profile.reasoning_control == "none":
        if wish.mode != "default":
            report.lose(Loss("thinking_dropped", path))
        return {}
    if thinks and toolset.forced and not profile.forced_tool_choice_with_thinking:
        match profile.forced_tool_choice_policy:
            case "error":
                reason = "this upstream cannot think when a tool is forced"
                raise UntranslatableError(reason, path="$.tool_choice")
            case "downgrade":
                toolset.weaken()
            case "disable_thinking":
                report.lose(Loss("thinking_disabled_by_tool_choice", path))
                return {}
    settings: dict[str, str] = {}
    if effort:
        settings["effort"] = _nearest(effort, profile.supported_efforts)
        if settings["effort"] != effort:
            report.note(Loss("effort_adjusted", path, f"{effort} became {settings['effort']}"))
    if wish.show in ("summary", "full") or (thinks and wish.show == "" and _shows(request)):
        detailed = wish.show == "full" and request.dialect == "responses"
        settings["summary"] = "detailed" if detailed else "auto"
    return settings


def _shows(request: Request) -> bool:
    """Say whether a client that did not ask is shown reasoning by its own vendor."""
    return request.dialect == "anthropic"


def _nearest(effort: str, supported: tuple[str, ...]) -> str:
    """Return the nearest effort that is supported: below, else above."""
    if effort in supported or effort not in EFFORTS or not supported:
        return effort
    place = EFFORTS.index(effort)
    below = [word for word in EFFORTS[:place] if word in supported]
    above = [word for word in EFFORTS[place:] if word in supported]
    # No thinking at all is another thing than little of it.
    if below and below[-1] != "none":
        return below[-1]
    return above[0] if above else below[-1] if below else effort


def is_strict(schema: Raw) -> bool:
    """Say whether a schema is as strict mode demands: closed objects, every property required."""
    try:
        return _closed(decode_any(schema))
    except (msgspec.DecodeError, RecursionError):
        return False


def _closed(node: object) -> bool:
    if isinstance(node, list):
        return all(map(_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" or "properties" in node:
        properties = node.get("properties")
        required = node.get("required")
        names = properties.keys() if isinstance(properties, dict) else set()
        listed = set(required) if isinstance(required, list) else set()
        if node.get("additionalProperties") is not False or names - listed:
            return False
    return all(map(_closed, node.values()))


# --- the request ----------------------------------------------------------------------------------

_NO_WISHES: Final = Sampling()

_MIN_OUTPUT: Final = 16  # OpenAI refuses less

_MAX_USER_ID: Final = 64

_ENCRYPTED: Final = "reasoning.encrypted_content"

_LOGPROBS: Final = "message.output_text.logprobs"

# Fields of other dialects that ask for something no Responses upstream has: without them the request
# would mean something else.
_REFUSED: Final[dict[str, frozenset[str]]] = {
    "anthropic": frozenset({"compaction", "container", "mcp_servers", "thread"}),
    "chat": frozenset({"audio"}),
}

# Fields whose loss is told; all others that are not known are vendors' own and mean nothing here.
_DROPPED: Final[dict[str, frozenset[str]]] = {
    "anthropic": frozenset(
        {"context_management", "diagnostics", "fallbacks", "inference_geo", "speed"}
    ),
    "chat": frozenset(
        {"min_p", "moderation", "prediction", "repetition_penalty", "web_search_options"}
    ),
}


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write `request` for a Responses upstream.

    Raises:
        UntranslatableError: the upstream cannot be asked for this; carries the path.
        MalformedError: calls and results of the history do not fit each other.
    """
    return _Encoding(request, target).encode()


class _Encoding:
    """One request on its way."""

    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._profile = target.profile
        self._report = Report(strict=target.strict)
        # The dialect's own tools, as the client declared them, go to an upstream that has them.
        self._native = self._profile.supports_custom_tools or self._profile.vendor_tools
        self._extra: list[str] = []  # instructions that stand for what the upstream cannot enforce
        self._body: dict[str, object] = {"model": target.model or request.model}

    def encode(self) -> EncodedRequest:
        request, body = self._request, self._body
        self._refuse()
        toolset = Toolset(request, self._profile, self._report, native=self._native)
        text = self._text_settings()
        self._history()
        if toolset.tools is not None:
            body["tools"] = toolset.tools
        if toolset.choice is not None:
            body["tool_choice"] = toolset.choice
        if toolset.parallel is not None:
            body["parallel_tool_calls"] = toolset.parallel
        reasoning = reasoning_settings(request, self._profile, self._report, toolset)
        if reasoning:
            body["reasoning"] = reasoning
        if text:
            body["text"] = text
        self._limits()
        self._sampling()
        self._platform()
        body["include"] = self._include()
        body["store"] = False
        body["stream"] = request.stream
        self._extensions()
        if request.stop:
            self._report.note(Loss("stop_emulated", path_of(request, "stop")))
        return EncodedRequest(encode(body), tuple(self._report.losses), request.stop)

    def _refuse(self) -> None:
        request = self._request
        if request.count > 1:
            raise UntranslatableError("this upstream gives one answer at a time", path="$.n")
        if request.previous_id:
            reason = f"the response `{request.previous_id}` is not kept here"
            path = "$.previous_response_id"
            raise UntranslatableError(reason, path=path, code="previous_response_not_found")

    # --- the conversation -----------------------------------------------------------------------

    def _history(self) -> None:
        request, target = self._request, self._target
        turns = settle(
            request.turns, self._report.losses, strict=target.strict, repair=target.repair_history
        )
        self._prefill(turns)
        relayed = request.dialect == "responses"
        encoder = ItemEncoder(target, self._report, native=self._native, relayed=relayed)
        system = [part for part in request.system if part.text]
        system += [TextPart(text) for text in self._extra]
        marked = self._profile.cache_breakpoints and any(part.cache for part in system)
        if system and not marked:
            self._body["instructions"] = "\n\n".join(part.text for part in system)
        items = encoder.encode(turns)
        if marked:
            items.insert(0, encoder.instructions(system))
        self._body["input"] = items

    def _prefill(self, turns: list[Turn]) -> None:
        """Append a user turn to a Messages client's prefill, which this dialect cannot express.

        Chat and Responses clients end a history with the assistant as this dialect does.
        """
        if (
            not turns
            or turns[-1].role is not Role.ASSISTANT
            or self._request.dialect != "anthropic"
        ):
            return
        self._report.lose(go_on_loss(self._request, self._target))
        turns.append(Turn(Role.USER, (TextPart(GO_ON),), path=turns[-1].path))

    # --- settings -------------------------------------------------------------------------------

    def _text_settings(self) -> dict[str, object]:
        request, profile = self._request, self._profile
        settings: dict[str, object] = {}
        wish = request.format
        path = path_of(request, "format")
        if wish.kind == "json_schema" and wish.schema is not None:
            if profile.json_schema == "native":
                strict = is_strict(wish.schema) if wish.strict is None else wish.strict
                form: dict[str, object] = {
                    "type": "json_schema",
                    "name": wish.name or "output",
                    "schema": wish.schema,
                    "strict": strict,
                }
                if wish.description:
                    form["description"] = wish.description
                settings["format"] = form
            else:
                self._report.lose(Loss("schema_not_enforced", path))
                self._extra.append(SCHEMA_INSTRUCTION + bytes(wish.schema).decode())
                if profile.json_schema == "json_object":
                    settings["format"] = {"type": "json_object"}
        elif wish.kind == "json_object":
            if profile.json_schema == "instruction":
                self._report.lose(Loss("json_object_emulated", path))
                self._extra.append(JSON_INSTRUCTION)
            else:
                settings["format"] = {"type": "json_object"}
        if request.verbosity and profile.supports_verbosity:
            settings["verbosity"] = request.verbosity
        elif request.verbosity:
            self._report.lose(Loss("field_dropped", path_of(request, "verbosity")))
        return settings

    def _limits(self) -> None:
        wish = self._request.max_output
        if wish is None:
            return
        path = path_of(self._request, "max_output")
        if wish <= 0:
            reason = "only warming a cache is nothing this upstream can do"
            raise UntranslatableError(reason, path=path)
        most = self._profile.max_output_tokens
        limit = max(_MIN_OUTPUT, wish if most is None else min(wish, most))
        if limit != wish:
            self._report.note(Loss("value_clamped", path, f"{wish} became {limit}"))
        self._body["max_output_tokens"] = limit

    def _sampling(self) -> None:
        wish, profile = self._request.sampling, self._profile
        if wish == _NO_WISHES:
            return
        for name in ("temperature", "top_p"):
            value = getattr(wish, name)
            if value is None:
                continue
            if profile.drop_sampling:
                self._report.lose(Loss("sampling_dropped", f"$.{name}"))
            elif name == "temperature" and value > profile.max_temperature:
                self._report.note(Loss("value_clamped", "$.temperature"))
                self._body[name] = profile.max_temperature
            else:
                self._body[name] = value
        for name in ("top_k", "seed", "frequency_penalty", "presence_penalty", "logit_bias"):
            if getattr(wish, name) is not None:
                self._report.lose(Loss("sampling_dropped", f"$.{name}"))

    def _platform(self) -> None:
        """Fields of OpenAI's platform, for upstreams that have it."""
        request, profile, body = self._request, self._profile, self._body
        if request.user_id and profile.user_field != "none":
            body[profile.user_field] = _user_id(request.user_id)
        elif request.user_id:
            self._report.note(Loss("field_dropped", path_of(request, "user_id")))
        if request.cache_key and profile.supports_cache_key:
            body["prompt_cache_key"] = request.cache_key
        if request.tier and profile.supports_store:
            body["service_tier"] = request.tier
        elif request.tier not in ("", "auto", "default"):
            self._report.lose(Loss("field_dropped", path_of(request, "tier")))
        if request.metadata is not None and profile.supports_store:
            body["metadata"] = request.metadata
        if request.logprobs and profile.supports_logprobs:
            if request.top_logprobs is not None:
                body["top_logprobs"] = request.top_logprobs
        elif request.logprobs:
            self._report.lose(Loss("logprobs_dropped", path_of(request, "logprobs")))

    def _include(self) -> list[str]:
        request = self._request
        include = [_ENCRYPTED]
        if request.logprobs and self._profile.supports_logprobs:
            include.append(_LOGPROBS)
        if self._native:
            include += [one for one in request.include if one not in (_ENCRYPTED, _LOGPROBS)]
        return include

    def _extensions(self) -> None:
        """Fields that only the client's own dialect has, and those that every request here gets."""
        request = self._request
        refused = _REFUSED.get(request.dialect, frozenset())
        dropped = _DROPPED.get(request.dialect, frozenset())
        for name, raw in request.extensions.items():
            if request.dialect == "responses":
                self._body.setdefault(name, raw)
            elif name in refused or (name == "modalities" and b"audio" in bytes(raw)):
                raise UntranslatableError(f"a Responses upstream has no `{name}`", path=f"$.{name}")
            elif name in dropped:
                self._report.lose(Loss("field_dropped", f"$.{name}"))
        for name, value in self._profile.extra_fields:
            self._body.setdefault(name, Raw(value.encode()))


def _user_id(user_id: str) -> str:
    """Return an id that fits; long ones, and those that are JSON of a client's own, are hashed."""
    if len(user_id) <= _MAX_USER_ID and not user_id.startswith("{"):
        return user_id
    return hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()


# --- requests that are relayed to another Responses upstream --------------------------------------
# The client's bytes pass, but for the tools that the upstream does not take: custom, shell and patch tools
# and tools of a namespace become functions, vendor-run tools are left out, and the history's calls of all of
# them are written the same way.  `ToolTable` turns the calls of the answer back.

_NULL: Final = Raw(b"null")


class _Item(Struct):
    type: str | None = None
    namespace: str | None = None


_ITEM: Final = msgspec.json.Decoder(_Item)

_SHELL_TYPES: Final = frozenset(
    kind for shell in SHELLS.values() for kind in (shell.call_type, shell.output_type)
)

# Items that become functions' calls and results, as many as there are, in the same order.
_CALLS: Final = _SHELL_TYPES | {"custom_tool_call", "custom_tool_call_output"}


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds tools, or calls of tools, that the upstream does not take."""
    if profile.supports_custom_tools or profile.vendor_tools:
        return False
    return any(not _fits(tool, profile) for tool in request.tools) or any(
        type(part) is ServerToolPart
        or (type(part) is ToolCallPart and (part.flavor is not Flavor.FUNCTION or part.namespace))
        for turn in request.turns
        for part in turn.parts
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost; None for a field means that it goes.

    Raises:
        UntranslatableError: two tools have one name once namespaces are flattened, the choice forces a tool
            that the upstream does not have, or something is lost and the target is strict.
    """
    report = Report(strict=target.strict)
    fitted: dict[str, Raw] = {}
    if any(not _fits(tool, target.profile) for tool in request.tools):
        fitted |= _declared(fields, request, target.profile, report)
    given = fields.get("input", _NULL)
    if bytes(given).startswith(b"["):
        items = entries_of(given)
        written = _history(items, target, report)
        if written is not None:
            fitted["input"] = Raw(encode(written))
    return fitted, tuple(report.losses)


def _fits(tool: Tool, profile: Profile) -> bool:
    if tool.server:
        return profile.runs(base_kind(tool.kind), "responses")
    return tool.flavor is Flavor.FUNCTION and not tool.namespace


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, report: Report
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass, and the choice."""
    ToolTable.of(request.tools)
    by_entry: dict[str, list[Tool]] = {}
    for tool in request.tools:
        by_entry.setdefault(tool.path.partition("]")[0], []).append(tool)
    audience = Audience(profile, native=False, strict=report.strict, namespaces=())
    out: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tools = by_entry.get(f"$.tools[{at}", [])
        if tools and all(_fits(tool, profile) for tool in tools):
            out.append(raw)
            continue
        defined = define(tuple(tools), audience)
        report.losses += defined.losses
        out += entries_of(defined.json)
    fitted = {"tools": Raw(encode(out)) if out else _NULL}
    choice = fields.get("tool_choice", _NULL)
    if choice != _NULL and not (out and bytes(choice).startswith(b'"')):
        # The tools were reported above; only what concerns the choice is still to be reported.
        own = Report(strict=report.strict)
        toolset = Toolset(request, profile, own, native=False)
        report.losses += [one for one in own.losses if one.path.startswith("$.tool_choice")]
        fitted["tool_choice"] = _NULL if toolset.choice is None else Raw(encode(toolset.choice))
    return fitted


def _history(items: list[Raw], target: Target, report: Report) -> list[Raw] | None:
    """Return the items with calls of such tools as calls of functions; None: there are none."""
    kinds = [_kind(item) for item in items]
    calls = [at for at, (kind, space) in enumerate(kinds) if kind in _CALLS or space]
    hosted = [
        at
        for at, (kind, _) in enumerate(kinds)
        if kind.endswith("_call")
        and kind not in ("function_call", *_CALLS)
        and not target.profile.runs(base_kind(kind.removesuffix("_call")), "responses")
    ]
    if not calls and not hosted:
        return None
    written = dict(zip(calls, _rewritten([items[at] for at in calls], target, report), strict=True))
    out: list[Raw] = []
    for at, item in enumerate(items):
        if at in written:
            out.append(written[at])
        elif at in hosted:
            out += _rewritten([item], target, report)
        else:
            out.append(item)
    return out


def _kind(item: Raw) -> tuple[str, str]:
    try:
        given = _ITEM.decode(item)
    except msgspec.DecodeError:
        return "", ""
    return given.type or "", given.namespace or ""


def _rewritten(items: list[Raw], target: Target, report: Report) -> list[Raw]:
    """Return items of the history as an upstream without the dialect's own tools takes them."""
    if not items:
        return []
    body = encode({"model": "", "input": items})
    turns = decode_request(body, sealer=None, limits=target.limits).turns
    encoded = ItemEncoder(target, report, native=False, relayed=True).encode(turns)
    return entries_of(Raw(encode(encoded)))
