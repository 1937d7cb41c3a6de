"""What is learned about a request while it is answered."""

from dragoman.gateway.config.settings import Timeouts, Upstream
from dragoman.gateway.request_context import RequestOutcome
from dragoman.gateway.routing import Hop
from dragoman.profiles import profile
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.losses import Loss


def test_a_failed_attempt_is_kept_with_its_upstream_and_its_reason() -> None:
    outcome = RequestOutcome()
    hop = Hop(
        upstream_name="up",
        upstream=Upstream(base_url="http://h/v1"),
        model="m",
        profile=profile("generic"),
        format_name="none",
        timeouts=Timeouts(),
    )

    outcome.note_failure(hop, 1, Fault(FaultKind.RATE_LIMIT, "up: too many requests", status=429))
    outcome.note_failure(hop, 2, Fault(FaultKind.TIMEOUT, "x" * 100_000))

    first, second = outcome.failures
    assert "up/m attempt 1: rate_limit 429: too many requests" == first
    assert second.startswith("up/m attempt 2: timeout: xxx")
    assert len(second) < 1000


def test_losses_of_request_and_answer_are_listed_in_the_order_of_their_steps() -> None:
    guard, asked, answered = (Loss(code, "$", "") for code in ("tool_loop", "a", "b"))
    outcome = RequestOutcome(
        guard_losses=(guard,), request_losses=(asked,), answer_losses=[answered]
    )

    assert (guard, asked, answered) == outcome.losses
