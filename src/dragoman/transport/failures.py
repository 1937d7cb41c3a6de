"""Failures between us and a server, each with a message for people and a code for programs."""

import errno
import os
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
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
    """Return the error for a connection that could not be opened.

    With `secure` it was to use TLS: a server that closes it then has refused the handshake.
    """
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


# --- proxies ---


def of_proxy(failed: TransportError) -> TransportError:
    """Return a failure between us and a proxy, under a code that names the proxy."""
    code = failed.code.replace("upstream_", "proxy_")
    return TransportError(failed.stage, code, failed.reason)


def refused_by_proxy(
    proxy: str, server: str, status: int, headers: Mapping[str, str], *, shown: bool
) -> TransportError:
    """Return why a proxy does not connect to a server; `shown`: it was sent credentials."""
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return TransportError("connect", "proxy_auth", _wanted_by(proxy, headers, shown=shown))
    phrase = f"{status} {_PHRASES.get(status, '')}".rstrip()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        message = f"the proxy {proxy} cannot connect to {server} ({phrase})"
        return TransportError("connect", "proxy_cannot_connect", message)
    message = f"the proxy {proxy} does not allow a connection to {server} ({phrase}); its operator must allow it"
    return TransportError("connect", "proxy_refused", message)


def _wanted_by(proxy: str, headers: Mapping[str, str], *, shown: bool) -> str:
    """Return what is wrong with our credentials, or with a proxy that wants others than Basic."""
    asked = headers.get("proxy-authenticate", "")
    schemes = {word for word in _SCHEMES if word.lower() in asked.lower()}
    if schemes and "Basic" not in schemes:
        listed = " or ".join(sorted(schemes))
        return (
            f"the proxy {proxy} wants {listed} authentication (407), and only Basic is supported; "
            "run a local proxy that signs in to it, such as cntlm or px, and name that one"
        )
    if shown:
        return f"the proxy {proxy} rejects the user and password of its address (407)"
    return (
        f"the proxy {proxy} wants a user and a password (407); "
        "put `USER:PASSWORD@` before the host of its address"
    )


_PHRASES: Final = {int(one): one.phrase for one in HTTPStatus}
_SCHEMES: Final = ("Basic", "Digest", "Kerberos", "Negotiate", "NTLM")


def no_address(url: object) -> TransportError:
    message = f"`{url}` is not a usable address"
    return TransportError("connect", "upstream_address", message)
