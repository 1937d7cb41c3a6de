"""Requests, both ways: a client's into the turn language, and any client's for a Messages upstream."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw, structs

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.billing import without_billing
from dragoman.dialects.anthropic.content import cache_hint, decode_messages, text_part
from dragoman.dialects.anthropic.history import History
from dragoman.dialects.anthropic.marks import mark_of, marks_of
from dragoman.dialects.anthropic.thinking import Plan, decode_thinking, encode_thinking
from dragoman.dialects.anthropic.toolbox import Toolbox
from dragoman.dialects.anthropic.tools import TOOL_LISTS, decode_choice, without_deferred
from dragoman.dialects.decoding import check_messages, check_size, decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.strictness import refuse_losses
from dragoman.errors import Malformed, Untranslatable
from dragoman.exchange import EncodedRequest, Target
from dragoman.limits import Limits
from dragoman.opaque import Sealer
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    OutputFormat,
    Part,
    ReasoningPart,
    ReasoningWish,
    Request,
    Sampling,
    TextPart,
    Tool,
)

_NO_CONFIG: Final = schema.OutputConfig()
_BODY: Final = msgspec.json.Decoder(schema.Request)
_RAW_MESSAGES: Final = msgspec.json.Decoder(schema.RawMessages)

_TIERS: Final = {"auto": "auto", "standard_only": "default"}
_SERVICE_TIERS: Final = {tier: name for name, tier in _TIERS.items()}
_SAMPLING_WITH_THINKING: Final = 0.95  # the least `top_p` that goes with thinking
_JSON_ONLY: Final = "Respond with a single JSON object and nothing else."

# Fields of other dialects that ask for nothing, and those whose wish has been understood.
_NOTHING: Final = frozenset({b"null", b"false", b"[]", b"{}", b'""', b'["text"]'})
_WISHES: Final = frozenset(
    {"reasoning", "thinking", "chat_template_kwargs", "enable_thinking", "thinking_budget"}
)

# Losses of this dialect's own that a strict target takes.
_HARMLESS: Final = frozenset({"max_tokens_defaulted"})


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a client's request.

    Raises:
        Malformed: it is not of the dialect; carries the path.
        TooLarge: it passes a limit, which the error names.
    """
    check_size(body, limits)
    losses: list[Loss] = []
    wire, messages, declared = _decode_body(body)  # tools only if they are known
    check_messages(len(messages), limits)
    turns, found = decode_messages(messages, sealer, losses)
    if declared is None:
        declared = TOOL_LISTS.read(wire.tools, body) if wire.tools else ()
    choice = None if wire.tool_choice is None else decode_choice(wire.tool_choice, declared)
    # Most requests say little: what is not there is passed over without a call.
    reasoning, form = _NO_WISH, wire.output_format
    if wire.thinking is not None or wire.output_config is not None:
        config = wire.output_config or _NO_CONFIG
        reasoning = decode_thinking(wire.thinking, config.effort, losses)
        form = config.format or form
    return Request(
        dialect="anthropic",
        model=wire.model,
        stream=bool(wire.stream),
        system=_decode_system(wire.system),
        turns=turns,
        tools=without_deferred(declared, found),
        tool_choice=choice,
        parallel=None if wire.tool_choice is None else _parallel(wire.tool_choice),
        max_output=wire.max_tokens,
        sampling=_NO_WISHES
        if wire.temperature is wire.top_p is wire.top_k is None
        else Sampling(temperature=wire.temperature, top_p=wire.top_p, top_k=wire.top_k),
        stop=tuple(wire.stop_sequences) if wire.stop_sequences else (),
        reasoning=reasoning,
        format=_PLAIN_TEXT
        if form is None
        else OutputFormat(kind="json_schema", schema=form.schema),
        user_id=(wire.metadata.user_id or "") if wire.metadata is not None else "",
        tier="" if wire.speed is wire.service_tier is None else _decode_tier(wire),
        cache_all=None if wire.cache_control is None else cache_hint(wire.cache_control),
        extensions=_decode_extensions(wire),
        losses=tuple(losses),
    )


def _decode_body(
    body: bytes,
) -> tuple[schema.Request, Sequence[schema.Message | schema.RawMessage], tuple[Tool, ...] | None]:
    """Decode in one go; only a conversation with blocks of rare types is looked at block by block."""
    beside = TOOL_LISTS.decode_beside(_BODY, body, _tools_of)
    if beside is not None:
        wire, _, tools = beside
        return wire, wire.messages, tools
    messages: Sequence[schema.Message | schema.RawMessage]
    try:
        wire = decode(_BODY, body)
        messages = wire.messages
    except Malformed as error:
        if not error.path.startswith("$.messages["):
            raise
        messages = decode(_RAW_MESSAGES, body).messages
        emptied = decode(_FIELDS, body)
        emptied["messages"] = Raw(b"[]")
        wire = decode(_BODY, encode(emptied))
    return wire, messages, None


_NO_WISHES: Final = Sampling()
_NO_WISH: Final = ReasoningWish()
_PLAIN_TEXT: Final = OutputFormat()
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_tools_of: Final = attrgetter("tools")
_extensions_of: Final = attrgetter(*schema.EXTENSIONS)
_NO_EXTENSIONS: Final = (schema.NO_RAW,) * len(schema.EXTENSIONS)


def _decode_system(system: str | list[schema.TextBlock] | None) -> tuple[TextPart, ...]:
    if not system:
        return ()
    if isinstance(system, str):
        rest = without_billing(system)
        return (TextPart(rest),) if rest is system or rest.strip() else ()
    first = system[0]
    rest = without_billing(first.text)
    if rest is not first.text:
        others = system[1:]
        system = [structs.replace(first, text=rest), *others] if rest.strip() else others
    return tuple([text_part(block) for block in system if block.text])


def _decode_tier(wire: schema.Request) -> str:
    if wire.speed == "fast":
        return "fast"
    return _TIERS.get(wire.service_tier or "", "")


def _parallel(choice: schema.ToolChoice) -> bool | None:
    serial = choice.disable_parallel_tool_use
    return None if serial is None else not serial


def _decode_extensions(wire: schema.Request) -> dict[str, Raw]:
    values = _extensions_of(wire)
    if values == _NO_EXTENSIONS:
        return {}
    return {
        name: value
        for name, value in zip(schema.EXTENSIONS, values, strict=True)
        if value and bytes(value) != b"null"
    }


# --- for an upstream -----------------------------------------------------------------------------


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks Messages.

    Raises:
        Malformed: the history does not hold together.
        Untranslatable: the request asks for what this dialect cannot say, or, for a strict target,
            something would be lost.
    """
    encoder = _Encoder(request, target)
    body = encoder.encode()
    if target.strict:
        refuse_losses(encoder.losses, harmless=_HARMLESS)
    return EncodedRequest(body, tuple(encoder.losses))


class _Encoder:
    """Put one request together, field by field."""

    def __init__(self, request: Request, target: Target) -> None:
        self.losses: list[Loss] = []
        self._request = request
        self._target = target
        self._profile = target.profile
        self._marks = marks_of(request, self.losses)
        self._instructions: list[str] = []  # to be added to the system prompt

    def encode(self) -> bytes:
        request = self._request
        self._refuse()
        max_tokens = self._max_tokens()
        history = History(request, self._target, self._marks, self.losses)
        # Marks are handed out in the order in which the upstream reads: tools, system, messages.
        tools, choice = Toolbox(request, self._target, self._marks, self.losses).encode()
        output_format = None if request.format.kind == "text" else self._format(request.format)
        system = self._system(history)
        messages = history.encode()
        plan = encode_thinking(request, self._profile, max_tokens, self.losses)
        plan, choice = self._agree(plan, choice, history)
        body: dict[str, object] = {
            "model": self._target.model or request.model,
            "max_tokens": max_tokens,
        }
        if request.stream:
            body["stream"] = True
        if system:
            body["system"] = system
        body["messages"] = messages
        if tools is not None:
            body["tools"] = tools
        if choice is not None:
            body["tool_choice"] = choice
        if plan.thinking is not None:
            body["thinking"] = plan.thinking
        if plan.effort is not None or output_format is not None:
            body["output_config"] = schema.OutputConfig(plan.effort, output_format)
        if request.stop and (stop := self._stop()):
            body["stop_sequences"] = stop
        if request.user_id:
            body["metadata"] = schema.Metadata(request.user_id)
        if request.cache_all is not None:
            body["cache_control"] = mark_of(request.cache_all)
        if request.tier:
            body |= self._tier(request.tier)
        if request.sampling != _NO_WISHES:
            body |= self._sampling(plan)
        if request.extensions:
            body |= self._extensions()
        for name, value in self._profile.extra_fields:
            body.setdefault(name, Raw(value.encode()))
        return encode(body)

    def _refuse(self) -> None:
        request = self._request
        if request.count > 1:
            reason = "this model gives one answer"
            raise Untranslatable(reason, path=path_of(request, "count"))
        if request.previous_id:
            reason = "the conversation so far is not known here"
            path = path_of(request, "previous_id")
            raise Untranslatable(reason, path=path, code="previous_response_not_found")
        if request.logprobs or request.top_logprobs:
            self._lose("logprobs_dropped", "logprobs")
        if request.verbosity:
            self._lose("field_dropped", "verbosity")
        if request.cache_key:
            self._lose("field_dropped", "cache_key")

    def _lose(self, code: str, meaning: str, detail: str = "") -> None:
        self.losses.append(Loss(code, path_of(self._request, meaning), detail))

    def _max_tokens(self) -> int:
        limit = self._profile.max_output_tokens
        wanted = self._request.max_output
        if wanted is None:
            wanted = self._profile.default_max_output
            wanted = wanted if limit is None else min(wanted, limit)
            self._lose("max_tokens_defaulted", "max_output", str(wanted))
        elif limit is not None and wanted > limit:
            self._lose("value_clamped", "max_output", f"{wanted} became {limit}")
            wanted = limit
        return wanted

    def _system(self, history: History) -> list[schema.TextBlock]:
        parts: tuple[Part, ...] = self._request.system
        for turn in history.leading:
            parts += turn.parts
        blocks = [
            schema.TextBlock(part.text, None, self._marks.take(part.cache))
            for part in parts
            if isinstance(part, TextPart) and part.text.strip()
        ]
        return blocks + [schema.TextBlock(text) for text in self._instructions]

    def _format(self, wanted: OutputFormat) -> schema.Format | None:
        if wanted.kind == "json_object" or wanted.schema is None:
            self._lose("json_object_emulated", "format")
            self._instructions.append(_JSON_ONLY)
            return None
        if self._profile.json_schema == "native":
            return schema.Format("json_schema", wanted.schema)
        self._lose("schema_not_enforced", "format")
        text = bytes(wanted.schema).decode()
        self._instructions.append(f"{_JSON_ONLY} It must match this JSON schema:\n{text}")
        return None

    def _agree(
        self, plan: Plan, choice: schema.ToolChoice | None, history: History
    ) -> tuple[Plan, schema.ToolChoice | None]:
        """Settle what does not go together: thinking, forced tool use, and a history without it."""
        if plan.on and choice is not None and choice.type in ("any", "tool"):
            policy = self._profile.forced_tool_choice_policy
            if policy == "error":
                reason = "tool use cannot be forced while the model thinks"
                raise Untranslatable(reason, path=path_of(self._request, "tool_choice"))
            if policy == "downgrade":
                self._lose("tool_choice_adjusted", "tool_choice", f"{choice.type} became auto")
                serial = choice.disable_parallel_tool_use
                choice = schema.ToolChoice("auto", disable_parallel_tool_use=serial)
            else:
                self._lose("thinking_disabled_by_tool_choice", "thinking")
                plan = plan.off()
        if plan.on and history.lacks_thinking() and self._must_show_thinking(plan):
            self._lose("thinking_disabled_missing_blocks", "thinking")
            plan = plan.off()
        return plan, choice

    def _must_show_thinking(self, plan: Plan) -> bool:
        """Say whether a tool loop without thinking is refused.

        A model that decides for itself may not have thought; but a client of another dialect, or a
        history whose thinking had to be left out, does not tell.
        """
        if plan.by_budget or self._request.dialect != "anthropic":
            return True
        return any(
            isinstance(part, ReasoningPart) for turn in self._request.turns for part in turn.parts
        ) and any(loss.code in ("opaque_dropped", "reasoning_dropped") for loss in self.losses)

    def _sampling(self, plan: Plan) -> dict[str, object]:
        sampling = self._request.sampling
        for name in ("seed", "frequency_penalty", "presence_penalty", "logit_bias"):
            if getattr(sampling, name) is not None:
                self._lose("sampling_dropped", name)
        temperature, top_p, top_k = sampling.temperature, sampling.top_p, sampling.top_k
        if temperature is not None and temperature > 1:
            self._lose("value_clamped", "temperature", f"{temperature} became 1")
            temperature = 1.0
        if self._profile.drop_sampling:
            refused = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
        elif plan.on:
            low = top_p is not None and top_p < _SAMPLING_WITH_THINKING
            hot = temperature is not None and temperature != 1
            refused = {
                "temperature": temperature if hot else None,
                "top_p": top_p if low else None,
                "top_k": top_k,
            }
        else:
            refused = {}
        for name, value in refused.items():
            if value is not None:
                self._lose("sampling_dropped", name)
        given = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
        return {
            name: value
            for name, value in given.items()
            if value is not None and refused.get(name) is None
        }

    def _stop(self) -> list[str]:
        stop = self._request.stop
        kept = [sequence for sequence in stop if sequence.strip()]
        if len(kept) < len(stop):
            self._lose("field_dropped", "stop", "blank stop sequences")
        return kept

    def _tier(self, tier: str) -> dict[str, object]:
        if tier == "fast" and self._request.dialect == "anthropic":
            return {"speed": "fast"}
        if tier not in _SERVICE_TIERS:
            self._lose("field_dropped", "tier", tier)
            return {}
        return {"service_tier": _SERVICE_TIERS[tier]}

    def _extensions(self) -> dict[str, Raw]:
        """Fields of the client's own dialect: given back to this one, lost for the others."""
        request = self._request
        if request.dialect == "anthropic":
            return {name: request.extensions[name] for name in sorted(request.extensions)}
        for name, raw in sorted(request.extensions.items()):
            value = bytes(raw)
            if value in _NOTHING or (name in _WISHES and request.reasoning != ReasoningWish()):
                continue
            if name == "audio" or (name == "modalities" and b"audio" in value):
                raise Untranslatable("this model gives no audio", path=f"$.{name}")
            self.losses.append(Loss("field_dropped", f"$.{name}"))
        return {}
