"""Encodes a `Request` as the body for a Messages upstream."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_writer import History, mark_of, marks_of
from dragoman.dialects.anthropic.tools_writer import Audience, Toolbox, define
from dragoman.dialects.decoding import decode, entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import effort_of
from dragoman.dialects.strictness import refuse_losses
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.losses import Loss
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

# --- thinking -------------------------------------------------------------------------------------

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

MIN_BUDGET: Final = 1024  # the vendor refuses less

_MAX_BUDGET: Final = 64_000

# An effort as a budget of tokens.  "max" takes all there is.
_BUDGETS: Final[dict[str, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": _MAX_BUDGET,
}

_USUAL_EFFORT: Final = "high"  # what a model that decides for itself goes by

_DISPLAY: Final = {"summary": "summarized", "none": "omitted"}


class Plan(Struct, frozen=True):
    """What is asked of the upstream."""

    thinking: schema.Thinking | None = None
    effort: str | None = None

    @property
    def on(self) -> bool:
        """The upstream is asked to think."""
        return self.thinking is not None and self.thinking.type in ("enabled", "adaptive")

    @property
    def by_budget(self) -> bool:
        return self.thinking is not None and self.thinking.type == "enabled"

    def off(self) -> "Plan":
        """Return the plan of not thinking."""
        return Plan(schema.Thinking("disabled"))


def encode_thinking(
    request: Request, profile: Profile, max_tokens: int, losses: list[Loss]
) -> Plan:
    """Return how the client's wish is said to this upstream."""
    wish = request.reasoning
    effort = wish.effort
    if effort and effort not in EFFORTS:
        losses.append(Loss("effort_adjusted", path_of(request, "thinking"), f"unknown: {effort}"))
        effort = _USUAL_EFFORT
    if wish.mode == "default":
        return Plan()
    if profile.reasoning_control == "none":
        if wish.mode != "off":
            losses.append(Loss("thinking_dropped", path_of(request, "thinking")))
        return Plan()
    if wish.mode == "off" or effort == "none":
        return Plan(schema.Thinking("disabled"))
    if wish.mode == "effort" and request.dialect == "anthropic" and wish.budget is None:
        # A Messages client that names an effort alone does not ask for thinking.
        return Plan(None, _supported(effort, request, profile, losses))
    display = _DISPLAY.get(wish.show)
    adaptive = profile.reasoning_control == "adaptive" or (
        profile.reasoning_control != "budget" and wish.mode == "auto"
    )
    if adaptive:
        if wish.mode == "budget":
            effort = effort_of(wish.budget or 0)
        said = _supported(effort, request, profile, losses) if effort else None
        return Plan(schema.Thinking("adaptive", display=display), said)
    if wish.mode == "budget":
        budget = wish.budget or MIN_BUDGET
    else:
        budget = _BUDGETS[effort or _USUAL_EFFORT]
    shown = display if request.dialect == "anthropic" else None
    return _within(budget, max_tokens, request, losses, shown, exact=wish.mode == "budget")


def _within(  # noqa: PLR0913 -- the budget, its bounds, and where to complain
    budget: int,
    max_tokens: int,
    request: Request,
    losses: list[Loss],
    display: str | None,
    *,
    exact: bool,
) -> Plan:
    """Bring a budget between the vendor's least and the output limit, which is not raised for it."""
    path = path_of(request, "thinking")
    if max_tokens <= MIN_BUDGET:
        losses.append(Loss("thinking_dropped", path, f"an output limit of {max_tokens} tokens"))
        return Plan()
    bounded = max(MIN_BUDGET, min(budget, max_tokens - 1))
    if exact and bounded != budget:
        losses.append(Loss("value_clamped", path, f"budget {budget} became {bounded}"))
    return Plan(schema.Thinking("enabled", budget_tokens=bounded, display=display))


def _supported(effort: str, request: Request, profile: Profile, losses: list[Loss]) -> str | None:
    """Return the nearest effort that the upstream knows: the next lower one, else the next higher."""
    known = [one for one in profile.supported_efforts if one in EFFORTS and one != "none"]
    if effort in known or not known:
        return effort
    rank = EFFORTS.index(effort)
    lower = [one for one in known if EFFORTS.index(one) < rank]
    nearest = max(lower, key=EFFORTS.index) if lower else min(known, key=EFFORTS.index)
    losses.append(
        Loss("effort_adjusted", path_of(request, "thinking"), f"{effort} became {nearest}")
    )
    return nearest


# --- the request ----------------------------------------------------------------------------------

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

_NO_WISHES: Final = Sampling()


# --- for an upstream -----------------------------------------------------------------------------


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks Messages.

    Raises:
        MalformedError: the history does not hold together.
        UntranslatableError: the request asks for what this dialect cannot say, or, for a strict target,
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
            raise UntranslatableError(reason, path=path_of(request, "count"))
        if request.previous_id:
            reason = "the conversation so far is not known here"
            path = path_of(request, "previous_id")
            raise UntranslatableError(reason, path=path, code="previous_response_not_found")
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
                raise UntranslatableError(reason, path=path_of(self._request, "tool_choice"))
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
                raise UntranslatableError("this model gives no audio", path=f"$.{name}")
            self.losses.append(Loss("field_dropped", f"$.{name}"))
        return {}


# --- requests that are relayed to another Messages upstream ---------------------------------------
# The client's bytes pass, but for what the profile says is not taken there: the vendor's tools, and ways to
# ask for thinking.

_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw] | None]] = msgspec.json.Decoder(
    dict[str, Raw] | None
)

_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds tools, or asks for thinking in a way, that the upstream does not take."""
    return _misfits_in_thinking(request, profile) or any(
        tool.kind and not _fits(tool, profile) for tool in request.tools
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost; `null` for a field means that it goes.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    losses: list[Loss] = []
    fitted: dict[str, Raw] = {}
    if any(tool.kind and not _fits(tool, target.profile) for tool in request.tools):
        fitted |= _declared(fields, request, target.profile, losses)
    if _misfits_in_thinking(request, target.profile):
        fitted |= _thinking(fields, request, target.profile, losses)
    return fitted, tuple(losses)


def _fits(tool: Tool, profile: Profile) -> bool:
    return profile.vendor_tools or (tool.server and profile.runs(tool.kind, "anthropic"))


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass."""
    misfitting = {
        tool.path: tool for tool in request.tools if tool.kind and not _fits(tool, profile)
    }
    out: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tool = misfitting.get(f"$.tools[{at}]")
        if tool is None:
            out.append(raw)
            continue
        defined = define((tool,), Audience(profile, 0))
        losses += defined.losses
        out += [] if defined.json is None else entries_of(defined.json)
    choice = request.tool_choice
    if choice is not None and choice.mode == "required" and not out:
        reason = "tool use is forced, and none of the tools is available at the target"
        raise UntranslatableError(reason, path="$.tool_choice", code="unsupported_tool")
    return {"tools": Raw(encode(out)) if out else _NULL}


def _misfits_in_thinking(request: Request, profile: Profile) -> bool:
    mode = request.reasoning.mode
    if profile.reasoning_control == "none":
        return mode in ("auto", "budget")
    return profile.reasoning_control == "budget" and mode == "auto"


def _thinking(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return `thinking` as the upstream takes it, without an effort that goes with another way."""
    most = request.max_output or profile.default_max_output
    plan = encode_thinking(request, profile, most, losses)
    fitted = {"thinking": _NULL if plan.thinking is None else Raw(encode(plan.thinking))}
    config = decode(_FIELDS, fields.get("output_config", _NULL)) or {}
    if "effort" in config:
        del config["effort"]
        fitted["output_config"] = Raw(encode(config)) if config else _NULL
    return fitted
