"""Decodes a client's Responses request into a `Request`."""

from typing import Final

import msgspec
from msgspec import Raw, structs

from dragoman.dialects.decoding import check_size, decode, decode_fields
from dragoman.dialects.encoding import encode
from dragoman.dialects.responses.history_reader import HistoryReader
from dragoman.dialects.responses.schema import (
    NULL,
    REQUEST_BODY,
    ReasoningConfig,
    RequestBody,
    TextConfig,
)
from dragoman.dialects.responses.tools_reader import TOOL_LISTS, decode_choice
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.limits import Limits
from dragoman.turn.losses import Loss
from dragoman.turn.request import OutputFormat, ReasoningSettings, Request, Sampling, TextPart

# Fields that are only about the transport or the client.
_IGNORED: Final = frozenset({"client_metadata", "stream_options"})

# Fields that need a server which keeps state, with what a client can do instead.
_STATEFUL: Final = {
    "conversation": "conversations are not stored here; send the earlier items in `input`",
    "prompt": "prompt templates are not stored here; send the prompt itself",
}

_LOGPROBS: Final = "message.output_text.logprobs"


class ResponsesRequest(Request, frozen=True, kw_only=True):
    """A request whose settings are repeated in its answer."""

    settings: dict[str, Raw] = {}  # every field but the history, as the client wrote it

    def outline(self) -> Request:
        """Return the request without its conversation, for the time in which it is answered."""
        # As they are, the settings hold on to the bytes of the whole request.
        copied = {name: raw.copy() for name, raw in self.settings.items()}
        return structs.replace(super().outline(), settings=copied)


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a request.

    Raises:
        MalformedError: it is not of the dialect, or needs state that is not kept here; carries the path.
        TooLargeError: it passes a limit, which the error names.
    """
    check_size(body, limits)
    settings = decode_fields(body)
    items = settings.pop("input", NULL)
    # Items and tools, which are large, are looked at only once.
    given = decode(REQUEST_BODY, encode({**settings, "tools": NULL}))
    _refuse_state(given)
    losses: list[Loss] = []
    history = HistoryReader(sealer, losses)
    history.read(items, limits)
    tools = TOOL_LISTS.read(settings.get("tools", NULL))
    if history.tools:
        tools += history.tools
    system = tuple(history.system)
    if given.instructions:
        system = (TextPart(given.instructions), *system)
    include = tuple(given.include or ())
    return ResponsesRequest(
        dialect="responses",
        model=given.model,
        stream=bool(given.stream),
        system=system,
        turns=history.turns(),
        tools=tools,
        tool_choice=decode_choice(given.tool_choice, tools),
        parallel=given.parallel_tool_calls,
        max_output=given.max_output_tokens,
        sampling=Sampling(temperature=given.temperature, top_p=given.top_p),
        reasoning=_reasoning(given.reasoning),
        format=_format(given.text),
        verbosity=(given.text.verbosity if given.text else None) or "",
        user_id=given.safety_identifier or given.user or "",
        tier=given.service_tier or "",
        cache_key=given.prompt_cache_key or "",
        logprobs=_LOGPROBS in include,
        top_logprobs=given.top_logprobs,
        include=include,
        previous_id=given.previous_response_id or "",
        store=given.store,
        metadata=None if given.metadata == NULL else given.metadata,
        extensions=_extensions(settings),
        losses=tuple(losses),
        settings=settings,
    )


def _refuse_state(given: RequestBody) -> None:
    if given.conversation is not NULL or given.prompt is not NULL:
        for name, advice in _STATEFUL.items():
            if getattr(given, name) != NULL:
                raise MalformedError(advice, path=f"$.{name}", code="unsupported_parameter")
    if given.background:
        reason = "responses cannot be created in the background here; omit `background`"
        raise MalformedError(reason, path="$.background", code="unsupported_parameter")


def _extensions(settings: dict[str, Raw]) -> dict[str, Raw]:
    """Return the fields that have no place in the turn's request."""
    if settings.keys() <= _PLACED:
        return {}
    return {
        name: raw
        for name, raw in settings.items()
        if name not in _PLACED and raw != NULL and (name, bytes(raw)) not in _DEFAULTS
    }


_PLACED: Final = frozenset(RequestBody.__struct_fields__) | _IGNORED

# Fields that ask for what happens anyway.
_DEFAULTS: Final = frozenset({("truncation", b'"disabled"')})


def _reasoning(config: ReasoningConfig | None) -> ReasoningSettings:
    if config is None:
        return ReasoningSettings()
    summary = config.summary or config.generate_summary
    show = {"detailed": "full", None: "none", "none": "none"}.get(summary, "summary")
    effort = config.effort or ""
    mode = "off" if effort == "none" else "effort" if effort else "default"
    return msgspec.convert({"mode": mode, "effort": effort, "show": show}, ReasoningSettings)


def _format(config: TextConfig | None) -> OutputFormat:
    given = config.format if config else None
    if given is None:
        return OutputFormat()
    if given.type == "json_schema" and given.schema == NULL:
        raise MalformedError("a format of type json_schema needs a `schema`", path="$.text.format")
    return OutputFormat(
        kind=given.type,
        name=given.name,
        description=given.description or "",
        schema=None if given.schema == NULL else given.schema,
        strict=given.strict,
    )
