"""Errors of the operating system as failures of one exchange."""

import errno
import socket

import pytest

from dragoman.transport.failures import NO_DESCRIPTORS, unreachable


@pytest.mark.parametrize(
    ("error", "secure", "stage", "code"),
    [
        (ConnectionResetError(), True, "tls", "upstream_tls"),
        (ConnectionAbortedError(), True, "tls", "upstream_tls"),
        (ConnectionResetError(), False, "connect", "upstream_unreachable"),
        (TimeoutError(), True, "connect", "connect_timeout"),
        (OSError(errno.EMFILE, "full"), False, "connect", NO_DESCRIPTORS),
        (OSError(errno.ECONNREFUSED, "refused"), False, "connect", "upstream_unreachable"),
        (socket.gaierror(-2, "unknown name"), False, "connect", "upstream_unreachable"),
    ],
)
def test_each_error_before_the_request_has_its_stage_and_code(
    error: OSError, secure: bool, stage: str, code: str
) -> None:
    failure = unreachable("upstream:443", error, secure=secure)

    assert (stage, code) == (failure.stage, failure.code)
    assert "upstream:443" in failure.reason


def test_a_refused_connection_does_not_repeat_the_systems_words() -> None:
    failure = unreachable("upstream:443", OSError(errno.ECONNREFUSED, "refused"), secure=False)

    assert "nothing accepts connections at upstream:443" == failure.reason
