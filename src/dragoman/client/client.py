"""The asynchronous client."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from dragoman.client.settings import Timeouts
from dragoman.client.stream import AnswerStream
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles.profile import Profile
from dragoman.transport import TLS
from dragoman.turn.fold import Answer
from dragoman.turn.request import DialectName, Request


class Client:
    """Ask one server.  Immutable; to be shared between tasks and threads.

    Connections belong to the event loop in which they were made: leave `async with`, or call `close`, in
    each loop that used the client.
    """

    def __init__(  # noqa: PLR0913 -- each setting has its name
        self,
        base_url: str,
        *,
        dialect: DialectName = "chat",
        model: str = "",
        key: str = "",
        profile: Profile | str = "",
        native_format: str = "auto",
        limits: Limits = DEFAULT_LIMITS,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 -- immutable
        tls: TLS = TLS(),  # noqa: B008 -- immutable
        headers: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        raise NotImplementedError

    async def create(self, request: Request, /) -> Answer:
        """Return the whole answer to a request.

        Raises:
            ClientError: there is none.
        """
        raise NotImplementedError

    def stream(self, request: Request, /) -> AnswerStream:
        """Return the answer as it comes: `async with client.stream(request) as turn`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connections of this event loop; what is still read ends as `cancelled`."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
