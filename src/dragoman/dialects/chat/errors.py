"""Failures that only Chat Completions reports by a finish reason."""

from dragoman.turn.events import Fault, FaultKind


def finish_fault(reason: str) -> Fault:
    """Return the fault for an answer that ended, as its peer says, in an error."""
    message = f"the upstream ended the answer with `{reason}`"
    return Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_error")
