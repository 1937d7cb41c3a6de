"""A request for a Responses upstream, from whatever dialect its client speaks."""

import hashlib
from typing import Final

from msgspec import Raw

from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import GO_ON, go_on_loss
from dragoman.dialects.responses.controls import (
    JSON_INSTRUCTION,
    SCHEMA_INSTRUCTION,
    is_strict,
    reasoning_settings,
)
from dragoman.dialects.responses.items import ItemEncoder
from dragoman.dialects.responses.report import Report
from dragoman.dialects.responses.toolset import Toolset
from dragoman.errors import Untranslatable
from dragoman.exchange import EncodedRequest, Target
from dragoman.turn.history import settle
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Role, Sampling, TextPart, Turn

_NO_WISHES: Final = Sampling()
_MIN_OUTPUT: Final = 16  # OpenAI refuses less
_MAX_USER_ID: Final = 64
_ENCRYPTED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"

# Fields of other dialects that ask for something no Responses upstream has: without them the request
# would mean something else.
_REFUSED: Final[dict[str, frozenset[str]]] = {
    "anthropic": frozenset({"compaction", "container", "mcp_servers", "thread"}),
    "chat": frozenset({"audio"}),
}
# Fields whose loss is told; all others that are not known are vendors' own and mean nothing here.
_DROPPED: Final[dict[str, frozenset[str]]] = {
    "anthropic": frozenset(
        {"context_management", "diagnostics", "fallbacks", "inference_geo", "speed"}
    ),
    "chat": frozenset(
        {"min_p", "moderation", "prediction", "repetition_penalty", "web_search_options"}
    ),
}


def encode_request(request: Request, target: Target) -> EncodedRequest:
    """Write `request` for a Responses upstream.

    Raises:
        Untranslatable: the upstream cannot be asked for this; carries the path.
        Malformed: calls and results of the history do not fit each other.
    """
    return _Encoding(request, target).encode()


class _Encoding:
    """One request on its way."""

    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._profile = target.profile
        self._report = Report(strict=target.strict)
        # The dialect's own tools, as the client declared them, go to an upstream that has them.
        self._native = self._profile.supports_custom_tools or self._profile.vendor_tools
        self._extra: list[str] = []  # instructions that stand for what the upstream cannot enforce
        self._body: dict[str, object] = {"model": target.model or request.model}

    def encode(self) -> EncodedRequest:
        request, body = self._request, self._body
        self._refuse()
        toolset = Toolset(request, self._profile, self._report, native=self._native)
        text = self._text_settings()
        self._history()
        if toolset.tools is not None:
            body["tools"] = toolset.tools
        if toolset.choice is not None:
            body["tool_choice"] = toolset.choice
        if toolset.parallel is not None:
            body["parallel_tool_calls"] = toolset.parallel
        reasoning = reasoning_settings(request, self._profile, self._report, toolset)
        if reasoning:
            body["reasoning"] = reasoning
        if text:
            body["text"] = text
        self._limits()
        self._sampling()
        self._platform()
        body["include"] = self._include()
        body["store"] = False
        body["stream"] = request.stream
        self._extensions()
        if request.stop:
            self._report.note(Loss("stop_emulated", path_of(request, "stop")))
        return EncodedRequest(encode(body), tuple(self._report.losses), request.stop)

    def _refuse(self) -> None:
        request = self._request
        if request.count > 1:
            raise Untranslatable("this upstream gives one answer at a time", path="$.n")
        if request.previous_id:
            reason = f"the response `{request.previous_id}` is not kept here"
            path = "$.previous_response_id"
            raise Untranslatable(reason, path=path, code="previous_response_not_found")

    # --- the conversation -----------------------------------------------------------------------

    def _history(self) -> None:
        request, target = self._request, self._target
        turns = settle(
            request.turns, self._report.losses, strict=target.strict, repair=target.repair_history
        )
        self._prefill(turns)
        relayed = request.dialect == "responses"
        encoder = ItemEncoder(target, self._report, native=self._native, relayed=relayed)
        system = [part for part in request.system if part.text]
        system += [TextPart(text) for text in self._extra]
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
        self._report.lose(go_on_loss(self._request, self._target))
        turns.append(Turn(Role.USER, (TextPart(GO_ON),), path=turns[-1].path))

    # --- settings -------------------------------------------------------------------------------

    def _text_settings(self) -> dict[str, object]:
        request, profile = self._request, self._profile
        settings: dict[str, object] = {}
        wish = request.format
        path = path_of(request, "format")
        if wish.kind == "json_schema" and wish.schema is not None:
            if profile.json_schema == "native":
                strict = is_strict(wish.schema) if wish.strict is None else wish.strict
                form: dict[str, object] = {
                    "type": "json_schema",
                    "name": wish.name or "output",
                    "schema": wish.schema,
                    "strict": strict,
                }
                if wish.description:
                    form["description"] = wish.description
                settings["format"] = form
            else:
                self._report.lose(Loss("schema_not_enforced", path))
                self._extra.append(SCHEMA_INSTRUCTION + bytes(wish.schema).decode())
                if profile.json_schema == "json_object":
                    settings["format"] = {"type": "json_object"}
        elif wish.kind == "json_object":
            if profile.json_schema == "instruction":
                self._report.lose(Loss("json_object_emulated", path))
                self._extra.append(JSON_INSTRUCTION)
            else:
                settings["format"] = {"type": "json_object"}
        if request.verbosity and profile.supports_verbosity:
            settings["verbosity"] = request.verbosity
        elif request.verbosity:
            self._report.lose(Loss("field_dropped", path_of(request, "verbosity")))
        return settings

    def _limits(self) -> None:
        wish = self._request.max_output
        if wish is None:
            return
        path = path_of(self._request, "max_output")
        if wish <= 0:
            reason = "only warming a cache is nothing this upstream can do"
            raise Untranslatable(reason, path=path)
        most = self._profile.max_output_tokens
        limit = max(_MIN_OUTPUT, wish if most is None else min(wish, most))
        if limit != wish:
            self._report.note(Loss("value_clamped", path, f"{wish} became {limit}"))
        self._body["max_output_tokens"] = limit

    def _sampling(self) -> None:
        wish, profile = self._request.sampling, self._profile
        if wish == _NO_WISHES:
            return
        for name in ("temperature", "top_p"):
            value = getattr(wish, name)
            if value is None:
                continue
            if profile.drop_sampling:
                self._report.lose(Loss("sampling_dropped", f"$.{name}"))
            elif name == "temperature" and value > profile.max_temperature:
                self._report.note(Loss("value_clamped", "$.temperature"))
                self._body[name] = profile.max_temperature
            else:
                self._body[name] = value
        for name in ("top_k", "seed", "frequency_penalty", "presence_penalty", "logit_bias"):
            if getattr(wish, name) is not None:
                self._report.lose(Loss("sampling_dropped", f"$.{name}"))

    def _platform(self) -> None:
        """Fields of OpenAI's platform, for upstreams that have it."""
        request, profile, body = self._request, self._profile, self._body
        if request.user_id and profile.user_field != "none":
            body[profile.user_field] = _user_id(request.user_id)
        elif request.user_id:
            self._report.note(Loss("field_dropped", path_of(request, "user_id")))
        if request.cache_key and profile.supports_cache_key:
            body["prompt_cache_key"] = request.cache_key
        if request.tier and profile.supports_store:
            body["service_tier"] = request.tier
        elif request.tier not in ("", "auto", "default"):
            self._report.lose(Loss("field_dropped", path_of(request, "tier")))
        if request.metadata is not None and profile.supports_store:
            body["metadata"] = request.metadata
        if request.logprobs and profile.supports_logprobs:
            if request.top_logprobs is not None:
                body["top_logprobs"] = request.top_logprobs
        elif request.logprobs:
            self._report.lose(Loss("logprobs_dropped", path_of(request, "logprobs")))

    def _include(self) -> list[str]:
        request = self._request
        include = [_ENCRYPTED]
        if request.logprobs and self._profile.supports_logprobs:
            include.append(_LOGPROBS)
        if self._native:
            include += [one for one in request.include if one not in (_ENCRYPTED, _LOGPROBS)]
        return include

    def _extensions(self) -> None:
        """Fields that only the client's own dialect has, and those that every request here gets."""
        request = self._request
        refused = _REFUSED.get(request.dialect, frozenset())
        dropped = _DROPPED.get(request.dialect, frozenset())
        for name, raw in request.extensions.items():
            if request.dialect == "responses":
                self._body.setdefault(name, raw)
            elif name in refused or (name == "modalities" and b"audio" in bytes(raw)):
                raise Untranslatable(f"a Responses upstream has no `{name}`", path=f"$.{name}")
            elif name in dropped:
                self._report.lose(Loss("field_dropped", f"$.{name}"))
        for name, value in self._profile.extra_fields:
            self._body.setdefault(name, Raw(value.encode()))


def _user_id(user_id: str) -> str:
    """Return an id that fits; long ones, and those that are JSON of a client's own, are hashed."""
    if len(user_id) <= _MAX_USER_ID and not user_id.startswith("{"):
        return user_id
    return hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()
