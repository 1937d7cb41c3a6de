"""Traces for OpenTelemetry: a span for each request, and under it one for each attempt at an upstream.

Attributes follow OpenTelemetry's conventions for HTTP and for generative AI.  They have names, counts and kinds of
failures; never content, credentials or the words of an upstream's error.  The SDK sends spans from a thread, out of a
queue of limited length, so that a request never waits for the collector.

Without traces, the gateway forwards a client's trace headers unchanged.  The package `opentelemetry` is imported only
when the settings ask for traces.
"""

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.context import Exchange
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Secret, TraceSettings
from dragoman.gateway.logging import Logger, RequestRecord
from dragoman.gateway.routing import Hop
from dragoman.turn.events import EventOrRun, Fault, Finish, Start, Usage
from dragoman.turn.server_tools import ServerKind

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

TRACE_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_PARENT_FORM: Final = re.compile(
    r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,200})?"
)
_STATE_FORM: Final = re.compile(r"[ -~]{1,512}")
_ENVIRONMENT: Final = "env"  # the endpoint is in OTEL_EXPORTER_OTLP_ENDPOINT
_PATH: Final = "/v1/traces"
_QUEUE: Final = 4096  # spans that wait; more are dropped
_BATCH: Final = 512
_EXPORT_SECONDS: Final = 5.0
_NOTICE_SECONDS: Final = (
    60.0  # between two lines of the log about a collector that does not respond
)
_MOST_CHARS: Final = 256  # of a value
# Names of the conventions, where they differ from those of profiles.
_PROVIDERS: Final = {
    "gemini": "gcp.gemini",
    "gemini-api": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


def trace_context(client: Mapping[str, str]) -> dict[str, str]:
    """Return the trace headers of a client that are well-formed, as the W3C defines them."""
    parent = client.get(TRACE_PARENT, "")
    if not _PARENT_FORM.fullmatch(parent):
        return {}
    state = client.get(_STATE, "")
    return (
        {TRACE_PARENT: parent, _STATE: state}
        if _STATE_FORM.fullmatch(state)
        else {TRACE_PARENT: parent}
    )


class Traces:
    """What sends the spans of this process to a collector."""

    def __init__(self, provider: "TracerProvider", notices: "_Notices") -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("dragoman", __version__)
        self._notices = notices

    def begin(
        self, client: Mapping[str, str], *, method: str, route: str, request_id: str, key: str
    ) -> "RequestTrace":
        """Begin the span of a request; it continues the client's trace, if there is one."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 -- an extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        attributes = {
            "http.request.method": method,
            "url.scheme": "http",
            "dragoman.request.id": request_id,
        }
        if route:
            attributes["http.route"] = route
        if key:
            attributes["dragoman.key"] = key
        span = self._tracer.start_span(
            f"{method} {route}".strip(),
            context=TraceContextTextMapPropagator().extract(trace_context(client)),
            kind=SpanKind.SERVER,
            attributes=attributes,
        )
        return RequestTrace(self._tracer, span)

    async def close(self) -> None:
        """Send what is waiting, for a limited time."""
        thread = threading.Thread(target=self._provider.shutdown, daemon=True)
        thread.start()
        await asyncio.to_thread(thread.join, _EXPORT_SECONDS + 1)
        self._notices.remove()


class RequestTrace:
    """The span of one request."""

    def __init__(self, tracer: "Tracer", span: "Span") -> None:
        self._tracer = tracer
        self._span = span

    def attempt(self, hop: Hop, url_host: str, url_port: int, *, stream: bool) -> "AttemptTrace":
        """Begin the span of an attempt at an upstream."""
        from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415

        origin = hop.profile.origin
        provider = hop.upstream_name if origin == "generic" else _PROVIDERS.get(origin, origin)
        span = self._tracer.start_span(
            f"chat {hop.model[:_MOST_CHARS]}",
            context=set_span_in_context(self._span),
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": hop.model,
                "gen_ai.request.stream": stream,
                "server.address": url_host,
                "server.port": url_port,
                "dragoman.upstream": hop.upstream_name,
            },
        )
        return AttemptTrace(span)

    def end(self, record: RequestRecord) -> None:
        """End the span with what the log has of the request."""
        found: dict[str, str | int | float | Sequence[str]] = {
            "http.response.status_code": record.status,
            "gen_ai.request.model": record.model,
            "dragoman.route": record.route,
            "dragoman.upstream": record.upstream,
            "dragoman.ended": record.ended,
            "dragoman.retries": record.retries,
            "dragoman.warnings": record.warnings,
        }
        if record.cost is not None:
            found["dragoman.cost"] = record.cost
        self._span.set_attributes({name: value for name, value in found.items() if value})
        if record.error:
            self._span.set_attribute("error.type", record.error)
        if record.status >= 500:
            _fail(self._span)
        self._span.end()


class AttemptTrace:
    """The span of one attempt."""

    def __init__(self, span: "Span") -> None:
        self._span = span
        self._started = time.perf_counter()

    def headers(self) -> dict[str, str]:
        """Return the headers with which the upstream continues the trace."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, set_span_in_context(self._span))
        return carrier

    def watch(self, _exchange: Exchange) -> "_StartTap":
        """Return the stage that notes which model answers, and when."""
        return _StartTap(self._span, self._started)

    def end(self, ended: Finish | Fault | None, usage: Usage | None) -> None:
        """End the span; `ended` is None if the upstream gave no reason."""
        span = self._span
        if isinstance(ended, Fault):
            span.set_attribute("error.type", ended.code or ended.kind.value)
            if ended.status:
                span.set_attribute("http.response.status_code", ended.status)
            _fail(span)
        elif ended is not None:
            span.set_attribute("gen_ai.response.finish_reasons", (ended.reason.value,))
        if usage is not None and not usage.estimated:
            written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": usage.prompt_tokens,
                    "gen_ai.usage.output_tokens": usage.output_tokens,
                    "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
                    "gen_ai.usage.cache_write.input_tokens": written,
                    "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
                }
            )
        if usage is not None:
            self._count_server_calls(usage)
        span.end()

    def _count_server_calls(self, usage: Usage) -> None:
        """Note how often the vendor ran its tools: the conventions have them only as content."""
        counts = {
            ServerKind.WEB_SEARCH: usage.searches,
            ServerKind.WEB_FETCH: usage.fetches,
            ServerKind.CODE: usage.code_runs,
            ServerKind.MCP: usage.mcp_calls,
            ServerKind.IMAGE: usage.images,
        }
        for kind, number in counts.items():
            if number:
                self._span.set_attribute(f"dragoman.server_calls.{kind.value}", number)

    def leave(self) -> None:
        """End the span of an attempt whose client left."""
        self._span.set_attribute("dragoman.ended", "client_left")
        self._span.end()


class _StartTap:
    """A stage that changes nothing."""

    def __init__(self, span: "Span", started: float) -> None:
        self._span = span
        self._started = started

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Note the first event."""
        if events and isinstance(first := events[0], Start):
            seconds = time.perf_counter() - self._started
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
            if first.model:
                self._span.set_attribute("gen_ai.response.model", first.model)
            if first.id:
                self._span.set_attribute("gen_ai.response.id", first.id)
        return events if isinstance(events, list) else list(events)


def _fail(span: "Span") -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    span.set_status(Status(StatusCode.ERROR))


def open_traces(settings: TraceSettings, logger: Logger) -> Traces | None:
    """Return what the settings ask for; None: no traces.

    Raises:
        ConfigError: the package is missing.
    """
    if not settings.endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import (  # noqa: PLC0415
            ParentBased,
            TraceIdRatioBased,
        )
    except ImportError:
        message = "`traces` needs OpenTelemetry; `pip install 'dragoman[otel]'` adds it"
        raise ConfigError(message) from None
    notices = _Notices(logger)
    service = os.environ.get("OTEL_SERVICE_NAME") or "dragoman"
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sample)),
        resource=Resource.create(
            {
                "service.name": service,
                "service.version": __version__,
                "process.pid": os.getpid(),  # which worker it is
            }
        ),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_span_attribute_length=_MOST_CHARS),
    )
    exporter = OTLPSpanExporter(
        endpoint=_url(settings.endpoint),
        headers={
            name: value.value if isinstance(value, Secret) else value
            for name, value in settings.headers.items()
        }
        or None,
        timeout=_EXPORT_SECONDS,
    )
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH)
    )
    return Traces(provider, notices)


def _url(endpoint: str) -> str | None:
    """Return where spans are sent; None: the SDK reads it from the environment."""
    if endpoint == _ENVIRONMENT:
        return None
    return endpoint if endpoint.endswith(_PATH) else f"{endpoint}{_PATH}"


class _Notices(logging.Handler):
    """What the SDK logs, in the gateway's log: at most one line a minute."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger
        self._last = -_NOTICE_SECONDS
        self._source = logging.getLogger("opentelemetry")
        self._source.addHandler(self)
        self._source.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._last >= _NOTICE_SECONDS:
            self._last = now
            self._logger.notice("traces", level="warning", why=record.getMessage())

    def remove(self) -> None:
        self._source.removeHandler(self)
