"""Encodes a `Request` as the body for a Messages upstream."""

from collections.abc import Mapping
from itertools import groupby
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_writer import HistoryWriter, mark_of, marks_of
from dragoman.dialects.anthropic.tools_writer import Audience, define, encode_tools
from dragoman.dialects.decoding import decode, decode_at, entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.history_policy import REMINDER
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import (
    NO_SAMPLING,
    budget_of,
    is_off,
    known_effort,
    output_format,
    output_limit,
    refuse_losses,
    refuse_unsupported,
    report_conversion,
    report_foreign_fields,
    sampling_fields,
    wanted_effort,
)
from dragoman.dialects.tool_policy import forced_tool_with_thinking, weakened
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    Part,
    ReasoningPart,
    Request,
    TextPart,
    Tool,
)
from dragoman.turn.server_tools import ServerKind

# --- thinking -------------------------------------------------------------------------------------

_MIN_BUDGET: Final = 1024  # Anthropic refuses less

_DISPLAY: Final = {"summary": "summarized", "none": "omitted"}


class Plan(Struct, frozen=True):
    """The settings of a written request that concern thinking."""

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
    """Return how this upstream is asked for the thinking that the client wants."""
    thinking = request.reasoning
    if thinking.mode == "default":
        return Plan()
    if profile.reasoning_control == "none":
        losses.append(Loss("thinking_dropped", path_of(request, "thinking")))
        return Plan()
    if is_off(thinking):
        return Plan(schema.Thinking("disabled"))
    if thinking.mode == "effort" and request.dialect == "anthropic" and thinking.budget is None:
        # A Messages client that names an effort alone does not ask for thinking.
        return Plan(None, wanted_effort(request, thinking, profile, losses))
    display = _DISPLAY.get(thinking.show)
    adaptive = profile.reasoning_control == "adaptive" or (
        profile.reasoning_control != "budget" and thinking.mode == "auto"
    )
    if adaptive:
        effort = wanted_effort(request, thinking, profile, losses)
        return Plan(schema.Thinking("adaptive", display=display), effort or None)
    shown = display if request.dialect == "anthropic" else None
    return _by_budget(request, max_tokens, shown, losses)


def _by_budget(request: Request, max_tokens: int, display: str | None, losses: list[Loss]) -> Plan:
    """Return a budget between Anthropic's least and the output limit, which is not raised for it."""
    thinking, path = request.reasoning, path_of(request, "thinking")
    if max_tokens <= _MIN_BUDGET:
        losses.append(Loss("thinking_dropped", path, f"an output limit of {max_tokens} tokens"))
        return Plan()
    if thinking.mode == "budget" and thinking.budget is not None:
        wanted = thinking.budget
        budget = max(_MIN_BUDGET, min(wanted, max_tokens - 1))
        if budget != wanted:
            losses.append(Loss("value_clamped", path, f"budget {wanted} became {budget}"))
    else:
        effort = known_effort(request, thinking, losses)
        budget = max(_MIN_BUDGET, min(budget_of(effort), max_tokens - 1))
        what = f"effort {effort}" if effort else "adaptive thinking"
        report_conversion(request, f"{what} became budget {budget}", losses)
    return Plan(schema.Thinking("enabled", budget_tokens=budget, display=display))


# --- the request ----------------------------------------------------------------------------------

_SERVICE_TIERS: Final = {tier: name for name, tier in schema.TIERS.items()}

_LEAST_TOP_P: Final = 0.95  # beside thinking


# --- for an upstream -----------------------------------------------------------------------------


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks Messages.

    Raises:
        MalformedError: the history does not hold together.
        UntranslatableError: this dialect has no form for something in the request, or, for a strict target,
            something would be lost.
    """
    encoder = _Encoder(request, target)
    body = encoder.encode()
    if target.strict:
        refuse_losses(encoder.losses)
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
        refuse_unsupported(request, warms_cache=True)
        self._report_unsupported()
        max_tokens = self._max_tokens()
        history = HistoryWriter(request, self._target, self._marks, self.losses)
        # Marks are handed out in the order in which the upstream reads: tools, system, messages.
        written = encode_tools(request, self._target, self._marks, self.losses)
        form = None if request.format.kind == "text" else self._format()
        system = self._system(history)
        messages = history.encode()
        plan = encode_thinking(request, self._profile, max_tokens, self.losses)
        plan, choice = self._agree(plan, written.choice, history)
        body: dict[str, object] = {
            "model": self._target.model or request.model,
            "max_tokens": max_tokens,
        }
        if request.stream:
            body["stream"] = True
        if system:
            body["system"] = system
        body["messages"] = messages
        if written.tools is not None:
            body["tools"] = written.tools
        if written.servers is not None:
            body["mcp_servers"] = written.servers
        if choice is not None:
            body["tool_choice"] = choice
        if plan.thinking is not None:
            body["thinking"] = plan.thinking
        if plan.effort is not None or form is not None:
            body["output_config"] = schema.OutputConfig(plan.effort, form)
        if request.stop and (stop := self._stop()):
            body["stop_sequences"] = stop
        if request.user_id:
            body["metadata"] = schema.Metadata(request.user_id)
        if request.cache_all is not None:
            body["cache_control"] = mark_of(request.cache_all)
        if request.tier:
            body |= self._tier(request.tier)
        if request.sampling != NO_SAMPLING:
            body |= self._sampling(plan)
        if request.extensions:
            body |= self._extensions()
        for name, value in self._profile.extra_fields:
            body.setdefault(name, Raw(value.encode()))
        return encode(body)

    def _report_unsupported(self) -> None:
        """Report settings that the dialect has no field for."""
        request = self._request
        if request.logprobs or request.top_logprobs:
            self._lose("logprobs_dropped", "logprobs")
        if request.verbosity:
            self._lose("field_dropped", "verbosity")
        if request.cache_key:
            self._lose("field_dropped", "cache_key")

    def _lose(self, code: str, meaning: str, detail: str = "") -> None:
        self.losses.append(Loss(code, path_of(self._request, meaning), detail))

    def _max_tokens(self) -> int:
        limit = output_limit(self._request, self._profile, self.losses)
        if limit is None:  # the dialect demands one
            limit, most = self._profile.default_max_output, self._profile.max_output_tokens
            limit = limit if most is None else min(limit, most)
            self._lose("max_tokens_defaulted", "max_output", str(limit))
        return limit

    def _system(self, history: HistoryWriter) -> list[schema.TextBlock]:
        parts: tuple[Part, ...] = self._request.system
        for turn in history.leading:
            parts += turn.parts
        blocks = [
            schema.TextBlock(part.text, None, self._marks.take(part.cache))
            for part in parts
            if isinstance(part, TextPart) and part.text.strip()
        ]
        return blocks + [schema.TextBlock(text) for text in self._instructions]

    def _format(self) -> schema.OutputFormat | None:
        kind = output_format(
            self._request, self._profile, self._instructions, self.losses, json_object=False
        )
        wanted = self._request.format.schema
        return (
            None if kind == "text" or wanted is None else schema.OutputFormat("json_schema", wanted)
        )

    def _agree(
        self, plan: Plan, choice: schema.ToolChoice | None, history: HistoryWriter
    ) -> tuple[Plan, schema.ToolChoice | None]:
        """Return thinking and tool choice as the dialect takes them together.

        Messages refuses thinking beside a forced tool, and beside a tool loop without its thinking blocks.
        """
        asked = self._request.tool_choice
        if plan.on and asked is not None and choice is not None and choice.type in ("any", "tool"):
            if forced_tool_with_thinking(self._request, self._profile, self.losses) == "downgrade":
                weakened(self._request, asked, self.losses)
                serial = choice.disable_parallel_tool_use
                choice = schema.ToolChoice("auto", disable_parallel_tool_use=serial)
            else:
                plan = plan.off()
        if plan.on and history.lacks_thinking() and self._must_show_thinking(plan):
            self._lose("thinking_disabled_missing_blocks", "thinking")
            plan = plan.off()
        return plan, choice

    def _must_show_thinking(self, plan: Plan) -> bool:
        """Return whether a tool loop without thinking is refused.

        A model that decides for itself may not have thought; but the history of a client of another
        dialect, or one whose thinking had to be dropped, does not show whether it did.
        """
        if plan.by_budget or self._request.dialect != "anthropic":
            return True
        return any(
            isinstance(part, ReasoningPart) for turn in self._request.turns for part in turn.parts
        ) and any(loss.code in ("opaque_dropped", "reasoning_dropped") for loss in self.losses)

    def _sampling(self, plan: Plan) -> dict[str, object]:
        sampling = self._request.sampling
        refused = {"seed", "frequency_penalty", "presence_penalty", "logit_bias"}
        if self._profile.drop_sampling:
            refused.add("top_k")
        elif plan.on:
            # With thinking the vendor takes no `top_k`, a temperature of 1 and a `top_p` of 0.95 or more.
            refused.add("top_k")
            if sampling.temperature is not None and sampling.temperature < 1:
                refused.add("temperature")
            if sampling.top_p is not None and sampling.top_p < _LEAST_TOP_P:
                refused.add("top_p")
        return sampling_fields(
            self._request, self._profile, self.losses, refused=refused, max_temperature=1.0
        )

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
        """Return the client's other fields if its dialect is this one; else report them as lost."""
        request = self._request
        if request.dialect == "anthropic":
            return {name: request.extensions[name] for name in sorted(request.extensions)}
        report_foreign_fields(request, self.losses)
        return {}


# The vendor calls tools of MCP servers only for those who ask for its beta.
_MCP_BETA: Final = {"anthropic-beta": "mcp-client-2025-11-20"}


def headers_for(body: bytes) -> Mapping[str, str]:
    """Return headers without which the vendor refuses a body that was written here."""
    return _MCP_BETA if b'"mcp_servers":' in body else {}


# --- requests that are relayed to another Messages upstream ---------------------------------------
# The client's bytes are forwarded, except for what the upstream does not take: the vendor's tools, and some
# ways to ask for thinking.

_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw] | None]] = msgspec.json.Decoder(
    dict[str, Raw] | None
)

_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Return whether a request holds tools, or asks for thinking in a way, that the upstream does not take."""
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
    return profile.vendor_tools or (tool.does is not None and profile.runs(tool.does, "anthropic"))


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass."""
    misfitting = {
        tool.path: tool
        for tool in request.tools
        if (tool.kind and not _fits(tool, profile))
        or ("defer_loading" in tool.options and not profile.vendor_tools)
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
    fitted = {"tools": Raw(encode(out)) if out else _NULL}
    if any(tool.does is ServerKind.MCP for tool in misfitting.values()):
        # The keys of the user for third parties are in there.
        fitted["mcp_servers"] = _NULL
        losses += [
            Loss("server_tool_dropped", tool.path, tool.kind)
            for tool in misfitting.values()
            if tool.path == "$.mcp_servers"
        ]
    return fitted


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


# --- instructions between messages ----------------------------------------------------------------
# `user` and `assistant` are the roles that every server of Messages knows; `system` came later, and few take it.
# Messages that hold or touch no such instruction keep their bytes.


class _Message(Struct):
    role: str
    content: str | list[Raw]


class _Block(Struct):
    type: str | None = None
    text: str | None = None


_MESSAGES: Final = msgspec.json.Decoder(list[Raw])

_MESSAGE: Final = msgspec.json.Decoder(_Message)

_BLOCK: Final = msgspec.json.Decoder(_Block)

_BLOCK_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def without_instructions(messages: Raw) -> tuple[Raw, tuple[Loss, ...]]:
    """Turn each instruction between messages into marked text of the user; return the messages and the losses."""
    raws = decode(_MESSAGES, messages)
    read = [decode_at(_MESSAGE, raw, f"$.messages[{at}]") for at, raw in enumerate(raws)]
    losses = tuple(
        Loss("system_midturn_emulated", f"$.messages[{at}]")
        for at, message in enumerate(read)
        if message.role == "system"
    )
    out: list[bytes] = []
    for is_users, run in groupby(range(len(raws)), lambda at: read[at].role != "assistant"):
        places = list(run)
        if is_users and any(read[at].role == "system" for at in places):
            out.append(_joined([read[at] for at in places]))
        else:
            out += (bytes(raws[at]) for at in places)
    return Raw(b"[" + b",".join(out) + b"]"), losses


def _joined(messages: list[_Message]) -> bytes:
    """Return one user message with the content of all; results of tools must come first."""
    blocks = [block for message in messages for block in _blocks(message)]
    blocks.sort(key=lambda block: decode(_BLOCK, block).type != "tool_result")
    return encode({"role": "user", "content": blocks})


def _blocks(message: _Message) -> list[Raw]:
    content = message.content
    if isinstance(content, str):
        content = [Raw(encode({"type": "text", "text": content}))]
    if message.role != "system":
        return content
    return [_marked_instruction(block) for block in content]


def _marked_instruction(block: Raw) -> Raw:
    text = decode(_BLOCK, block).text
    if text is None:
        return block
    fields = decode(_BLOCK_FIELDS, block)
    fields["text"] = Raw(encode(REMINDER.format(text)))
    return Raw(encode(fields))


# --- answers that are paused ------------------------------------------------------------------------

_FORCED: Final = (Raw(b'"any"'), Raw(b'"tool"'))


def continue_request(body: bytes, answer: Answer) -> bytes:
    """Return the request that continues a paused answer: its content is the last turn, unchanged.

    A forced tool was used by then; to force it again would never let the model answer.
    """
    fields = decode(_FIELDS, body) or {}
    messages = entries_of(fields.get("messages", _NULL))
    content = [part for block in answer.blocks for part in _paused(block)]
    if messages and (last := decode(_MESSAGE, messages[-1])).role == "assistant":
        content = [*_blocks(last), *content]  # of an earlier pause, or a prefill
        messages = messages[:-1]
    fields["messages"] = Raw(encode([*messages, {"role": "assistant", "content": content}]))
    used = any(block.kind is BlockKind.SERVER_CALL for block in answer.blocks)
    choice = decode(_FIELDS, fields.get("tool_choice", _NULL)) or {}
    if used and choice.get("type") in _FORCED:
        fields["tool_choice"] = Raw(b'{"type":"auto"}')
    return encode(fields)


def _paused(block: Block) -> list[object]:
    """Return a block of an answer as its own upstream wrote it."""
    match block.kind:
        case BlockKind.TEXT:
            cited = [one.raw for one in block.citations if one.vendor == schema.VENDOR]
            text: dict[str, object] = {"type": "text", "text": block.text}
            return [text | {"citations": cited} if cited else text] if block.text else []
        case BlockKind.REASONING:
            return [_paused_thinking(block)]
        case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
            return [block.raw] if block.vendor == schema.VENDOR else []
        case _:
            return []  # an answer with calls for the client is not paused


def _paused_thinking(block: Block) -> dict[str, object]:
    for state in block.opaque:
        if state.kind is OpaqueKind.REDACTED:
            return {"type": "redacted_thinking", "data": state.data}
    signature = next((one.data for one in block.opaque if one.kind is OpaqueKind.SIGNATURE), "")
    thinking = "".join(segment.text for segment in block.segments)
    return {"type": "thinking", "thinking": thinking, "signature": signature}
