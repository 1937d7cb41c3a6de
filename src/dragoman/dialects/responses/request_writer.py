"""Encodes a `Request` as the body for a Responses upstream."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.decoding import entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.history_policy import GO_ON, go_on_loss, place_instructions
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import (
    NO_SAMPLING,
    fitted_schema,
    output_format,
    output_limit,
    refuse_losses,
    refuse_unsupported,
    report_foreign_fields,
    sampling_fields,
    strict_output,
    user_id_for,
    wanted_effort,
)
from dragoman.dialects.responses.history_writer import HistoryWriter
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.responses.tools_reader import SHELLS
from dragoman.dialects.responses.tools_writer import Audience, Toolset, define
from dragoman.dialects.server_tools import kind_of, mcp_obstacle
from dragoman.dialects.tool_policy import thinking_beside_choice
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.history import normalize_history
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    OutputFormat,
    ReasoningSettings,
    Request,
    Role,
    ServerToolPart,
    TextPart,
    Tool,
    ToolCallPart,
    Turn,
)
from dragoman.turn.server_tools import ServerKind
from dragoman.turn.tools import ToolTable

# --- thinking ---------------------------------------------------------------------------------------


def reasoning_settings(
    request: Request, thinking: ReasoningSettings, profile: Profile, losses: list[Loss]
) -> dict[str, str]:
    """Return the `reasoning` that asks for the thinking which the client wants, as far as the upstream knows it."""
    if profile.reasoning_control == "none":
        if thinking.mode != "default":
            losses.append(Loss("thinking_dropped", path_of(request, "thinking")))
        return {}
    settings: dict[str, str] = {}
    effort = wanted_effort(request, thinking, profile, losses)
    if effort:
        settings["effort"] = effort
    # Anthropic shows thinking to a client that does not ask; OpenAI shows it on request.
    thinks = thinking.mode not in ("default", "off")
    shown = thinks and thinking.show == "" and request.dialect == "anthropic"
    if thinking.show in ("summary", "full") or shown:
        detailed = thinking.show == "full" and request.dialect == "responses"
        settings["summary"] = "detailed" if detailed else "auto"
    return settings


# --- the request ----------------------------------------------------------------------------------

_MIN_OUTPUT: Final = 16  # OpenAI refuses less

# Sampling parameters that the dialect has no field for.
_NO_FIELD: Final = frozenset(
    {"top_k", "seed", "frequency_penalty", "presence_penalty", "logit_bias"}
)

_ENCRYPTED: Final = "reasoning.encrypted_content"

_LOGPROBS: Final = "message.output_text.logprobs"
_SHOWN: Final = {
    ServerKind.WEB_SEARCH: "web_search_call.action.sources",
    ServerKind.CODE: "code_interpreter_call.outputs",
}


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write `request` for a Responses upstream.

    Raises:
        UntranslatableError: the upstream cannot be asked for this; carries the path.
        MalformedError: calls and results of the history do not fit each other.
    """
    encoder = _Encoder(request, target)
    body = encoder.encode()
    if target.strict:
        refuse_losses(encoder.losses)
    return EncodedRequest(body, tuple(encoder.losses), request.stop)


class _Encoder:
    """Put one request together, field by field."""

    def __init__(self, request: Request, target: Target) -> None:
        self.losses: list[Loss] = []
        self._request = request
        self._target = target
        self._profile = target.profile
        # The upstream has the dialect's own tools: they are sent as the client declared them.
        self._native = self._profile.supports_custom_tools or self._profile.vendor_tools
        self._instructions: list[str] = []  # to be added to the client's
        self._body: dict[str, object] = {"model": target.model or request.model}

    def encode(self) -> bytes:
        request, body = self._request, self._body
        refuse_unsupported(request)
        toolset = Toolset(request, self._profile, self.losses, native=self._native)
        text = self._text_settings()
        self._history()
        if toolset.tools is not None:
            body["tools"] = toolset.tools
        thinking = self._agree(toolset)
        if toolset.choice is not None:
            body["tool_choice"] = toolset.choice
        if toolset.max_calls is not None:
            body["max_tool_calls"] = toolset.max_calls
        if toolset.parallel is not None:
            body["parallel_tool_calls"] = toolset.parallel
        reasoning = reasoning_settings(request, thinking, self._profile, self.losses)
        if reasoning:
            body["reasoning"] = reasoning
        if text:
            body["text"] = text
        limit = output_limit(request, self._profile, self.losses, least=_MIN_OUTPUT)
        if limit is not None:
            body["max_output_tokens"] = limit
        if request.sampling != NO_SAMPLING:
            body |= sampling_fields(request, self._profile, self.losses, refused=_NO_FIELD)
        self._platform()
        body["include"] = self._include(toolset)
        body["store"] = False
        body["stream"] = request.stream
        self._extensions()
        if request.stop:
            self._lose("stop_emulated", "stop")
        return encode(body)

    def _lose(self, code: str, meaning: str, detail: str = "") -> None:
        self.losses.append(Loss(code, path_of(self._request, meaning), detail))

    def _agree(self, toolset: Toolset) -> ReasoningSettings:
        """Return the thinking to ask for; an upstream may refuse it beside a forced tool."""
        thinking, weak = thinking_beside_choice(
            self._request, self._profile, self.losses, forced=toolset.forced
        )
        if weak:
            toolset.choice = "auto"
        return thinking

    # --- the conversation -----------------------------------------------------------------------

    def _history(self) -> None:
        request, target = self._request, self._target
        normalized = normalize_history(
            request.turns, self.losses, strict=target.strict, repair=target.repair_history
        )
        turns = [*place_instructions(normalized, self._profile, self.losses)]
        self._prefill(turns)
        relayed = request.dialect == "responses"
        encoder = HistoryWriter(target, self.losses, native=self._native, relayed=relayed)
        system = [part for part in request.system if part.text]
        system += [TextPart(text) for text in self._instructions]
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
        self.losses.append(go_on_loss(self._request, self._target))
        turns.append(Turn(Role.USER, (TextPart(GO_ON),), path=turns[-1].path))

    # --- settings -------------------------------------------------------------------------------

    def _text_settings(self) -> dict[str, object]:
        request, profile = self._request, self._profile
        settings: dict[str, object] = {}
        kind = output_format(request, profile, self._instructions, self.losses)
        if kind == "json_schema" and request.format.schema is not None:
            settings["format"] = self._schema_format(request.format, request.format.schema)
        elif kind == "json_object":
            settings["format"] = {"type": kind}
        if request.verbosity and profile.supports_verbosity:
            settings["verbosity"] = request.verbosity
        elif request.verbosity:
            self._lose("field_dropped", "verbosity")
        return settings

    def _schema_format(self, wanted: OutputFormat, schema: Raw) -> dict[str, object]:
        if self._request.dialect != "responses":
            schema = without_meta(schema)
        path = path_of(self._request, "format")
        form: dict[str, object] = {
            "type": "json_schema",
            "name": wanted.name or "output",
            "schema": fitted_schema(schema, self._profile, self.losses, path=path),
        }
        strict = strict_output(wanted, schema, self._profile)
        if strict is not None:
            form["strict"] = strict
        if wanted.description:
            form["description"] = wanted.description
        return form

    def _platform(self) -> None:
        """Fields of OpenAI's platform, for upstreams that have it."""
        request, profile, body = self._request, self._profile, self._body
        native = request.dialect == "responses"
        user_id = user_id_for(request, profile, self.losses, native=native)
        if user_id:
            body[profile.user_field] = user_id
        if request.cache_key and profile.supports_cache_key:
            body["prompt_cache_key"] = request.cache_key
        if request.tier and profile.supports_store:
            body["service_tier"] = request.tier
        elif request.tier not in ("", "auto", "default"):
            self._lose("field_dropped", "tier")
        if request.metadata is not None and profile.supports_store:
            body["metadata"] = request.metadata
        if request.logprobs and profile.supports_logprobs:
            if request.top_logprobs is not None:
                body["top_logprobs"] = request.top_logprobs
        elif request.logprobs:
            self._lose("logprobs_dropped", "logprobs")

    def _include(self, toolset: Toolset) -> list[str]:
        request = self._request
        include = [_ENCRYPTED]
        if request.logprobs and self._profile.supports_logprobs:
            include.append(_LOGPROBS)
        if self._native:
            include += [one for one in request.include if one not in (_ENCRYPTED, _LOGPROBS)]
        # Without being asked, the vendor shows neither what a search found nor what code printed.
        if request.dialect != "responses":
            include += [_SHOWN[does] for does in toolset.runs if does in _SHOWN]
        return include

    def _extensions(self) -> None:
        """Add the other fields of a Responses client, or report those of another client; add those of the profile."""
        request = self._request
        if request.dialect == "responses":
            for name, raw in request.extensions.items():
                self._body.setdefault(name, raw)
        else:
            report_foreign_fields(request, self.losses)
        for name, value in self._profile.extra_fields:
            self._body.setdefault(name, Raw(value.encode()))


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
    """Return whether a request holds tools, or calls of tools, that the upstream does not take."""
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
    losses: list[Loss] = []
    fitted: dict[str, Raw] = {}
    if any(not _fits(tool, target.profile) for tool in request.tools):
        fitted |= _declared(fields, request, target.profile, losses)
    given = fields.get("input", _NULL)
    if bytes(given).startswith(b"["):
        items = entries_of(given)
        written = _history(items, target, losses)
        if written is not None:
            fitted["input"] = Raw(encode(written))
    if target.strict:
        refuse_losses(losses)
    return fitted, tuple(losses)


def _fits(tool: Tool, profile: Profile) -> bool:
    if tool.server:
        runs = profile.runs(tool.does or ServerKind.OTHER, "responses")
        mcp = tool.does is ServerKind.MCP
        return runs and not (mcp and mcp_obstacle(tool, "responses", profile))
    return tool.flavor is Flavor.FUNCTION and not tool.namespace


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass, and the choice."""
    ToolTable.of(request.tools)
    by_entry: dict[str, list[Tool]] = {}
    for tool in request.tools:
        by_entry.setdefault(tool.path.partition("]")[0], []).append(tool)
    audience = Audience(profile, native=False, namespaces=())
    out: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tools = by_entry.get(f"$.tools[{at}", [])
        if tools and all(_fits(tool, profile) for tool in tools):
            out.append(raw)
            continue
        defined = define(tuple(tools), audience)
        losses += defined.losses
        out += entries_of(defined.json)
    fitted = {"tools": Raw(encode(out)) if out else _NULL}
    choice = fields.get("tool_choice", _NULL)
    if choice != _NULL and not (out and bytes(choice).startswith(b'"')):
        # The tools were reported above; only what concerns the choice is still to be reported.
        own: list[Loss] = []
        toolset = Toolset(request, profile, own, native=False)
        losses += [one for one in own if one.path.startswith("$.tool_choice")]
        fitted["tool_choice"] = _NULL if toolset.choice is None else Raw(encode(toolset.choice))
    return fitted


def _history(items: list[Raw], target: Target, losses: list[Loss]) -> list[Raw] | None:
    """Return the items with calls of such tools as calls of functions; None: there are none."""
    kinds = [_kind(item) for item in items]
    calls = [at for at, (kind, space) in enumerate(kinds) if kind in _CALLS or space]
    hosted = [
        at
        for at, (kind, _) in enumerate(kinds)
        if kind.endswith("_call")
        and kind not in ("function_call", *_CALLS)
        and not target.profile.runs(kind_of(kind.removesuffix("_call")), "responses")
    ]
    if not calls and not hosted:
        return None
    written = dict(zip(calls, _rewritten([items[at] for at in calls], target, losses), strict=True))
    out: list[Raw] = []
    for at, item in enumerate(items):
        if at in written:
            out.append(written[at])
        elif at in hosted:
            out += _rewritten([item], target, losses)
        else:
            out.append(item)
    return out


def _kind(item: Raw) -> tuple[str, str]:
    try:
        given = _ITEM.decode(item)
    except msgspec.DecodeError:
        return "", ""
    return given.type or "", given.namespace or ""


def _rewritten(items: list[Raw], target: Target, losses: list[Loss]) -> list[Raw]:
    """Return items of the history as an upstream without the dialect's own tools takes them."""
    if not items:
        return []
    body = encode({"model": "", "input": items})
    turns = decode_request(body, sealer=None, limits=target.limits).turns
    encoded = HistoryWriter(target, losses, native=False, relayed=True).encode(turns)
    return entries_of(Raw(encode(encoded)))
