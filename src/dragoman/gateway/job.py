"""One request as the pump knows it: what is to be done, and what became of it."""

from collections.abc import Mapping, Sequence

from dragoman.gateway.capacity import HeldBytes
from dragoman.gateway.client_stream import ClientStream
from dragoman.gateway.plan import Plan
from dragoman.gateway.routing import Choice, Hop
from dragoman.translate import Translator
from dragoman.translate_requests import ClientRequest
from dragoman.turn.events import Fault, Finish, Usage
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request


class Job:
    """One request: what the pump must know of it, and what became of it."""

    def __init__(  # noqa: PLR0913 -- each is known from another place
        self,
        *,
        plan: Plan,
        request_id: str,
        owner: str,
        client: ClientRequest,
        request: Request,
        previous: str,
        headers: Mapping[str, str],
        choice: Choice,
        guess: int,
        estimate: int,
        warnings: tuple[Loss, ...],
        cors: Mapping[str, str],
        held: HeldBytes,
        notes_ids: bool,
        flight: ClientStream,
    ) -> None:
        self.plan = plan
        self.request_id = request_id
        self.owner = owner  # whose request it is
        self.client = client
        self.previous = previous  # Responses: the kept answer that the request goes on from
        self.warnings = warnings  # of guards
        self.notes_ids = notes_ids  # ids of the answer are remembered for this owner
        self.given: set[str] = set()  # such ids so far
        self.cors = cors  # what lets a page read the answer
        self.request = request  # what to say upstream: the client's, after guards and overrides
        self.headers = headers  # the client's
        self.choice = choice
        self.guess = guess  # tokens of the request, before reports about its model correct it
        self.estimate = estimate  # after
        self.held = held  # the bytes of its body, as they are counted
        self.flight = flight
        self.dialect = client.request.dialect
        # What became of it.
        self.hop: Hop = choice.hops[0]
        self.retries = 0
        self.upstream_id = ""  # how the upstream calls this request
        self.should_retry: bool | None = None  # what it says of another attempt
        self.rate_limits: Mapping[str, str] = {}  # and of its limits, in the client's words
        self.request_losses: tuple[Loss, ...] = ()
        self.answer_losses: Sequence[Loss] = ()
        self.usage: Usage | None = None
        self.outcome: Finish | Fault | None = None
        self.calls: list[str] = []
        self.translator: Translator | None = None  # of the stream that was begun, if one was

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was not carried, either way, so far."""
        return (*self.warnings, *self.request_losses, *self.answer_losses)

    def forget(self, outline: Request, *, body: bool) -> None:
        """Let go of what was asked, once the answer has begun: it may go on for long.

        `body`: the bytes of the request too, which nobody will keep.
        """
        self.request = outline
        self.client = ClientRequest(b"" if body else self.client.body, outline)
        if body:
            self.held.release()
