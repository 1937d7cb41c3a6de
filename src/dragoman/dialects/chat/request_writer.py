"""Encodes a `Request` as the body for a Chat Completions upstream."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.chat.history_writer import Messages, plain_messages
from dragoman.dialects.chat.schema import EMPTY
from dragoman.dialects.chat.tools_writer import Audience, OutChoice, define, encode_tools
from dragoman.dialects.decoding import decode, entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import effort_of
from dragoman.dialects.strictness import refuse_losses
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import OutputFormat, ReasoningWish, Request, Sampling, ToolCallPart
from dragoman.turn.tools import ToolTable, wire_name
from dragoman.wire.json_values import decode_any, read_float

# --- reasoning effort -----------------------------------------------------------------------------
# The dialect has one field for it; vendors have their own, and each upstream is told in the one it knows.

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

# Fields by which vendors take the client's wish.
FIELDS: Final = (
    "reasoning",
    "thinking",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking_budget",
)


def encode_wish(
    request: Request, wish: ReasoningWish, profile: Profile, losses: list[Loss]
) -> dict[str, object]:
    """Return the fields that tell an upstream of the client's wish."""
    if wish.mode == "default":
        return {}
    path = path_of(request, "thinking")
    off = wish.mode == "off" or wish.effort == "none"
    effort = "none" if off else _effort(wish, path, losses)
    match profile.reasoning_control:
        case "none":
            losses.append(Loss("thinking_dropped", path))
            return {}
        case "openrouter":
            return {"reasoning": _openrouter(wish, effort, profile, path, losses)}
        case "thinking_type":
            fields: dict[str, object] = {"thinking": {"type": "disabled" if off else "enabled"}}
            # An effort beside thinking that is off is refused as a contradiction.
            if effort and not off and profile.supported_efforts:
                fields["reasoning_effort"] = _nearest(effort, profile, path, losses)
            return fields
        case "chat_template_kwargs":
            return {"chat_template_kwargs": {"enable_thinking": not off}}
        case "enable_thinking":
            budget = {} if off or wish.budget is None else {"thinking_budget": wish.budget}
            return {"enable_thinking": not off, **budget}
        case _:
            if not effort:
                return {}
            return {"reasoning_effort": _nearest(effort, profile, path, losses)}


def _openrouter(
    wish: ReasoningWish, effort: str, profile: Profile, path: str, losses: list[Loss]
) -> dict[str, object]:
    if effort == "none":
        return {"enabled": False}
    if wish.mode == "budget":
        return {"max_tokens": wish.budget}
    return {"effort": _nearest(effort, profile, path, losses)} if effort else {"enabled": True}


def _effort(wish: ReasoningWish, path: str, losses: list[Loss]) -> str:
    """Return the effort that the wish names or amounts to; empty: the model shall decide."""
    if wish.effort:
        if wish.effort in EFFORTS:
            return wish.effort
        losses.append(Loss("effort_adjusted", path, f"unknown: {wish.effort}"))
        return "high"
    if wish.budget is None:
        return ""
    return effort_of(wish.budget)


def _nearest(effort: str, profile: Profile, path: str, losses: list[Loss]) -> str:
    """Return the nearest effort that the upstream knows: the next lower one, else the next higher."""
    known = [one for one in profile.supported_efforts if one in EFFORTS]
    if effort in known or not known:
        return effort
    rank = EFFORTS.index(effort)
    lower = [one for one in known if one != "none" and EFFORTS.index(one) < rank]
    higher = [one for one in known if EFFORTS.index(one) > rank]
    nearest = max(lower, key=EFFORTS.index) if lower else min(higher or known, key=EFFORTS.index)
    losses.append(Loss("effort_adjusted", path, f"{effort} became {nearest}"))
    return nearest


# --- the request ----------------------------------------------------------------------------------

_NO_WISHES: Final = Sampling()

_WITH_USAGE: Final = {"include_usage": True}

_JSON_ONLY: Final = "Respond with a single JSON object and nothing else."

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_.@:-]{1,64}")

_NOTHING: Final = frozenset({b"null", b"false", b"[]", b"{}", b'""'})

# Fields of other dialects without which an answer would not be what was asked for.
_NEEDED: Final = frozenset({"container", "mcp_servers", "thread", "compaction", "audio"})

# Losses of this dialect's own that a strict target takes.
_HARMLESS: Final = frozenset(
    {
        "content_flattened",
        "empty_content_filled",
        "reasoning_filled",
        "refusal_as_text",
        "schema_rewritten",
        "stop_emulated",
        "tool_image_moved",
    }
)


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
        refuse_losses(encoder.losses, harmless=_HARMLESS)
    return EncodedRequest(body, tuple(encoder.losses), encoder.stop)


class _SchemaOut(Struct, omit_defaults=True):
    name: str
    description: str = ""
    schema: Raw = EMPTY
    strict: bool | None = None


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
        self._refuse()
        tools, choice, search = encode_tools(request, self._profile, self.losses)
        output_format = None if request.format.kind == "text" else self._format(request.format)
        wish = request.reasoning
        if choice is not None:
            wish, choice = self._agree(choice)
        messages = plain_messages(request, self._profile, self._instructions, self.losses)
        if messages is None:
            messages = Messages(request, self._target, self.losses).encode(
                self._instructions, thinks=wish.mode != "off"
            )
        body: dict[str, object] = {
            "model": self._target.model or request.model,
            "messages": messages,
        }
        if tools is not None:
            body["tools"] = tools
            if choice is not None:
                body["tool_choice"] = choice
            if request.parallel is not None:
                body |= self._parallel(parallel=request.parallel)
        if search is not None:
            body["web_search_options"] = search
        if output_format is not None:
            body["response_format"] = output_format
        if request.max_output is not None:
            limit, most = request.max_output, self._profile.max_output_tokens
            if most is not None and limit > most:
                self._lose("value_clamped", "max_output", f"{limit} became {most}")
                limit = most
            body[self._profile.max_tokens_field] = limit
        if request.sampling != _NO_WISHES:
            body |= self._sampling()
        if request.stop and (stop := self._stop()):
            body["stop"] = stop
        if request.count > 1:
            body["n"] = request.count
        if request.logprobs or request.top_logprobs:
            body |= self._logprobs()
        if wish.mode != "default":
            body |= self._reasoning(wish)
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

    def _refuse(self) -> None:
        request = self._request
        ToolTable.of(request.tools)  # refuses two tools of the same name on the wire
        if request.count > 1 and not self._native:
            raise UntranslatableError("one answer at a time", path=path_of(request, "count"))
        if request.previous_id:
            reason = "the conversation so far is not known here"
            path = path_of(request, "previous_id")
            raise UntranslatableError(reason, path=path, code="previous_response_not_found")
        if request.max_output == 0:
            reason = "an answer of no tokens, to warm a cache, cannot be asked for"
            raise UntranslatableError(reason, path=path_of(request, "max_output"))

    # --- sampling -----------------------------------------------------------------------------------

    def _sampling(self) -> dict[str, object]:
        sampling, profile = self._request.sampling, self._profile
        temperature = sampling.temperature
        if temperature is not None and temperature > profile.max_temperature:
            least = profile.max_temperature
            self._lose("value_clamped", "temperature", f"{temperature} became {least}")
            temperature = least
        refused = {
            "temperature": profile.drop_sampling,
            "top_p": profile.drop_sampling,
            "top_k": not profile.vendor_sampling and not self._native,
            "seed": profile.seed_field == "none",
        }
        given: dict[str, object] = {
            "temperature": temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": sampling.seed,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "logit_bias": sampling.logit_bias,
        }
        taken: dict[str, object] = {}
        for name, value in given.items():
            if value is None:
                continue
            if refused.get(name):
                self._lose("sampling_dropped", name)
            else:
                taken[profile.seed_field if name == "seed" else name] = value
        return taken

    def _stop(self) -> list[str]:
        most = self._profile.max_stop_sequences
        stop = self._request.stop
        if len(stop) > most:
            self._lose("stop_emulated", "stop", f"{len(stop) - most} of {len(stop)}")
            self.stop = stop[most:]
        return list(stop[:most])

    def _logprobs(self) -> dict[str, object]:
        if not self._profile.supports_logprobs:
            self._lose("logprobs_dropped", "logprobs")
            return {}
        most = self._request.top_logprobs
        return {"logprobs": True} if most is None else {"logprobs": True, "top_logprobs": most}

    # --- reasoning and tools ------------------------------------------------------------------------

    def _agree(self, choice: OutChoice) -> tuple[ReasoningWish, OutChoice | None]:
        """Settle what does not go together: forced tool use, and reasoning."""
        wish = self._request.reasoning
        forced = choice not in ("auto", "none")
        if not forced or wish.mode == "off" or self._profile.forced_tool_choice_with_thinking:
            return wish, choice
        match self._profile.forced_tool_choice_policy:
            case "error":
                reason = "tool use cannot be forced while the model thinks"
                raise UntranslatableError(reason, path=path_of(self._request, "tool_choice"))
            case "downgrade":
                self._lose("tool_choice_adjusted", "tool_choice", "forced use became auto")
                return wish, "auto"
            case "disable_thinking":
                self._lose("thinking_disabled_by_tool_choice", "thinking")
                return ReasoningWish(mode="off"), choice

    def _reasoning(self, wish: ReasoningWish) -> dict[str, object]:
        own = [name for name in FIELDS if name in self._request.extensions]
        if self._native and own and self._keeps_own(wish):
            return {}  # the client's own fields go on as they are
        return encode_wish(self._request, wish, self._profile, self.losses)

    def _keeps_own(self, wish: ReasoningWish) -> bool:
        """Say whether a client's own reasoning fields are left as they are."""
        return (
            self._profile.reasoning_control == "reasoning_effort"
            and wish == self._request.reasoning
        )

    def _parallel(self, *, parallel: bool) -> dict[str, object]:
        if self._profile.supports_parallel_flag:
            return {"parallel_tool_calls": parallel}
        if not parallel:
            self._lose("parallel_not_enforced", "parallel")
        return {}

    # --- output -------------------------------------------------------------------------------------

    def _format(self, wanted: OutputFormat) -> dict[str, object] | None:
        able = self._profile.json_schema
        if wanted.kind == "json_object" or wanted.schema is None:
            if able != "instruction":
                return {"type": "json_object"}
            self._lose("json_object_emulated", "format")
            self._instructions.append(_JSON_ONLY)
            return None
        if able == "native":
            return {"type": "json_schema", "json_schema": self._json_schema(wanted, wanted.schema)}
        self._lose("schema_not_enforced", "format")
        text = bytes(wanted.schema).decode()
        self._instructions.append(f"{_JSON_ONLY} It must match this JSON schema:\n{text}")
        return {"type": "json_object"} if able == "json_object" else None

    def _json_schema(self, wanted: OutputFormat, schema: Raw) -> _SchemaOut:
        strict = wanted.strict
        if not self._native:
            schema = without_meta(schema)
            if strict is None and self._profile.supports_strict:
                strict = _is_strict(schema)
        path = path_of(self._request, "format")
        schema = rewrite(schema, self._profile.schema_dialect, path=path)
        return _SchemaOut(wanted.name or "output", wanted.description, schema, strict)

    # --- the platform -------------------------------------------------------------------------------

    def _platform(self, body: dict[str, object]) -> None:
        """Add fields that concern the vendor's platform and not the answer."""
        request, profile = self._request, self._profile
        if request.user_id and profile.user_field != "none":
            body[profile.user_field] = _user_id(request.user_id, native=self._native)
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
        """Add what has no place in the turn language: the client's own fields, and the profile's."""
        for name, raw in self._request.extensions.items():
            if self._native:
                if name not in FIELDS or self._keeps_own(self._request.reasoning):
                    body.setdefault(name, raw)
            elif bytes(raw) in _NOTHING:
                continue
            elif name in _NEEDED:
                raise UntranslatableError(
                    f"`{name}` cannot be carried to the target", path=f"$.{name}"
                )
            else:
                self.losses.append(Loss("field_dropped", f"$.{name}"))
        for name, value in self._profile.extra_fields:
            body.setdefault(name, Raw(value.encode()))


def _user_id(user_id: str, *, native: bool) -> str:
    """Return an id that fits; a longer one, or one with something inside, is known by its digest."""
    if native or _PLAIN_ID.fullmatch(user_id):
        return user_id
    return hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()


class _SchemaFacts(Struct, rename={"closed": "additionalProperties"}):
    closed: bool | dict[str, Raw] = True
    properties: dict[str, Raw] = {}
    required: list[str] = []


_FACTS: Final = msgspec.json.Decoder(_SchemaFacts)


def _is_strict(schema: Raw) -> bool:
    """Say whether a schema keeps the rules of strict output already: closed, and all required."""
    try:
        facts = _FACTS.decode(schema)
    except msgspec.DecodeError:
        return False
    return facts.closed is False and set(facts.required) == set(facts.properties)


# --- requests that are relayed to another Chat upstream -------------------------------------------
# The client's bytes pass, but for custom tools and the history's calls of them, which become functions.
# `ToolTable` turns the calls of the answer back.

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

_CALLS: Final[msgspec.json.Decoder[list[dict[str, Any]] | None]] = msgspec.json.Decoder(
    list[dict[str, Any]] | None, float_hook=read_float
)

_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds custom tools, or calls of them, and the upstream takes none."""
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
    """Return the fields that change, and what is lost."""
    losses: list[Loss] = []
    custom = {tool.path: tool for tool in request.tools if tool.flavor is Flavor.CUSTOM}
    tools: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tool = custom.get(f"$.tools[{at}]")
        if tool is None:
            tools.append(raw)
            continue
        defined = define((tool,), Audience(target.profile, native=True))
        losses += defined.losses
        tools += entries_of(defined.json)
    messages = entries_of(fields.get("messages", _NULL))
    fitted = {"messages": Raw(encode([_with_functions(one) for one in messages]))}
    if tools:
        fitted["tools"] = Raw(encode(tools))
    choice = bytes(fields.get("tool_choice", _NULL))
    if choice.startswith(b"{"):
        fitted["tool_choice"] = Raw(encode(_choice(choice)))
    return fitted, tuple(losses)


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
