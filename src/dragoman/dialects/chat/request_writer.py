"""Encodes a `Request` as the body for a Chat Completions upstream."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.chat.history_writer import HistoryWriter
from dragoman.dialects.chat.schema import JsonSchemaOut, SearchCall
from dragoman.dialects.chat.tools_writer import Audience, OutChoice, define, encode_tools
from dragoman.dialects.decoding import decode, entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import (
    NO_SAMPLING,
    fitted_schema,
    is_off,
    output_format,
    output_limit,
    refuse_losses,
    refuse_unsupported,
    report_conversion,
    report_foreign_fields,
    sampling_fields,
    split_stop,
    strict_output,
    user_id_for,
    wanted_effort,
)
from dragoman.dialects.server_tools import accepts_declared
from dragoman.dialects.tool_policy import parallel_flag, thinking_beside_choice
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import without_meta
from dragoman.turn.answer import Answer
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import OutputFormat, ReasoningSettings, Request, ToolCallPart
from dragoman.turn.tools import ToolTable, wire_name
from dragoman.wire.json_values import decode_any, read_float

# --- thinking -------------------------------------------------------------------------------------
# The dialect has one field for it; vendors have their own, and each upstream gets the one it knows.

# Fields of vendors' own, by which Chat clients ask for thinking.
FIELDS: Final = (
    "reasoning",
    "thinking",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking_budget",
)


def encode_reasoning(
    request: Request, thinking: ReasoningSettings, profile: Profile, losses: list[Loss]
) -> dict[str, object]:
    """Return the fields that ask an upstream for the thinking that the client wants."""
    if thinking.mode == "default":
        return {}
    off = is_off(thinking)
    match profile.reasoning_control:
        case "none":
            losses.append(Loss("thinking_dropped", path_of(request, "thinking")))
            return {}
        case "openrouter":
            return {"reasoning": _openrouter(request, thinking, profile, losses)}
        case "thinking_type":
            fields: dict[str, object] = {"thinking": {"type": "disabled" if off else "enabled"}}
            # DeepSeek refuses an effort beside thinking that is off, as a contradiction.
            if not profile.supported_efforts:
                _report_switch(request, thinking, losses)
            elif not off and (effort := wanted_effort(request, thinking, profile, losses)):
                fields["reasoning_effort"] = effort
            return fields
        case "chat_template_kwargs":
            _report_switch(request, thinking, losses)
            return {"chat_template_kwargs": {"enable_thinking": not off}}
        case "enable_thinking":
            if thinking.budget is None or off:
                _report_switch(request, thinking, losses)
                return {"enable_thinking": not off}
            return {"enable_thinking": True, "thinking_budget": thinking.budget}
        case _:
            effort = wanted_effort(request, thinking, profile, losses)
            return {"reasoning_effort": effort} if effort else {}


def _openrouter(
    request: Request, thinking: ReasoningSettings, profile: Profile, losses: list[Loss]
) -> dict[str, object]:
    if is_off(thinking):
        return {"enabled": False}
    if thinking.mode == "budget":
        return {"max_tokens": thinking.budget}
    effort = wanted_effort(request, thinking, profile, losses)
    return {"effort": effort} if effort else {"enabled": True}


def _report_switch(request: Request, thinking: ReasoningSettings, losses: list[Loss]) -> None:
    """Report an effort or a budget for an upstream that can only switch thinking on."""
    if is_off(thinking):
        return
    if thinking.effort:
        report_conversion(request, f"effort {thinking.effort[:40]} became on", losses)
    elif thinking.budget is not None:
        report_conversion(request, f"budget {thinking.budget} became on", losses)


# --- the request ----------------------------------------------------------------------------------

_WITH_USAGE: Final = {"include_usage": True}

_NO_THINKING: Final = "the upstream does not think while it searches"


# --- for an upstream --------------------------------------------------------------------------------


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks Chat Completions.

    Raises:
        MalformedError: the history does not hold together.
        UntranslatableError: the request asks for what this upstream cannot do, or, for a strict target,
            something would be lost.
    """
    encoder = _Encoder(request, target)
    body = encoder.encode()
    if target.strict:
        refuse_losses(encoder.losses)
    return EncodedRequest(body, tuple(encoder.losses), encoder.stop)


class _Encoder:
    """Put one request together, field by field."""

    def __init__(self, request: Request, target: Target) -> None:
        self.losses: list[Loss] = []
        self.stop: tuple[str, ...] = ()  # what the upstream cannot match itself
        self._request = request
        self._target = target
        self._profile = target.profile
        self._native = request.dialect == "chat"
        self._instructions: list[str] = []  # to be added to the system prompt

    def encode(self) -> bytes:
        request = self._request
        ToolTable.of(request.tools)  # refuses two tools of the same name on the wire
        refuse_unsupported(request, many=self._native)
        written = encode_tools(request, self._profile, self.losses)
        tools, choice = written.definitions, written.choice
        form = None if request.format.kind == "text" else self._format()
        thinking = request.reasoning
        if choice is not None:
            thinking, choice = self._agree(choice)
        if written.kimi and not is_off(thinking):
            thinking = self._without_thinking(thinking)
        history = HistoryWriter(request, self._target, self.losses, thinks=thinking.mode != "off")
        messages = history.encode(self._instructions)
        body: dict[str, object] = {
            "model": self._target.model or request.model,
            "messages": messages,
        }
        if tools is not None:
            body["tools"] = tools
            if choice is not None:
                body["tool_choice"] = choice
            parallel = parallel_flag(request, self._profile, self.losses, has_tools=True)
            if parallel is not None:
                body["parallel_tool_calls"] = parallel
        body |= written.fields
        if form is not None:
            body["response_format"] = form
        limit = output_limit(request, self._profile, self.losses)
        if limit is not None:
            body[self._profile.max_tokens_field] = limit
        if request.sampling != NO_SAMPLING:
            body |= self._sampling()
        if request.stop and (stop := self._stop()):
            body["stop"] = stop
        if request.count != 1:
            body["n"] = request.count
        if request.logprobs or request.top_logprobs:
            body |= self._logprobs()
        if thinking.mode != "default":
            body |= self._reasoning(thinking)
        self._platform(body)
        if request.stream:
            body["stream"] = True
            if self._profile.stream_usage:
                body["stream_options"] = _WITH_USAGE
        if request.extensions or self._profile.extra_fields:
            self._extend(body)
        return encode(body)

    def _lose(self, code: str, meaning: str, detail: str = "") -> None:
        self.losses.append(Loss(code, path_of(self._request, meaning), detail))

    # --- sampling -----------------------------------------------------------------------------------

    def _sampling(self) -> dict[str, object]:
        profile = self._profile
        refused = set() if profile.vendor_sampling or self._native else {"top_k"}
        if profile.seed_field == "none":
            refused.add("seed")
        fields = sampling_fields(self._request, profile, self.losses, refused=refused)
        if "seed" in fields and profile.seed_field != "seed":
            fields[profile.seed_field] = fields.pop("seed")
        return fields

    def _stop(self) -> list[str]:
        sent, self.stop = split_stop(self._request, self._profile.max_stop_sequences, self.losses)
        return sent

    def _logprobs(self) -> dict[str, object]:
        if not self._profile.supports_logprobs:
            self._lose("logprobs_dropped", "logprobs")
            return {}
        most = self._request.top_logprobs
        return {"logprobs": True} if most is None else {"logprobs": True, "top_logprobs": most}

    # --- reasoning and tools ------------------------------------------------------------------------

    def _agree(self, choice: OutChoice) -> tuple[ReasoningSettings, OutChoice | None]:
        """Return the thinking and the tool choice for an upstream that may refuse both together."""
        asked = self._request.tool_choice
        forced = asked is not None and asked.mode in ("required", "tool") and choice != "auto"
        thinking, weak = thinking_beside_choice(
            self._request, self._profile, self.losses, forced=forced
        )
        return thinking, "auto" if weak else choice

    def _without_thinking(self, thinking: ReasoningSettings) -> ReasoningSettings:
        """Turn thinking off for a search that the upstream runs only without it."""
        if thinking.mode != "default":
            self._lose("thinking_dropped", "thinking", _NO_THINKING)
        return ReasoningSettings(mode="off")

    def _reasoning(self, thinking: ReasoningSettings) -> dict[str, object]:
        own = [name for name in FIELDS if name in self._request.extensions]
        if self._native and own and self._keeps_own(thinking):
            return {}  # the client's own fields go on as they are
        return encode_reasoning(self._request, thinking, self._profile, self.losses)

    def _keeps_own(self, thinking: ReasoningSettings) -> bool:
        """Return whether a client's own reasoning fields are left as they are."""
        return (
            self._profile.reasoning_control == "reasoning_effort"
            and thinking == self._request.reasoning
        )

    # --- output -------------------------------------------------------------------------------------

    def _format(self) -> dict[str, object] | None:
        wanted = self._request.format
        kind = output_format(self._request, self._profile, self._instructions, self.losses)
        if kind == "json_schema" and wanted.schema is not None:
            return {"type": kind, "json_schema": self._json_schema(wanted, wanted.schema)}
        return None if kind == "text" else {"type": kind}

    def _json_schema(self, wanted: OutputFormat, schema: Raw) -> JsonSchemaOut:
        strict = wanted.strict
        if not self._native:
            schema = without_meta(schema)
            strict = strict_output(wanted, schema, self._profile)
        path = path_of(self._request, "format")
        schema = fitted_schema(schema, self._profile, self.losses, path=path)
        return JsonSchemaOut(wanted.name or "output", wanted.description, schema, strict)

    # --- the platform -------------------------------------------------------------------------------

    def _platform(self, body: dict[str, object]) -> None:
        """Add fields that concern the vendor's platform and not the answer."""
        request, profile = self._request, self._profile
        if request.user_id:
            user_id = user_id_for(request, profile, self.losses, native=self._native)
            if user_id:
                body[profile.user_field] = user_id
        if request.verbosity:
            if profile.supports_verbosity:
                body["verbosity"] = request.verbosity
            else:
                self._lose("field_dropped", "verbosity")
        if request.cache_key and (profile.supports_cache_key or self._native):
            body["prompt_cache_key"] = request.cache_key
        if request.tier:
            if profile.supports_store or self._native:
                body["service_tier"] = request.tier
            elif request.tier not in ("auto", "default"):
                self._lose("field_dropped", "tier")
        if request.store is not None and self._native and (profile.supports_store or request.store):
            body["store"] = request.store
        if request.metadata is not None and (
            self._native or (profile.supports_store and request.store)
        ):
            body["metadata"] = request.metadata

    def _extend(self, body: dict[str, object]) -> None:
        """Add fields without a counterpart in `Request`: a Chat client's other fields, and those of the profile."""
        if not self._native:
            report_foreign_fields(self._request, self.losses)
        else:
            for name, raw in self._request.extensions.items():
                if name not in FIELDS or self._keeps_own(self._request.reasoning):
                    body.setdefault(name, raw)
        for name, value in self._profile.extra_fields:
            body.setdefault(name, Raw(value.encode()))


# --- requests that are relayed to another Chat upstream -------------------------------------------
# The client's bytes pass, but for custom tools and the history's calls of them, which become functions, and for
# searches in the fields of another host.
# `ToolTable` turns the calls of the answer back.

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

_CALLS: Final[msgspec.json.Decoder[list[dict[str, Any]] | None]] = msgspec.json.Decoder(
    list[dict[str, Any]] | None, float_hook=read_float
)

_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Return whether a request holds tools, or calls of them, that the upstream does not take as they are."""
    return _has_foreign(request, profile) or _has_custom(request, profile)


def _has_foreign(request: Request, profile: Profile) -> bool:
    """Return whether a vendor-run tool is declared in another host's fields."""
    return any(tool.server and not accepts_declared(tool, profile) for tool in request.tools)


def _has_custom(request: Request, profile: Profile) -> bool:
    """Return whether there are custom tools, or calls of them, and the upstream takes none."""
    if profile.supports_custom_tools:
        return False
    return any(tool.flavor is Flavor.CUSTOM for tool in request.tools) or any(
        type(part) is ToolCallPart and part.flavor is Flavor.CUSTOM
        for turn in request.turns
        for part in turn.parts
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost; `null` for a field means that it goes."""
    losses: list[Loss] = []
    profile = target.profile
    foreign = _has_foreign(request, profile)
    fitted = _defined(fields, request, profile, losses)
    if _has_custom(request, profile):
        messages = entries_of(fields.get("messages", _NULL))
        fitted["messages"] = Raw(encode([_with_functions(one) for one in messages]))
        choice = bytes(fields.get("tool_choice", _NULL))
        if choice.startswith(b"{"):
            fitted["tool_choice"] = Raw(encode(_choice(choice)))
    if foreign and request.tool_choice is not None:
        # The tools were reported above; only what concerns the choice is still to be reported.
        own: list[Loss] = []
        chosen = encode_tools(request, profile, own).choice
        losses += [one for one in own if one.path.startswith("$.tool_choice")]
        fitted["tool_choice"] = _NULL if chosen is None else Raw(encode(chosen))
    if foreign and b'"$web_search"' in bytes(fitted.get("tools", _NULL)):
        fitted |= _without_thinking(fields, request, profile, losses)
    return fitted, tuple(losses)


def _without_thinking(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the fields that turn thinking off for Moonshot's search, which runs only without it."""
    if is_off(request.reasoning):
        return {}
    if request.reasoning.mode != "default":
        losses.append(Loss("thinking_dropped", path_of(request, "thinking"), _NO_THINKING))
    off = encode_reasoning(request, ReasoningSettings(mode="off"), profile, losses)
    gone = {name: _NULL for name in (*FIELDS, "reasoning_effort") if name in fields}
    return gone | {name: Raw(encode(value)) for name, value in off.items()}


def _defined(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the fields that declare tools, keeping the client's bytes of those that pass."""
    changed = {
        tool.path: tool
        for tool in request.tools
        if (tool.flavor is Flavor.CUSTOM and not profile.supports_custom_tools)
        or (tool.server and not accepts_declared(tool, profile))
    }
    fitted: dict[str, Raw] = {}
    tools: list[Raw] = []
    more: dict[str, object] = {}
    audience = Audience(profile, native=True, needed=bool(request.needed_tools))
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tool = changed.pop(f"$.tools[{at}]", None)
        if tool is None:
            tools.append(raw)
            continue
        defined = define((tool,), audience)
        losses += defined.losses
        tools += entries_of(defined.json)
        more |= defined.fields
    for tool in changed.values():  # searches that a field asks for
        defined = define((tool,), audience)
        losses += defined.losses
        # The list may hold them already, if its schemas were rewritten.
        tools += [one for one in entries_of(defined.json) if one not in tools]
        more |= defined.fields
        if tool.path != "$.model":
            fitted[tool.path.removeprefix("$.")] = _NULL
    if tools or "tools" in fields:
        fitted["tools"] = Raw(encode(tools)) if tools else _NULL
    return fitted | {name: Raw(encode(value)) for name, value in more.items()}


def _with_functions(message: Raw) -> Raw:
    """Return a message whose custom calls are calls of functions; the same bytes if it has none."""
    if b'"custom"' not in bytes(message):
        return message
    fields = decode(_FIELDS, message)
    calls = decode(_CALLS, fields.get("tool_calls", _NULL)) or []
    if not any(call.get("type") == "custom" for call in calls):
        return message
    fields["tool_calls"] = Raw(encode([_as_function(call) for call in calls]))
    return Raw(encode(fields))


def _as_function(call: dict[str, Any]) -> dict[str, Any]:
    custom = call.get("custom")
    if call.get("type") != "custom" or not isinstance(custom, dict):
        return call
    arguments = encode({"input": custom.get("input") or ""}).decode()
    function = {"name": wire_name(str(custom.get("name") or "")), "arguments": arguments}
    rest = {name: value for name, value in call.items() if name != "custom"}
    return rest | {"type": "function", "function": function}


def _choice(given: bytes) -> dict[str, Any]:
    """Return a choice that names functions where it named custom tools."""
    choice: dict[str, Any] = decode_any(given)
    allowed = choice.get("allowed_tools")
    if isinstance(allowed, dict) and isinstance(allowed.get("tools"), list):
        named = [_reference(one) for one in allowed["tools"]]
        return choice | {"allowed_tools": allowed | {"tools": named}}
    return _reference(choice)


def _reference(one: dict[str, Any]) -> dict[str, Any]:
    custom = one.get("custom")
    if one.get("type") != "custom" or not isinstance(custom, dict):
        return one
    return {"type": "function", "function": {"name": wire_name(str(custom.get("name") or ""))}}


# --- answers that are paused ------------------------------------------------------------------------


_ECHOED: Final = msgspec.json.Decoder(SearchCall)


def continue_request(body: bytes, answer: Answer) -> bytes:
    """Return the request that lets Moonshot run the searches of a paused answer.

    The search runs when its call comes back as it was, with its arguments as the result, to the byte.  A tool that the
    request forces was used by then.
    """
    fields = decode(_FIELDS, body)
    calls = [block.raw for block in answer.blocks if block.vendor == "kimi"]
    paused: dict[str, object] = {"role": "assistant", "content": answer.text, "tool_calls": calls}
    if answer.reasoning:
        paused["reasoning_content"] = answer.reasoning
    results = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "name": call.function.name,
            "content": call.function.arguments,
        }
        for call in map(_ECHOED.decode, calls)
    ]
    messages = entries_of(fields.get("messages", _NULL))
    fields["messages"] = Raw(encode([*messages, paused, *results]))
    if fields.get("tool_choice") == Raw(b'"required"'):
        fields["tool_choice"] = Raw(b'"auto"')
    return encode(fields)
