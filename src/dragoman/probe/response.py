"""The response of an upstream to one question, and the facts that are derived from it."""

from functools import cached_property
from typing import Final

from msgspec import Struct

from dragoman.answer_reader import read_body
from dragoman.checker.checker import Verdict, check
from dragoman.dialects import dialect as find_dialect
from dragoman.dialects.failures import html_fault
from dragoman.dialects.model_lists import read_model_list
from dragoman.errors import TooLargeError
from dragoman.probe.trace import Trace, trace
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer
from dragoman.turn.events import Fault, FinishReason
from dragoman.turn.request import DialectName

# Calls and think tags in the text are not parsed: checks see the text unchanged.
_AS_IT_IS: Final = Profile(name="probe", think_tags="off")
# Statuses that do not depend on the request: the server or a proxy was busy.
_PASSING: Final = frozenset({408, 409, 425, 429, 502, 503, 504, 529})
_SHOWN: Final = 120  # characters of a message of the upstream


class UnansweredError(Exception):
    """There is no answer that a check could judge."""


class Failure(Struct, frozen=True):
    """Why a response is missing or incomplete."""

    stage: str  # connect, tls, http, timeout, size
    reason: str


class Response:
    """One response.  Properties are computed on first access."""

    def __init__(  # noqa: PLR0913 -- all that comes with an answer
        self,
        dialect: DialectName,
        *,
        status: int = 0,
        content_type: str = "",
        body: bytes = b"",
        failure: Failure | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.dialect = dialect
        self.status = status  # 0: no response
        self.content_type = content_type
        self.body = body
        self.failure = failure
        self.seconds: float = 0.0  # from the question to the end of the answer
        self.retry_after = retry_after  # seconds to wait before asking again, if the server says so

    @property
    def is_stream(self) -> bool:
        head = self.body.lstrip(b"\xef\xbb\xbf\r\n ")
        return head.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))

    @cached_property
    def answer(self) -> Answer:
        """The parsed answer; the reader is as lenient as the gateway's."""
        return read_body(self.body, source=self.dialect, native_format="none", profile=_AS_IT_IS)

    @cached_property
    def trace(self) -> Trace:
        return trace(self.dialect, self.body)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The result of the strict checker for a stream; None if the stream exceeds a limit."""
        try:
            return check(self.dialect, self.body)
        except TooLargeError:
            return None

    @cached_property
    def fault(self) -> Fault | None:
        """The error of a response with an error status."""
        if self.status < 400:
            return None
        return find_dialect(self.dialect).decode_fault(self.status, self.body)

    @property
    def refused(self) -> str:
        """Why the request was refused, if the request is the cause; empty otherwise."""
        if self.failure is not None or self.status in _PASSING or self.fault is None:
            return ""
        return f"{self.status}: {printable(self.fault.message)}"

    @property
    def passing(self) -> bool:
        """Whether the failure is temporary: a retry may work."""
        return self.status in _PASSING

    @property
    def trouble(self) -> str:
        """Why there is no complete answer; empty if there is one."""
        if self.failure is not None:
            return self.failure.reason
        if self.fault is not None:
            return f"{self.status}: {printable(self.fault.message)}"
        if self.answer.fault is not None:
            return printable(self.answer.fault.message)
        return ""

    @property
    def whole(self) -> Answer:
        """The answer, if it is complete.

        Raises:
            UnansweredError: there is no complete answer.
        """
        if self.trouble:
            raise UnansweredError(self.trouble)
        return self.answer

    def cut_at(self, limit: int) -> bool:
        """Return whether the token limit ended the answer; a reported usage must be at least half of it."""
        usage = self.answer.usage
        return self.cut and (usage is None or usage.estimated or usage.output_tokens * 2 >= limit)

    @property
    def cut(self) -> bool:
        """Whether the token limit ended the answer: missing parts may then not be the upstream's fault."""
        finish = self.answer.finish
        return finish is not None and finish.reason is FinishReason.LENGTH


def printable(text: str) -> str:
    """Return a message of a peer for display: short, on one line, without control characters."""
    line = " ".join(text.split())
    clean = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)
    return clean if len(clean) <= _SHOWN else f"{clean[: _SHOWN - 1]}…"


# --- the list of models ---

_MOST: Final = 5_000  # models that are read


class Listing(Struct, frozen=True):
    names: tuple[str, ...] = ()
    trouble: str = ""  # why there is no list


def read_listing(response: Response) -> Listing:
    if response.failure is not None:
        return Listing(trouble=response.failure.reason)
    if response.fault is not None:
        return Listing(trouble=f"{response.status}: {printable(response.fault.message)}")
    names = read_model_list(response.body, _MOST)
    if names is None:
        page = html_fault(response.status, response.body)
        wrong = "the response is not a list of models"
        return Listing(trouble=wrong if page is None else printable(page.message))
    return Listing(tuple(names))
