"""Several processes on one port, each with its own event loop; the first process only supervises them."""

import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dragoman.errors import ConfigError, DragomanError

_RESTARTS: Final = 5  # of one worker within the window, before something is wrong with all of them
_WINDOW_SECONDS: Final = 120.0
_FIRST_DELAY: Final = 0.25  # seconds before the second restart within the window, doubled with each
_LONGEST_DELAY: Final = 5.0
_STEP_SECONDS: Final = 0.05  # in which a signal to stop is noticed
_PASSED_ON: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)


def let_signals_in() -> None:
    """Accept signals from now on; they are blocked while a worker starts, so that none ends it too early."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


class Deaths:
    """How many workers ended of late.  One that ends now and then, over weeks, does not count."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._times: deque[float] = deque()

    def note(self, now: float, serving_since: float | None = None) -> float | None:
        """Return the seconds to wait before a worker that ended is replaced; None: the gateway gives up.

        It does not give up while a worker that began at `serving_since` has served for longer than the window.
        """
        times = self._times
        times.append(now)
        while times[0] <= now - _WINDOW_SECONDS:
            times.popleft()
        if len(times) > self._allowed:
            steady = serving_since is not None and serving_since <= now - _WINDOW_SECONDS
            return _LONGEST_DELAY if steady else None
        doubled = _FIRST_DELAY * 2.0 ** min(len(times) - 2, 10)
        return 0.0 if len(times) == 1 else min(_LONGEST_DELAY, doubled)


class Workers:
    """`count` processes that each do `work`; this one calls `reread` when they are to read the settings again."""

    def __init__(
        self, count: int, work: Callable[[bool], int], reread: Callable[[], object]
    ) -> None:
        self._count = count
        self._work = work
        self._reread = reread
        self._children: dict[int, float] = {}  # when each began
        self._stopping = False
        self._bound: socket.socket
        # Nothing is written to it.  Only this process has its second end, so the first ends with this process.
        self._lifeline = os.pipe()
        # Shared with the workers: not 0 once one of them has served.
        self._served = mmap.mmap(-1, 1)

    def note_served(self) -> None:
        """Note, in a worker, that the settings can be used."""
        self._served[0] = 1

    def run(self, bound: socket.socket) -> int:
        """Keep them running until a signal to stop; `bound` holds the port until then."""
        self._bound = bound
        with bound:
            for name in _PASSED_ON:
                signal.signal(name, self._pass_on)
            for number in range(self._count):
                self._fork(first=number == 0)
            deaths = Deaths(_RESTARTS * self._count)
            worst = 0
            while self._children:
                child, status = os.wait()
                self._children.pop(child, None)
                code = os.waitstatus_to_exitcode(status)
                if not self._served[0] and code == ConfigError.exit_code and not self._stopping:
                    self._pass_on(signal.SIGTERM)  # its mistake is that of all, and it is reported
                if self._stopping:
                    worst = max(worst, abs(code))
                    continue
                delay = deaths.note(time.monotonic(), min(self._children.values(), default=None))
                if delay is None:
                    _report(
                        f"worker {child} ended with {code}; too many have ended, so the others are stopped"
                    )
                    self._pass_on(signal.SIGTERM)
                    worst = 1
                    continue
                _report(f"worker {child} ended with {code}; it is replaced")
                self._pause(delay)
                self._fork()
        return worst

    def _pause(self, seconds: float) -> None:
        """Wait, unless a signal to stop came: a signal's handler does not end a sleep."""
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STEP_SECONDS))

    def _pass_on(self, number: int, frame: object = None) -> None:
        for child in tuple(self._children):
            with suppress(ProcessLookupError):  # it ended just now
                os.kill(child, number)
        if number != signal.SIGHUP:
            self._stopping = True
            self._bound.close()  # workers that inherited it stop listening; then connections are refused
        else:
            self._reread()  # for those that take the place of others

    def _fork(self, *, first: bool = False) -> None:
        # A signal that comes now waits until it is known whose it is.
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        child = -1 if self._stopping else os.fork()
        if child:
            if child > 0:
                self._children[child] = time.monotonic()
            let_signals_in()
            return
        for name in _PASSED_ON:
            signal.signal(name, signal.SIG_DFL)
        code = 1  # signals wait until the work lets them in
        os.close(self._lifeline[1])
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        try:
            code = self._work(first)
        except DragomanError as error:
            code = error.exit_code
            _report(str(error))
        except Exception as error:
            _report(f"this worker cannot continue: {error!r}")
            raise
        finally:
            os._exit(code)

    def _end_with_parent(self) -> None:
        """Stop this worker as a signal does when the process that made it is gone: nothing else could stop it."""
        os.read(self._lifeline[0], 1)
        _report("the first process ended; this worker stops")
        os.kill(os.getpid(), signal.SIGTERM)


def _report(text: str) -> None:
    """Write a line to standard error.  If it cannot be written, the workers go on: its disk is full, or its reader is gone."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"dragoman: {text}\n")
        sys.stderr.flush()
