"""Encodes a `Request` as the body for a Gemini upstream."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw, structs

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.decoding import entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.gemini import schema
from dragoman.dialects.gemini.history_writer import HistoryWriter
from dragoman.dialects.gemini.schema import camel_request, fields_of
from dragoman.dialects.gemini.tools_writer import encode_tools, makes_images
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import (
    NO_SAMPLING,
    budget_of,
    fitted_schema,
    is_off,
    known_effort,
    output_format,
    output_limit,
    refuse_losses,
    refuse_unsupported,
    report_conversion,
    report_foreign_fields,
    sampling_fields,
    split_stop,
    wanted_effort,
)
from dragoman.dialects.tool_policy import thinking_beside_choice
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import without_meta
from dragoman.turn.answer import Answer
from dragoman.turn.losses import Loss
from dragoman.turn.request import ReasoningSettings, Request, TextPart, Tool
from dragoman.turn.server_tools import ServerKind
from dragoman.wire.json_values import decode_any

_TIERS: Final = {tier: name for name, tier in schema.TIERS.items()}
_MAX_STOPS: Final = 5
_CAMEL: Final = {
    "top_p": "topP",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
# The least and the most thinking, in tokens, by what a model's name holds.
_BUDGETS: Final = (
    (re.compile(r"flash-lite"), 512, 24_576),
    (re.compile(r"pro"), 128, 32_768),
    (re.compile(r""), 1, 24_576),
)
_NEVER_OFF: Final = re.compile(r"pro")


_NOT_PLAIN: Final = re.compile(rb"[^A-Za-z0-9._~/:@-]")
_COUNTED: Final = ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
_VERTEX: Final = "vertex"  # the profile whose servers are not AI Studio's
_NO_FIELDS: Final = Raw(b"{}")
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")


def split_request(body: bytes) -> tuple[str, bytes]:
    """Return the path of a request, after the API's version, and the body that Google takes.

    Raises:
        MalformedError: the body is not an object.
    """
    fields = fields_of(body)
    path = _path_of(fields.pop("model", Raw(b'""')))
    streams = bytes(fields.pop("stream", Raw(b"false"))) == b"true"
    verb = "streamGenerateContent?alt=sse" if streams else "generateContent"
    return f"{path}:{verb}", encode(fields)


def count_question(body: bytes, profile: Profile) -> tuple[str, bytes]:
    """Return the path and the body of a question for the tokens of a request.

    AI Studio counts instructions and tools only inside a whole request; Vertex does not know that field.

    Raises:
        MalformedError: the body is not an object.
    """
    fields = fields_of(camel_request(body))
    path = _path_of(fields.pop("model", Raw(b'""')))
    kept = {name: fields[name] for name in _COUNTED if name in fields}
    if profile.origin != _VERTEX:
        name = path.removeprefix("/")
        return f"{path}:countTokens", encode({"generateContentRequest": {"model": name, **kept}})
    kept.pop("toolConfig", None)
    return f"{path}:countTokens", encode(kept)


def continue_request(body: bytes, answer: Answer) -> bytes:
    """Return the request that continues a paused answer: the same one, with the token that the answer ended with."""
    fields = fields_of(body)
    config = fields_of(fields.get("generationConfig", _NO_FIELDS))
    config["continuationToken"] = Raw(encode("" if answer.finish is None else answer.finish.token))
    return encode(fields | {"generationConfig": config})


def _path_of(model: Raw) -> str:
    name = str(decode_any(bytes(model))).encode("utf-8", "replace")
    return f"/models/{_NOT_PLAIN.sub(lambda one: b'%%%02X' % one[0][0], name).decode()}"


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write any client's request for an upstream that speaks `generateContent`.

    The body has the model and the kind of answer as fields; `split_request` moves them to the URL.

    Raises:
        MalformedError: the history does not hold together.
        UntranslatableError: this dialect has no form for something in the request, or, for a strict target,
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
        self.stop: tuple[str, ...] = ()  # that the upstream cannot match
        self._request = request
        self._target = target
        self._profile = target.profile
        self._native = request.dialect == "gemini"
        self._instructions: list[str] = []  # to be added to the system prompt
        self._model = target.model or request.model

    def encode(self) -> bytes:
        request = self._request
        refuse_unsupported(request, many=self._native)
        self._report_unsupported()
        history = HistoryWriter(request, self._target, self.losses)
        tools, choice = encode_tools(request, self._target, self.losses)
        thinking, weak = thinking_beside_choice(
            request, self._profile, self.losses, forced=choice is not None and choice.forced
        )
        if weak:
            choice = schema.AUTO_CHOICE
        if tools is not None and self._streams_arguments(choice):
            choice = structs.replace(
                choice or schema.FunctionCallingConfig(), stream_function_call_arguments=True
            )
        config = self._config(thinking)
        system = self._system(history)
        body: dict[str, object] = {"model": self._model}
        if request.stream:
            body["stream"] = True
        body["contents"] = history.encode()
        if system:
            body["systemInstruction"] = {"parts": system}
        if tools is not None:
            body["tools"] = tools
        if choice is not None:
            body["toolConfig"] = {"functionCallingConfig": choice}
        if request.tier:
            if request.tier in _TIERS:
                body["serviceTier"] = _TIERS[request.tier]
            elif request.tier != "auto":
                self._lose("field_dropped", "tier", request.tier)
        if request.metadata is not None:
            self._labels(body, request.metadata)
        if request.extensions:
            self._extend(body, config)
        if config:
            body["generationConfig"] = config
        for name, value in self._profile.extra_fields:
            body.setdefault(name, Raw(value.encode()))
        return encode(body)

    def _streams_arguments(self, choice: schema.FunctionCallingConfig | None) -> bool:
        """Return whether arguments are asked for in pieces: Google refuses that for a complete answer."""
        request = self._request
        called = choice is None or choice.mode != "NONE"
        functions = any(not tool.server for tool in request.tools)
        return self._profile.stream_args and request.stream and called and functions

    def _lose(self, code: str, meaning: str, detail: str = "") -> None:
        self.losses.append(Loss(code, path_of(self._request, meaning), detail))

    def _report_unsupported(self) -> None:
        """Report settings that the dialect has no field for."""
        request = self._request
        if request.verbosity:
            self._lose("field_dropped", "verbosity")
        if request.user_id:
            self._lose("user_id_dropped", "user_id")

    def _system(self, history: HistoryWriter) -> list[schema.Part]:
        parts = [*self._request.system]
        for turn in history.leading:
            parts += (part for part in turn.parts if isinstance(part, TextPart))
        texts = [part.text for part in parts if part.text] + self._instructions
        return [schema.Part(text=text) for text in texts]

    # --- settings ---------------------------------------------------------------------------------

    def _config(self, reasoning: ReasoningSettings) -> dict[str, object]:
        request, profile = self._request, self._profile
        config: dict[str, object] = {}
        if request.sampling != NO_SAMPLING:
            fields = sampling_fields(request, profile, self.losses, refused={"logit_bias"})
            config |= {_CAMEL.get(name, name): value for name, value in fields.items()}
        limit = output_limit(request, profile, self.losses)
        if limit is not None:
            config["maxOutputTokens"] = limit
        if request.stop:
            self._stop(config)
        if request.count != 1:
            config["candidateCount"] = request.count
        if request.logprobs or request.top_logprobs:
            self._logprobs(config)
        if request.format.kind != "text":
            self._format(config)
        if not self._native and makes_images(request, profile):
            config["responseModalities"] = ["TEXT", "IMAGE"]
        thinking = self._thinking(reasoning)
        if thinking is not None:
            config["thinkingConfig"] = thinking
        return config

    def _stop(self, config: dict[str, object]) -> None:
        most = min(_MAX_STOPS, self._profile.max_stop_sequences)
        sent, self.stop = split_stop(self._request, most, self.losses)
        if sent:
            config["stopSequences"] = sent

    def _logprobs(self, config: dict[str, object]) -> None:
        if not self._profile.supports_logprobs:
            self._lose("logprobs_dropped", "logprobs")
            return
        config["responseLogprobs"] = True
        if self._request.top_logprobs:
            config["logprobs"] = self._request.top_logprobs

    def _format(self, config: dict[str, object]) -> None:
        request, profile = self._request, self._profile
        kind = output_format(request, profile, self._instructions, self.losses)
        if kind == "text":
            return
        config["responseMimeType"] = "application/json"
        wanted = request.format.schema
        if kind == "json_schema" and wanted is not None:
            if profile.schema_dialect == "any":
                config["responseJsonSchema"] = without_meta(wanted)
            else:
                path = path_of(request, "format")
                fitted = fitted_schema(without_meta(wanted), profile, self.losses, path=path)
                config["responseSchema"] = fitted

    def _thinking(self, thinking: ReasoningSettings) -> schema.ThinkingConfig | None:
        shown = True if thinking.show in ("summary", "full") else None
        if self._profile.reasoning_control == "none":
            if thinking.mode != "default":
                self._lose("thinking_dropped", "thinking")
            return None
        if thinking.mode == "default":
            return schema.ThinkingConfig(shown) if shown else None
        if self._profile.reasoning_control == "budget":
            return schema.ThinkingConfig(shown, self._budget(thinking))
        effort = wanted_effort(self._request, thinking, self._profile, self.losses)
        if not effort:
            return schema.ThinkingConfig(shown) if shown else None
        return schema.ThinkingConfig(shown, None, effort.upper())

    def _budget(self, thinking: ReasoningSettings) -> int:
        """Return a number of tokens that the model takes; 0 turns thinking off, -1 leaves it to the model."""
        bounds = (row[1:] for row in _BUDGETS if row[0].search(self._model))
        least, most = next(bounds)
        if is_off(thinking):
            if _NEVER_OFF.search(self._model):
                self._lose("effort_adjusted", "thinking", f"off became budget {least}")
                return least
            return 0
        if thinking.mode == "budget" and thinking.budget is not None:
            budget = max(least, min(thinking.budget, most))
            if budget != thinking.budget:
                self._lose("value_clamped", "thinking", f"budget {thinking.budget} became {budget}")
            return budget
        effort = known_effort(self._request, thinking, self.losses)
        if not effort:
            return -1
        budget = max(least, min(budget_of(effort), most))
        report_conversion(self._request, f"effort {effort} became budget {budget}", self.losses)
        return budget

    def _labels(self, body: dict[str, object], metadata: Raw) -> None:
        """Label a request at Vertex; AI Studio has no place for what a client notes for itself."""
        if self._native:
            body["labels"] = metadata
            return
        if self._profile.origin != _VERTEX:
            return
        labels: dict[str, str] = {}
        for name, value in fields_of(metadata).items():
            text = decode_any(bytes(value))
            if _LABEL.fullmatch(name) and isinstance(text, str) and _LABEL_VALUE.fullmatch(text):
                labels[name] = text
            else:
                self._lose("field_dropped", "metadata", name[:40])
        if labels:
            body["labels"] = labels

    # --- fields of the client's own dialect ---------------------------------------------------------

    def _extend(self, body: dict[str, object], config: dict[str, object]) -> None:
        """Give fields of the client's own dialect back to this one; report those of the others."""
        if not self._native:
            report_foreign_fields(self._request, self.losses)
            return
        for name, raw in sorted(self._request.extensions.items()):
            outer, _, inner = name.partition(".")
            if outer == "generationConfig" and inner:
                config[inner] = raw
            elif outer == "toolConfig" and inner:
                choice = body.get(outer)
                body[outer] = {**(choice if isinstance(choice, dict) else {}), inner: raw}
            elif not inner:
                body[name] = raw


# --- requests that are relayed to another Gemini upstream -------------------------------------------


def misfits(request: Request, profile: Profile) -> bool:
    """Return whether a request holds tools of Google's that the upstream does not run."""
    return not profile.vendor_tools and any(_misfits(tool, profile) for tool in request.tools)


def _misfits(tool: Tool, profile: Profile) -> bool:
    return tool.server and not profile.runs(tool.does or ServerKind.OTHER, "gemini")


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the tools without those that the upstream does not run, and what is lost."""
    dropped = {tool.path: tool for tool in request.tools if _misfits(tool, target.profile)}
    out: list[dict[str, Raw]] = []
    # A client may write each field in camel case or in snake case.
    body = camel_request(encode({"tools": fields.get("tools", Raw(b"null"))}))
    for at, raw in enumerate(entries_of(fields_of(body)["tools"])):
        entry = fields_of(raw)
        kept = {name: one for name, one in entry.items() if f"$.tools[{at}].{name}" not in dropped}
        out += [kept] if kept else []
    losses = tuple(Loss("server_tool_dropped", path, tool.kind) for path, tool in dropped.items())
    return {"tools": Raw(encode(out) if out else b"null")}, losses
