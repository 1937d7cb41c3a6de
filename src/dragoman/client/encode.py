"""A request in the server's dialect, and the reader of its answer.  No I/O."""

from typing import Final

from msgspec import Struct, structs

from dragoman.answer_reader import AnswerReader, read_body
from dragoman.client.errors import ClientError
from dragoman.client.schema_check import check_described
from dragoman.client.settings import Settings
from dragoman.context import Target
from dragoman.dialects.tool_policy import check_needed
from dragoman.errors import MisuseError, TooLargeError
from dragoman.profiles import for_model
from dragoman.toolcalls.detection import bare_name, known_family
from dragoman.turn.answer import Answer
from dragoman.turn.events import FaultKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request

_ACCEPT: Final = {True: "text/event-stream", False: "application/json"}


class Prepared(Struct, frozen=True):
    """One request in the server's dialect."""

    request: Request
    body: bytes
    headers: dict[str, str]
    losses: tuple[Loss, ...]  # what the dialect or the server cannot express
    stop: tuple[str, ...]  # stop sequences that the server cannot match: matched on the answer
    settings: Settings

    def reader(self) -> AnswerReader:
        """Return the reader of a streamed answer."""
        settings = self.settings
        return AnswerReader(
            source=settings.dialect.name,
            model=self.request.model,
            native_format=settings.native_format,
            stop=self.stop,
            profile=settings.profile,
            request=self.request,
            strict=settings.strict,
            limits=settings.limits,
        )

    def read(self, body: bytes) -> Answer:
        """Return a complete answer, from its body."""
        settings = self.settings
        answer = read_body(
            body,
            source=settings.dialect.name,
            model=self.request.model,
            native_format=settings.native_format,
            stop=self.stop,
            profile=settings.profile,
            request=self.request,
            strict=settings.strict,
            limits=settings.limits,
        )
        return (
            structs.replace(answer, losses=self.losses + answer.losses) if self.losses else answer
        )


def prepare(request: Request, settings: Settings, *, stream: bool) -> Prepared:
    """Write a request in the server's dialect.

    Raises:
        MisuseError: it is not a `Request`, it names no model, or a strict client got a tool without a schema.
        MalformedError: the conversation is inconsistent: a result without its call, for example.
        UntranslatableError: the server's dialect cannot express the request.
        ClientError: the request exceeds `max_request_bytes`.
    """
    if not isinstance(request, Request):
        raise MisuseError(f"a request is made by `request(…)`, not `{type(request).__name__}`")
    model = request.model or settings.model
    if not model:
        raise MisuseError("no model: name one for the client or for the request")
    if settings.strict:
        for tool in request.tools:
            check_described(tool)
    # A request of `request(…)` takes the server's dialect; one with another dialect's fields keeps it.
    name = request.dialect if request.extensions else settings.dialect.name
    request = structs.replace(request, dialect=name, model=model, stream=stream)
    target = Target(
        profile=for_model(
            settings.profile, bare_name(model), known_family(model), settings.dialect.name
        ),
        model=model,
        strict=settings.strict,
        limits=settings.limits,
    )
    check_needed(request, settings.dialect.name, target.profile)
    encoded = settings.dialect.encode_request(request, target)
    most = settings.limits.max_request_bytes
    if len(encoded.body) > most:
        passed = TooLargeError("max_request_bytes", most)
        why = f"the request is not sent: {passed}"
        raise ClientError("limit", why, code=passed.limit, kind=FaultKind.TOO_LARGE)
    return Prepared(
        request,
        encoded.body,
        {"accept": _ACCEPT[stream], **settings.headers},
        request.losses + encoded.losses,
        encoded.stop,
        settings,
    )
