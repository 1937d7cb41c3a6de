"""What can go wrong between us and a server, in words for people and for programs."""

import errno
import os
import socket
import ssl
from typing import Final, Literal, TypeAlias

from dragoman.errors import TooLargeError

# How far an exchange had come: no connection, no trust, no proper answer, or one that broke off.
Stage: TypeAlias = Literal["connect", "tls", "http"]


NO_DESCRIPTORS: Final = "no_descriptors"
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})


class TransportError(Exception):
    """There is no answer, or it broke off."""

    def __init__(self, stage: Stage, code: str, reason: str) -> None:
        self.stage = stage
        self.code = code  # a word for programs
        self.reason = reason
        super().__init__(reason)

    def again(self) -> "TransportError":
        """Return an equal failure to raise.

        The one that a connection keeps is never raised: its traceback would refer to the reader's frames,
        and these to the connection, for as long as no collector runs.
        """
        return TransportError(self.stage, self.code, self.reason)


def unreachable(where: str, error: OSError, *, secure: bool) -> TransportError:
    """Return why there is no connection; `secure` says that TLS was to be spoken on it."""
    match error:
        case ssl.SSLError():
            return untrusted(where, error)
        case TimeoutError():
            message = f"no connection to {where} in time"
            return TransportError("connect", "connect_timeout", message)
        # Test: test_each_error_before_the_request_has_its_stage_and_code.
        case ConnectionResetError() | ConnectionAbortedError() if secure:
            return untrusted(where, "the server closed the connection in the middle of it")
    number = error.errno
    if number in _EXHAUSTED:
        message = f"no file descriptor is free for a connection to {where}"
        return TransportError("connect", NO_DESCRIPTORS, message)
    # Test: test_a_refused_connection_does_not_repeat_the_systems_words.
    if number == errno.ECONNREFUSED:  # opencode retries whatever contains the system's own words
        message = f"nothing accepts connections at {where}"
        return TransportError("connect", "upstream_unreachable", message)
    named = number is not None and number > 0 and not isinstance(error, socket.gaierror)
    why = os.strerror(number) if named and number else error.strerror or str(error)
    return TransportError("connect", "upstream_unreachable", f"cannot connect to {where}: {why}")


def untrusted(where: str, why: object) -> TransportError:
    return TransportError("tls", "upstream_tls", f"TLS to {where} failed: {why}")


def unanswered(where: str) -> TransportError:
    message = f"{where} closed the connection without an answer"
    return TransportError("http", "upstream_closed", message)


def truncated() -> TransportError:
    return TransportError("http", "upstream_truncated", "upstream stream terminated unexpectedly")


def malformed(where: str, why: object) -> TransportError:
    message = f"{where} did not answer in HTTP: {' '.join(str(why).split())[:200]}"
    return TransportError("http", "upstream_malformed", message)


def too_large(passed: TooLargeError) -> TransportError:
    return TransportError("http", passed.limit, f"the server's answer is refused: {passed}")


def no_address(url: object) -> TransportError:
    message = f"`{url}` is not a usable address"
    return TransportError("connect", "upstream_address", message)
