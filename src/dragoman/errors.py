"""The exception tree.  Each class says who is at fault.

    DragomanError
        ProtocolError              abstract
            PeerError              abstract: the peer broke its dialect
                MalformedError          not the grammar: carries the JSON path, where there is one
                    NotJsonError        not even JSON
                IllegalOrderError       grammar fine, sequence not: carries state and event
                TruncatedError          input ended inside something
                TooLargeError           a named limit was passed: carries the limit's name
                    NameTooLongError    by a name or an id: carries its JSON path too
            MisuseError            our caller broke our contract
        UntranslatableError             the target dialect has no form for this: carries the path
        ConfigError                the operator's input is wrong

Each class has an `http_status` and an `exit_code`.
"""

import errno
from collections.abc import Callable, Iterable
from typing import ClassVar


class DragomanError(Exception):
    """The base of all errors that this package raises on purpose.

    Attributes:
        http_status: The status of a server's reply to a request that causes the error, as `error_response` writes it.
        exit_code: What the command line returns: 1, but 2 if its user made the mistake, and 3 if a server failed.
    """

    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Callable[..., "DragomanError"], tuple[object, ...]]:
        """Support copying and pickling, with all attributes."""
        return _restored, (type(self), self.args, vars(self))


def _restored(
    kind: type[DragomanError], args: tuple[object, ...], carried: dict[str, object]
) -> DragomanError:
    error = kind.__new__(kind, *args)
    vars(error).update(carried)
    return error


class ProtocolError(DragomanError):
    """A sequence of bytes, events or calls that the contract does not allow."""


class PeerError(ProtocolError):
    """The peer broke its dialect; the subclasses say how."""

    http_status = 400


class MalformedError(PeerError):
    """The input breaks the dialect's grammar.

    Attributes:
        reason: What is wrong, without the path.
        path: JSON path of the field (`$.messages[2].content`); empty if there is none.
        code: A stable word for programs; may be empty.
    """

    def __init__(self, reason: str, *, path: str = "", code: str = "") -> None:
        self.reason = reason
        self.path = path
        self.code = code
        super().__init__(f"{reason} (at `{path}`)" if path else reason)


class NotJsonError(MalformedError):
    """The input is not JSON."""


class IllegalOrderError(PeerError):
    """The input is well-formed, but not allowed at this point.

    Attributes:
        state: What the stream was in the middle of.
        event: The event that arrived.
        reason: Details; may be empty.
    """

    def __init__(self, *, state: str, event: str, reason: str = "") -> None:
        self.state = state
        self.event = event
        tail = f": {reason}" if reason else ""
        super().__init__(f"`{event}` is not allowed while {state}{tail}")


class TruncatedError(PeerError):
    """The input ended early.

    Attributes:
        inside: What was not complete.
    """

    def __init__(self, inside: str) -> None:
        self.inside = inside
        super().__init__(f"input ended inside {inside}")


class TooLargeError(PeerError):
    """A limit was exceeded.

    Attributes:
        limit: The field of `Limits`.
        allowed: Its value.
    """

    http_status = 413

    def __init__(self, limit: str, allowed: int) -> None:
        self.limit = limit
        self.allowed = allowed
        # Imported here: the command line starts without msgspec.
        from dragoman.limits import describe_excess  # noqa: PLC0415

        super().__init__(describe_excess(limit, allowed))


class NameTooLongError(TooLargeError):
    """A name or an id is longer than any real one."""

    http_status = 400

    def __init__(self, limit: str, allowed: int, *, path: str) -> None:
        super().__init__(limit, allowed)
        self.path = path
        self.args: tuple[str] = (f"{self} (at `{path}`)",)


class MisuseError(ProtocolError):
    """The calling program misuses the API: a wrong type, a wrong order of calls."""

    exit_code = 2


class UntranslatableError(DragomanError):
    """The target dialect cannot express the request.

    Attributes:
        reason: What cannot be expressed, without the path.
        path: JSON path of the field in the client's request.
        code: A stable word for programs, for example `unsupported_parameter`.
    """

    http_status = 400

    def __init__(self, reason: str, *, path: str, code: str = "unsupported_parameter") -> None:
        self.reason = reason
        self.path = path
        self.code = code
        super().__init__(f"{reason} (at `{path}`)" if path else reason)


class ConfigError(DragomanError):
    """A setting is invalid: of the client, the gateway or the command line."""

    exit_code = 2


def cannot_listen(host: str, port: int, error: Exception, *, flag: str = "--port") -> ConfigError:
    """Return the error of a server that cannot listen; `flag` is the option that chooses its port."""
    number = error.errno if isinstance(error, OSError) else None
    where = f"[{host}]" if ":" in host else host
    if number == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {where} is in use; end the program that listens there "
            f"(`dragoman doctor --port {port}` shows what it is), or choose another port with {flag}"
        )
    reason = getattr(error, "strerror", None) or str(error)
    message = f"cannot listen on {where}:{port}: {reason}"
    if number == errno.EACCES:
        return ConfigError(f"{message}; ports below 1024 are reserved, choose another with {flag}")
    return ConfigError(f"{message}; choose another address with --host")


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a question with the nearest known words, or nothing if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 -- only errors need it

    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), by_lower, n=2, cutoff=cutoff)
    return f"did you mean {' or '.join(f'`{by_lower[one]}`' for one in near)}?" if near else ""
