"""Failures that only Chat Completions reports in this form."""

from dragoman.dialects.chat.errors import finish_fault
from dragoman.dialects.openai_errors import decode_fault, encode_fault
from dragoman.turn.events import FaultKind


def test_g1_finish_reason_that_is_an_error_is_a_failure_of_the_upstream() -> None:
    fault = finish_fault("network_error")

    assert (FaultKind.UPSTREAM_BAD, "upstream_error") == (fault.kind, fault.code)
    assert "network_error" in fault.message
    assert fault.kind == decode_fault(*encode_fault(fault, "")).kind
