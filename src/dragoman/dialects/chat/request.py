"""Requests, both ways: a client's into the turn language, and any client's for a Chat upstream."""

import hashlib
import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.effort import FIELDS as REASONING_FIELDS
from dragoman.dialects.chat.effort import decode_wish, encode_wish
from dragoman.dialects.chat.history import History
from dragoman.dialects.chat.messages import Messages
from dragoman.dialects.chat.request_schema import MESSAGES, REQUEST, RequestIn, ResponseFormat
from dragoman.dialects.chat.schema import EMPTY, is_given
from dragoman.dialects.chat.straight import plain_messages
from dragoman.dialects.chat.toolbox import OutChoice, encode_tools
from dragoman.dialects.chat.tools import TOOL_LISTS, decode_choice, decode_tools
from dragoman.dialects.decoding import check_messages, check_size, decode, decode_at, decode_fields
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.strictness import refuse_losses
from dragoman.errors import Malformed, Untranslatable
from dragoman.exchange import EncodedRequest, Target
from dragoman.limits import Limits
from dragoman.opaque import Sealer
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.loss import Loss
from dragoman.turn.request import OutputFormat, ReasoningWish, Request, Sampling
from dragoman.turn.tools import ToolTable

_PLACED: Final = frozenset(RequestIn.__struct_fields__)
_NO_WISHES: Final = Sampling()
_NO_MESSAGES: Final = Raw(b"[]")
_WITH_USAGE: Final = {"include_usage": True}
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
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


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a client's request.

    Raises:
        Malformed: it is not of the dialect; carries the path.
        TooLarge: it passes a limit, which the error names.
    """
    check_size(body, limits)
    fields, listed = decode_fields(body, TOOL_LISTS)
    given = _decode_settings(fields)
    losses: list[Loss] = []
    history = History(sealer, losses)
    messages = decode_at(MESSAGES, fields["messages"], "$.messages")
    check_messages(len(messages), limits)
    history.read(messages)
    if listed is None:
        listed = TOOL_LISTS.read(fields["tools"], body) if "tools" in fields else ()
    tools = decode_tools(given, listed)
    extensions: dict[str, Raw] = {}
    if not fields.keys() <= _PLACED:
        extensions = {name: raw for name, raw in fields.items() if name not in _PLACED}
    output = OutputFormat()
    if given.response_format is not None:
        if given.response_format.type in _FORMATS:
            output = _decode_format(given.response_format)
        else:
            extensions["response_format"] = fields["response_format"]
    max_output = given.max_completion_tokens
    stop = given.stop
    options = given.stream_options
    return Request(
        dialect="chat",
        model=given.model,
        stream=bool(given.stream),
        system=tuple(history.system),
        turns=tuple(history.turns),
        tools=tools,
        tool_choice=decode_choice(given, tools),
        parallel=given.parallel_tool_calls,
        max_output=given.max_tokens if max_output is None else max_output,
        sampling=_decode_sampling(given),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        count=1 if given.n is None else given.n,
        reasoning=decode_wish(given.reasoning_effort, fields),
        format=output,
        verbosity=given.verbosity or "",
        user_id=given.safety_identifier or given.user or "",
        tier=given.service_tier or "",
        cache_key=given.prompt_cache_key or "",
        logprobs=bool(given.logprobs),
        top_logprobs=given.top_logprobs,
        include_usage=options is not None and bool(options.include_usage),
        store=given.store,
        metadata=given.metadata if is_given(given.metadata) else None,
        extensions=extensions,
        losses=tuple(losses),
    )


def _decode_settings(fields: dict[str, Raw]) -> RequestIn:
    """Decode all but what is large: messages and tools are looked at only once."""
    small = fields.copy()
    small.pop("tools", None)
    if "messages" in small:
        small["messages"] = _NO_MESSAGES
    return decode(REQUEST, encode(small))


def _decode_sampling(given: RequestIn) -> Sampling:
    return Sampling(
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        seed=given.seed,
        frequency_penalty=given.frequency_penalty,
        presence_penalty=given.presence_penalty,
        logit_bias=given.logit_bias if is_given(given.logit_bias) else None,
    )


def _decode_format(given: ResponseFormat) -> OutputFormat:
    asked = given.json_schema
    if given.type != "json_schema":
        return msgspec.convert({"kind": given.type}, OutputFormat)
    if asked is None:
        reason = "a format of type json_schema needs its `json_schema`"
        raise Malformed(reason, path="$.response_format")
    return OutputFormat(
        kind="json_schema",
        name=asked.name,
        description=asked.description or "",
        schema=asked.schema if is_given(asked.schema) else None,
        strict=asked.strict,
    )


# --- for an upstream --------------------------------------------------------------------------------


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks Chat Completions.

    Raises:
        Malformed: the history does not hold together.
        Untranslatable: the request asks for what this upstream cannot do, or, for a strict target,
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
            raise Untranslatable("one answer at a time", path=path_of(request, "count"))
        if request.previous_id:
            reason = "the conversation so far is not known here"
            path = path_of(request, "previous_id")
            raise Untranslatable(reason, path=path, code="previous_response_not_found")
        if request.max_output == 0:
            reason = "an answer of no tokens, to warm a cache, cannot be asked for"
            raise Untranslatable(reason, path=path_of(request, "max_output"))

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
                raise Untranslatable(reason, path=path_of(self._request, "tool_choice"))
            case "downgrade":
                self._lose("tool_choice_adjusted", "tool_choice", "forced use became auto")
                return wish, "auto"
            case "disable_thinking":
                self._lose("thinking_disabled_by_tool_choice", "thinking")
                return ReasoningWish(mode="off"), choice

    def _reasoning(self, wish: ReasoningWish) -> dict[str, object]:
        own = [name for name in REASONING_FIELDS if name in self._request.extensions]
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
                if name not in REASONING_FIELDS or self._keeps_own(self._request.reasoning):
                    body.setdefault(name, raw)
            elif bytes(raw) in _NOTHING:
                continue
            elif name in _NEEDED:
                raise Untranslatable(f"`{name}` cannot be carried to the target", path=f"$.{name}")
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
