"""What a program is told when there is no answer, or not all of one.

`stage` says how far an exchange had come, and with it who has to do something about the failure.
"""

from typing import ClassVar, Final, Literal, TypeAlias, get_args

from dragoman.errors import DragomanError
from dragoman.turn.answer import Answer

Stage: TypeAlias = Literal[
    "connect",  # nobody there
    "tls",  # somebody there who is not trusted, or does not trust us
    "http",  # the server refuses, fails, or breaks its HTTP
    "sse",  # the answer's framing is broken
    "json",  # what a frame or a body holds is not JSON
    "protocol",  # JSON, but not the dialect: wrong order, a missing end
    "limit",  # one of `Limits` was passed, on purpose or not
    "timeout",  # one of `Timeouts` was passed
    "cancelled",  # somebody closed the stream or the client meanwhile
]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


class ClientError(DragomanError):
    """An exchange failed."""

    exit_code: ClassVar[int] = 3

    def __init__(  # noqa: PLR0913 -- all that is known of a failure
        self,
        stage: Stage,
        message: str,
        *,
        status: int = 0,
        request_id: str = "",
        retry_after: float | None = None,
        code: str = "",
        kind: str = "",
        received: Answer | None = None,
    ) -> None:
        self.stage: Stage = stage
        self.message = message
        self.status = (
            status  # of the HTTP answer, or what an error inside it says; 0: there is none
        )
        self.request_id = request_id  # the server's name for the request
        self.retry_after = retry_after  # seconds that the server asks to wait
        self.code = code  # a word for programs: the vendor's own, or ours
        self.kind = kind  # what it means, whatever the vendor's words: a value of `FaultKind`
        self.received = received  # what had come until then; None: nothing
        super().__init__(f"{stage}: {message}")
