"""Decodes a client's `generateContent` request into a `Request`."""

import math
import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import check_messages, check_size, decode, decode_at
from dragoman.dialects.dialect import PathRequest
from dragoman.dialects.encoding import encode
from dragoman.dialects.gemini import schema
from dragoman.dialects.gemini.history_reader import (
    decode_contents,
    decode_system,
    report_unknown,
)
from dragoman.dialects.gemini.schema import GenerationConfig, camel_request, fields_of, given
from dragoman.dialects.gemini.tools_reader import TOOL_LISTS, decode_choice, json_schema
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.limits import Limits
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    OutputFormat,
    ReasoningSettings,
    Request,
    Sampling,
    TextPart,
)
from dragoman.wire.json_values import decode_any

_BODY: Final = msgspec.json.Decoder(schema.Request)
# Numbers may come as strings.
_CONFIG: Final = msgspec.json.Decoder(GenerationConfig, strict=False)
_NO_CONFIG: Final = GenerationConfig()
_OPEN: Final = frozenset({"BLOCK_NONE", "OFF", "4", "5"})  # thresholds that filter nothing
_OWN_ANSWERS: Final = ("speechConfig", "imageConfig")  # settings of answers that are not text
_TEXT_ONLY: Final = frozenset({"TEXT", "MODALITY_UNSPECIFIED", "0", "1"})
_LEVELS: Final = frozenset({"minimal", "low", "medium", "high"})
_ONE_OF: Final = "Respond with exactly one of these words and nothing else: "


# --- the URL ----------------------------------------------------------------------------------------

# What each verb asks for, and whether the answer streams.
_VERBS: Final[dict[str, tuple[Literal["answer", "count_tokens"], bool]]] = {
    "generateContent": ("answer", False),
    "streamGenerateContent": ("answer", True),
    "countTokens": ("count_tokens", False),
}
# Paths that no other dialect has.
_OWN: Final = re.compile(r"/v1(?:alpha|beta)[0-9]*(?:/|\Z)|/publishers/")
_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")


def read_path(method: str, path: str, query: Mapping[str, str]) -> PathRequest | None:
    """Return what a URL asks for; None if it is not of this dialect.

    The paths of AI Studio and Vertex are known, with any base path before them.  The verb follows the last colon:
    names of models hold colons too.
    """
    path = path.rstrip("/")
    named, _, verb = path.rpartition(":")
    if method == "POST" and verb in _VERBS and (model := _model_of(named)):
        asks, streams = _VERBS[verb]
        alt = query.get("alt") or query.get("$alt")
        framing: Literal["sse", "list"] = "list" if streams and alt != "sse" else "sse"
        return PathRequest(asks, model, streams, framing, f"/models/{{model}}:{verb}")
    if _OWN.search(path) is None:
        return None
    if method in ("GET", "HEAD") and (path.endswith("/models") or "/models/" in path):
        model = _model_of(path)
        return PathRequest("models", model, route="/models/{model}" if model else "/models")
    return PathRequest("nothing")


def _model_of(path: str) -> str:
    """Return the model that a path names, or the endpoint of a tuned one; empty: none."""
    found = path.partition("/models/")[2] or path.partition("/endpoints/")[2]
    plain = _ESCAPED.sub(lambda one: bytes.fromhex(one[1].decode()), found.encode())
    return plain.decode("utf-8", "replace")


def joined_request(asked: PathRequest, body: bytes) -> bytes:
    """Return a request with the model and the kind of answer that its URL names.

    Raises:
        MalformedError: the body is not an object.
    """
    fields = fields_of(body)
    for name in ("generateContentRequest", "generate_content_request"):
        if asked.asks == "count_tokens" and name in fields:
            fields = fields_of(bytes(fields[name]))
    fields["model"] = Raw(encode(asked.model))
    fields["stream"] = Raw(b"true" if asked.stream else b"false")
    return encode(fields)


# --- the request ------------------------------------------------------------------------------------


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a client's request, with the model and the kind of answer that its URL names as fields.

    Raises:
        MalformedError: it is not of the dialect; carries the path.
        TooLargeError: it passes a limit, which the error names.
    """
    check_size(body, limits)
    losses: list[Loss] = []
    body = camel_request(body)
    wire = decode(_BODY, body)
    contents = wire.contents
    if not contents:
        reason = "contents is not specified" if contents is None else "contents is empty"
        raise MalformedError(reason, path="$.contents")
    check_messages(len(contents), limits)
    if wire.cached_content:
        reason = "the conversation is in a cache of Google's, which no other provider can read"
        raise MalformedError(reason, path="$.cachedContent", code="unsupported_parameter")
    config = _NO_CONFIG
    if given(wire.generation_config):
        config = decode_at(_CONFIG, wire.generation_config, "$.generationConfig")
    extensions = _extensions(body, wire, losses)
    _refuse_modalities(config, extensions)
    tools = TOOL_LISTS.read(wire.tools) if given(wire.tools) else ()
    form, instruction = _format(config, losses)
    calling = None if wire.tool_config is None else wire.tool_config.function_calling_config
    system = decode_system(wire.system_instruction, losses)
    return Request(
        dialect="gemini",
        model=wire.model.removeprefix("models/"),
        stream=bool(wire.stream),
        system=(*system, TextPart(instruction)) if instruction else system,
        turns=decode_contents(
            contents, sealer, losses, detail=schema.detail_of(config.media_resolution)
        ),
        tools=tools,
        tool_choice=decode_choice(calling, tools),
        max_output=config.max_output_tokens,
        sampling=_sampling(config),
        stop=tuple(config.stop_sequences or ()),
        count=config.candidate_count or 1,
        reasoning=_reasoning(config.thinking_config),
        format=form,
        tier=_tier(wire.service_tier, losses),
        logprobs=bool(config.response_logprobs),
        top_logprobs=config.logprobs,
        metadata=wire.labels if given(wire.labels) else None,
        extensions=extensions,
        losses=tuple(losses),
    )


def _refuse_modalities(config: GenerationConfig, extensions: Mapping[str, Raw]) -> None:
    modalities = config.response_modalities or ()
    wanted = [one for one in modalities if str(one).upper() not in _TEXT_ONLY]
    fields = ["responseModalities"] if wanted else []
    fields += [name for name in _OWN_ANSWERS if f"generationConfig.{name}" in extensions]
    if fields:
        reason = "only Google's own models answer with pictures or sound"
        path = f"$.generationConfig.{fields[0]}"
        raise MalformedError(reason, path=path, code="unsupported_parameter")


def _sampling(config: GenerationConfig) -> Sampling:
    for name, value in (
        ("temperature", config.temperature),
        ("topP", config.top_p),
        ("topK", config.top_k),
        ("frequencyPenalty", config.frequency_penalty),
        ("presencePenalty", config.presence_penalty),
    ):
        # A number may be a string, and "nan" and "inf" are numbers then.
        if value is not None and not math.isfinite(value):
            raise MalformedError("expected a number", path=f"$.generationConfig.{name}")
    return Sampling(
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=None if config.top_k is None else int(config.top_k),
        seed=config.seed,
        frequency_penalty=config.frequency_penalty,
        presence_penalty=config.presence_penalty,
    )


def _reasoning(config: schema.ThinkingConfig | None) -> ReasoningSettings:
    if config is None:
        return ReasoningSettings()
    path = "$.generationConfig.thinkingConfig"
    budget, level = config.thinking_budget, config.thinking_level
    show = "summary" if config.include_thoughts else ""
    if level is not None and level.upper() == "THINKING_LEVEL_UNSPECIFIED":
        level = None
    if level is not None:
        if budget is not None:
            raise MalformedError("a budget and a level exclude each other", path=path)
        if level.lower() not in _LEVELS:
            reason = f"there is no thinking level `{level[:40]}`"
            raise MalformedError(reason, path=f"{path}.thinkingLevel")
        return ReasoningSettings(mode="effort", effort=level.lower(), show=show)  # type: ignore[arg-type]  # one of two literals
    if budget is None:
        return ReasoningSettings(show=show)  # type: ignore[arg-type]  # one of two literals
    if budget == 0:
        return ReasoningSettings(mode="off", show=show)  # type: ignore[arg-type]  # one of two literals
    if budget < 0:
        return ReasoningSettings(mode="auto", show=show)  # type: ignore[arg-type]  # one of two literals
    return ReasoningSettings(mode="budget", budget=budget, show=show)  # type: ignore[arg-type]  # one of two literals


def _format(config: GenerationConfig, losses: list[Loss]) -> tuple[OutputFormat, str]:
    """Return the format of the answer, and an instruction where only that can ask for it."""
    kind = (config.response_mime_type or "").lower()
    path = "$.generationConfig.responseSchema"
    wanted: Raw | None = None
    if given(config.response_json_schema) and given(config.response_schema):
        raise MalformedError(
            "a request has `responseSchema` or `responseJsonSchema`, not both", path=path
        )
    if given(config.response_json_schema):
        path = "$.generationConfig.responseJsonSchema"
        wanted = json_schema(config.response_json_schema, path, openapi=False)
    elif given(config.response_schema):
        wanted = json_schema(config.response_schema, path, openapi=True)
    if kind == "text/x.enum":
        losses.append(Loss("schema_not_enforced", path))
        words = decode_any(bytes(wanted)).get("enum") if wanted is not None else None
        listed = ", ".join(str(word) for word in words) if isinstance(words, list) else ""
        return OutputFormat(), f"{_ONE_OF}{listed}" if listed else ""
    if kind != "application/json":
        if kind not in ("", "text/plain"):
            losses.append(Loss("field_dropped", "$.generationConfig.responseMimeType", kind[:40]))
        if wanted is not None:
            losses.append(Loss("schema_not_enforced", path))  # it belongs to JSON alone
        return OutputFormat(), ""
    if wanted is None:
        return OutputFormat(kind="json_object"), ""
    return OutputFormat(kind="json_schema", name="output", schema=wanted), ""


def _tier(name: str | None, losses: list[Loss]) -> str:
    if not name or name.lower() in ("unspecified", "service_tier_unspecified"):
        return ""
    tier = schema.TIERS.get(name.lower())
    if tier is None:
        losses.append(Loss("field_dropped", "$.serviceTier", name[:40]))
    return tier or ""


def _extensions(body: bytes, wire: schema.Request, losses: list[Loss]) -> dict[str, Raw]:
    """Return what has no place in the turn: fields of the request, and of its settings by their path."""
    fields = fields_of(body)
    found = {
        name: raw
        for name, raw in fields.items()
        if name not in schema.REQUEST_FIELDS and given(raw)
    }
    settings = wire.safety_settings or ()
    if any(str(one.threshold).upper() not in _OPEN for one in settings):
        found["safetySettings"] = fields["safetySettings"]
    if given(fields.get("toolConfig", schema.NO_RAW)):
        for name, raw in fields_of(fields["toolConfig"]).items():
            if name == "functionCallingConfig" and given(raw):
                known = schema.FunctionCallingConfig.__struct_encode_fields__
                report_unknown(raw, known, f"$.toolConfig.{name}", losses)
            elif given(raw):
                found[f"toolConfig.{name}"] = raw
    if given(wire.generation_config):
        for name, raw in fields_of(wire.generation_config).items():
            if name == "thinkingConfig" and given(raw):
                known = schema.ThinkingConfig.__struct_encode_fields__
                report_unknown(raw, known, f"$.generationConfig.{name}", losses)
            elif name not in schema.CONFIG_FIELDS and given(raw):
                found[f"generationConfig.{name}"] = raw
    return found
