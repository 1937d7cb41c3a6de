"""Encodes a whole answer as a GenerateContentResponse; also counts of tokens and lists of models."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.dialect import ListedModel
from dragoman.dialects.encoding import encode, one_line, utf8
from dragoman.dialects.gemini.answer_reader import unknown_fields
from dragoman.dialects.gemini.answer_writer import (
    Grounding,
    Sealing,
    call_part,
    feedback_of,
    finish_word,
    foreign_part,
    is_object,
    logprobs_of,
    response_identity,
    shows_thoughts,
    usage_of,
)
from dragoman.dialects.gemini.block_reader import TEXT_SIGNATURE
from dragoman.dialects.gemini.errors import encode_fault
from dragoman.dialects.gemini.schema import VENDOR
from dragoman.turn.answer import Answer, Block, half_call, join_segments
from dragoman.turn.events import BlockKind, Fault, FaultKind, FinishReason, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.tools import wire_name


def encode_body(answer: Answer, exchange: Exchange, losses: list[Loss]) -> bytes:
    """Return a complete answer; add what the dialect has no form for to the losses."""
    if answer.finish is None:
        assert answer.fault is not None  # noqa: S101 -- one of the two is set
        return encode_fault(answer.fault, "")[1]
    losses += [Loss("field_dropped", path) for path in unknown_fields(exchange.upstream_body)]
    content = _Content(exchange, losses)
    for index, block in enumerate(answer.blocks):
        content.add(index, block)
    content.end()
    finish = answer.finish
    candidate: dict[str, object] = {
        "content": {"parts": content.parts, "role": "model"},
        "finishReason": finish_word(finish),
    }
    if finish.token:
        candidate["continuationToken"] = finish.token
    if finish.explanation and finish.reason is FinishReason.CONTENT_FILTER:
        candidate["finishMessage"] = finish.explanation
    metadata = content.grounding.metadata()
    if metadata is not None:
        candidate["groundingMetadata"] = metadata
    pages = content.grounding.pages()
    if pages is not None:
        candidate["urlContextMetadata"] = pages
    if content.records:
        candidate["logprobsResult"] = Raw(logprobs_of(content.records))
    candidate["index"] = 0
    body: dict[str, object] = {"candidates": [candidate]}
    feedback = feedback_of(finish, empty=not answer.blocks)
    if feedback is not None:
        body["promptFeedback"] = feedback
    who = response_identity(answer.start, exchange)
    return encode(
        body
        | {
            "usageMetadata": usage_of(answer.usage),
            "modelVersion": who.model,
            "responseId": who.id,
        }
    )


class _Content:
    """The parts of a whole answer."""

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self.parts: list[object] = []
        self.records: list[bytes] = []
        self.grounding = Grounding(losses)
        self._losses = losses
        self._exchange = exchange
        self._ids = exchange.call_ids
        self._sealing = Sealing(exchange, losses)
        self._shown = shows_thoughts(exchange)

    def add(self, index: int, block: Block) -> None:
        match block.kind:
            case BlockKind.TEXT:
                self._text(block)
            case BlockKind.REFUSAL:
                self._losses.append(Loss("refusal_as_text", f"block {index}"))
                self._text(block)
            case BlockKind.REASONING:
                self._reasoning(block)
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                self._call(index, block)
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                self._vendor_block(index, block)

    def _vendor_block(self, index: int, block: Block) -> None:
        if block.vendor == VENDOR:
            self.parts.append(block.raw)
            return
        if self.grounding.note(block.server):
            return
        part = foreign_part(block, self._exchange)
        if part:
            self.parts.append(Raw(part))
        elif part is None:
            code = "content_dropped" if block.kind is BlockKind.OPAQUE else "server_block_dropped"
            self._losses.append(Loss(code, f"block {index}", block.vendor))

    def end(self) -> None:
        """Add the state that no call carries, and a part if there is none."""
        sealed = self._sealing.rest()
        if sealed:
            self.parts.append({"text": "", "thoughtSignature": sealed})
        elif not self.parts:
            self.parts.append({"text": ""})

    def _text(self, block: Block) -> None:
        self._sealing.text()
        self.records += [bytes(one) for one in block.logprobs]
        for citation in block.citations:
            self.grounding.add(citation)
        self.grounding.end_block(block.text, len(self.parts))
        self.parts.append({"text": block.text})

    def _reasoning(self, block: Block) -> None:
        text = join_segments(block.segments)
        own = next((one for one in block.opaque if one.kind is not OpaqueKind.PLAIN), None)
        signature = own.data if self._exchange.keep_identity and own is not None else ""
        if own is not None and signature and own.item_id == TEXT_SIGNATURE:
            self.parts.append({"text": "", "thoughtSignature": signature})
            return
        if (text and self._shown) or signature:
            part: dict[str, object] = {"text": text if self._shown else "", "thought": True}
            self.parts.append(part | ({"thoughtSignature": signature} if signature else {}))
        if not signature:
            self._sealing.reasoning(block.opaque, text)

    def _call(self, index: int, block: Block) -> None:
        name = wire_name(block.name, block.namespace) if block.namespace else block.name
        custom = block.kind is BlockKind.CUSTOM_CALL
        if not block.complete or not (custom or is_object(block.text)):
            self._sealing.text()
            self.parts.append({"text": half_call(name, block.text)})
            return
        arguments = encode({"input": block.text}) if custom else utf8(block.text)
        call_id = self._ids.of(index, block.call_id)
        signature = self._sealing.call(block.opaque, call_id)
        written = one_line(Raw(arguments)).decode()
        self.parts.append(Raw(call_part(name, call_id, written, signature)))


# --- counts and lists -------------------------------------------------------------------------------

_PAGE: Final = 50  # models, where the client names no number
_MAX_PAGE: Final = 1000
_METHODS: Final = ("generateContent", "streamGenerateContent", "countTokens")


def encode_count(tokens: int) -> bytes:
    """Return how many tokens a request has, as `countTokens` answers."""
    details = [{"modality": "TEXT", "tokenCount": tokens}]
    return encode({"totalTokens": tokens, "promptTokensDetails": details})


def encode_models(models: Sequence[ListedModel], query: Mapping[str, str]) -> bytes | Fault:
    """Return the page of a list of models that a client asks for."""
    size, token = query.get("pageSize", ""), query.get("pageToken", "")
    if size and not (size.isascii() and size.isdigit() and len(size) < 10):
        return _bad("pageSize", "must be an integer of at least 0")
    most = int(size or 0)  # 0 is the same as none
    names = [one.name for one in models]
    if token and token not in names:
        return _bad("pageToken", "is not a token that a page of this list returned")
    first = names.index(token) if token else 0
    end = first + min(most or _PAGE, _MAX_PAGE)
    page: dict[str, object] = {"models": [_model(one) for one in models[first:end]]}
    if end < len(names):
        page["nextPageToken"] = names[end]
    return encode(page)


def encode_model(model: ListedModel) -> bytes:
    """Return what is known of one model."""
    return encode(_model(model))


def _model(model: ListedModel) -> dict[str, object]:
    limits = {"inputTokenLimit": model.context, "outputTokenLimit": model.output}
    return {
        "name": f"models/{model.name}",
        "version": "",
        "displayName": model.display,
        **{name: tokens for name, tokens in limits.items() if tokens},
        "supportedGenerationMethods": _METHODS,
    }


def _bad(param: str, why: str) -> Fault:
    return Fault(FaultKind.BAD_REQUEST, f"`{param}` {why}", status=400, param=param)
