"""The life of the server: start, signals, reload, drain."""

import asyncio
import gc
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias

from aiohttp import web
from msgspec import structs

from dragoman.errors import ConfigError, DragomanError, cannot_listen
from dragoman.event_loop import new_event_loop, on_signal
from dragoman.gateway.app import Gateway
from dragoman.gateway.capacity import Descriptors, share_out
from dragoman.gateway.config.settings import Route, Settings, Store, Upstream
from dragoman.gateway.connections import ClientServer
from dragoman.gateway.inspection import Inspection
from dragoman.gateway.keys import Keyring
from dragoman.gateway.logging import Logger, http_logger
from dragoman.gateway.origins import is_loopback
from dragoman.gateway.plan import Plan, secrets_of
from dragoman.gateway.reasoning_memory import ReasoningMemory
from dragoman.gateway.responses.redis_tables import RedisTables
from dragoman.gateway.responses.store import open_store
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.state.state import State, open_state
from dragoman.gateway.traces import open_traces
from dragoman.gateway.workers import Workers, let_signals_in

if sys.platform != "win32":
    import fcntl
    import resource

# Something that must run beside the gateway and may change its settings, such as the simulator.
Companion: TypeAlias = Callable[[Settings], AbstractAsyncContextManager[Settings]]

_GARBAGE: Final = 20_000  # new objects before the garbage collector runs: requests make many objects and few reference cycles
_BACKLOG: Final = 1024
_FIRST_PASSED: Final = 3  # the file descriptor of the first socket that systemd passes
_MANY_DESCRIPTORS: Final = 65536  # where the system names no bound
# On Linux each worker binds the port, and the kernel distributes connections among them.  Elsewhere the kernel
# gives all of them to one worker, so the workers accept from one socket that they inherit.
_KERNEL_DISTRIBUTES: Final = sys.platform == "linux"
_LAST_WORDS_SECONDS: Final = 2.0  # for the ends of streams that did not end in time
_CLOSE_SECONDS: Final = 1.0  # for handlers that are left after that


class Running:
    """A gateway in this event loop: `async with Running(settings) as running: running.url`."""

    def __init__(
        self,
        settings: Settings,
        *,
        logger: Logger | None = None,
        seal_key: bytes = b"",
        bound: socket.socket | None = None,
        shared: Path | None = None,
    ) -> None:
        """`shared` is a folder in which several workers exchange their figures and count the limits of keys."""
        self._settings = settings
        self._secrets = secrets_of(settings)
        self._logger = logger or Logger.of(settings.log, secrets=self._secrets)
        self._seal_key = _seal_key(settings) or seal_key or os.urandom(32)
        self._socket = bound
        self._shared = shared
        self._stack = AsyncExitStack()
        self.port: int = 0
        self.gateway: Gateway

    async def __aenter__(self) -> Self:
        settings = self._settings
        async with AsyncExitStack() as stack:
            state = await open_state(settings.server, self._shared, self._logger)
            stack.push_async_callback(state.close)
            keyring = Keyring(settings.server.keys, state)
            plan = self._plan(settings, keyring)
            store = await open_store(
                settings.store,
                environ=os.environ,
                owners=keyring.owners,
                shared=_tables(settings, state),
            )
            memory = ReasoningMemory(
                entries=settings.store.reasoning_entries,
                seconds=settings.store.reasoning_seconds,
                notes=state.notes,
            )
            limits = settings.server.limits
            runtime = Runtime(
                logger=self._logger, store=store, memory=memory, state=state, limits=limits
            )
            stack.push_async_callback(runtime.close)
            if self._shared is not None:
                runtime.metrics.share(self._shared)
            runtime.traces = open_traces(settings.traces, self._logger)
            await runtime.recorder.configure(settings.record, self._secrets)
            self.gateway = Gateway(plan, runtime)
            plan.warm()
            room = _room()
            server = ClientServer(
                self.gateway.handle,
                settings=lambda: self.gateway.plan.settings.server,
                room=room,
                notices=self._logger,
                access_log=None,
                auto_decompress=False,  # bodies are unpacked where their size is watched
                logger=http_logger(self._logger),
            )
            runner = web.ServerRunner(server, shutdown_timeout=_CLOSE_SECONDS)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            bound = self._socket or bind(settings.server.host, settings.server.port)
            self.port = bound.getsockname()[1]
            self.gateway.inspection = Inspection(
                record=settings.record,
                address=f"{_in_url(settings.server.host)}:{self.port}",
                keyring=lambda: self.gateway.plan.keyring,
                running=self.gateway.running,
                logger=self._logger,
                secret=self._seal_key,
            )
            stack.callback(self.gateway.inspection.inspector.close)
            backlog = _BACKLOG if room is None else room.backlog
            await web.SockSite(runner, bound, backlog=backlog).start()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        return url_of(self._settings.server.host, self.port)

    def reload(self, settings: Settings) -> None:
        """Use other settings for the requests that come from now on.

        Address, number of processes, store, state and traces stay as they are until a restart.

        Raises:
            ConfigError: the settings cannot be used; the old ones stay.
        """
        gateway = self.gateway
        keyring = Keyring(settings.server.keys, gateway.runtime.state)
        keyring.adopt(gateway.plan.keyring)
        plan = self._plan(settings, keyring)
        plan.warm()
        gateway.plan = plan
        gateway.runtime.forget()
        gateway.runtime.given.keep_only(keyring.owners)
        if gateway.runtime.store is not None:
            gateway.runtime.store.set_owners(keyring.owners)
        self._secrets = secrets_of(settings)
        gateway.runtime.logger.secrets = self._secrets
        gateway.runtime.recorder.reconfigure(settings.record, self._secrets)
        if gateway.inspection is not None:
            gateway.inspection.reconfigure(settings.record)
        self._settings = settings

    async def stop(self) -> bool:
        """Let streams end, then end those that are left; return whether all ended by themselves."""
        late = await self.gateway.drain(self._settings.server.drain_seconds)
        if late:
            try:
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await self.gateway.gone()
            except TimeoutError:
                pass
        return not late

    def _plan(self, settings: Settings, keyring: Keyring) -> Plan:
        return Plan(settings, seal_key=_seal_key(settings) or self._seal_key, keyring=keyring)


def _tables(settings: Settings, state: State) -> Callable[[Store], RedisTables] | None:
    """Return what opens the stored responses that several gateways share; None: there are none."""
    if settings.server.state is None:
        return None
    url = settings.server.state.value
    return lambda store: RedisTables(
        url,
        max_bytes=store.max_bytes,
        max_age_days=store.max_age_days,
        available=lambda: state.status == "connected",
    )


def _room() -> Descriptors | None:
    """Return how many connections this process has descriptors for; None: unlimited."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else share_out(soft)


def _raise_descriptor_limit() -> None:
    """Allow this process as many file descriptors as it may have: an answer needs two of them."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with suppress(ValueError, OSError):  # the system allows less than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _keep_from_cleaners(folder: Path) -> None:
    """Lock a folder as long as this process lives: systemd-tmpfiles removes old files, but nothing below a lock."""
    if sys.platform != "win32":
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)


def _seal_key(settings: Settings) -> bytes:
    secret = settings.server.seal_key
    return b"" if secret is None else secret.value.encode()


def bind(host: str, port: int, *, share: bool = False) -> socket.socket:
    """Return a socket on an address; with `share`, other processes may bind the same one.

    Raises:
        ConfigError: the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there the option would let another program take over the port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if share:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise cannot_listen(host, port, error) from error
    return bound


def url_of(host: str, port: int) -> str:
    """Return the address at which clients on this machine reach a gateway."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- shown only
    return f"http://{_in_url(shown)}:{port}"


def inherited_socket(environ: MutableMapping[str, str]) -> socket.socket | None:
    """Return the listening socket that systemd passes to this process (socket activation), if it does.

    Its variables are removed: they are not meant for processes that this one starts.

    Raises:
        ConfigError: it passes something else than one TCP socket.
    """
    count, process = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not count or process != str(os.getpid()):
        return None
    if count != "1":
        raise ConfigError(f"systemd passes {count} sockets (LISTEN_FDS); the gateway takes one")
    try:
        bound = socket.socket(fileno=_FIRST_PASSED)
        listens = bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ConfigError(f"the socket that systemd passes cannot be used: {error}") from error
    if bound.family not in (socket.AF_INET, socket.AF_INET6) or not listens:
        raise ConfigError("the socket that systemd passes does not listen on a TCP port")
    bound.set_inheritable(False)
    return bound


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# --- the process -----------------------------------------------------------------------------------


class Service:
    """What one process runs until a signal to stop."""

    def __init__(
        self,
        settings: Settings,
        *,
        reload: Callable[[], Settings] | None = None,
        companion: Companion | None = None,
        announce: Callable[[str], object] = str,
    ) -> None:
        self._settings = settings
        self._reload = reload
        self._companion = companion
        # What the companion has put into the settings.
        self._companions: tuple[dict[str, Upstream], tuple[Route, ...]] | None = None
        self._announce = announce
        self._shared: Path | None = None  # a folder for the figures of several workers
        self._passed: socket.socket | None = None  # by systemd
        self._note_served: Callable[[], object] = object

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code."""
        _raise_descriptor_limit()
        self._passed = inherited_socket(os.environ)
        self._settings = self._at_passed(self._settings)
        server = self._settings.server
        seal_key = os.urandom(32)
        if server.workers == 1:
            return _run(self._main(self._passed or bind(server.host, server.port), seal_key))
        bound = self._passed or bind(server.host, server.port, share=_KERNEL_DISTRIBUTES)
        port = bound.getsockname()[1]
        self._settings = structs.replace(self._settings, server=structs.replace(server, port=port))
        Plan(
            self._settings, seal_key=seal_key, keyring=Keyring(server.keys)
        )  # report mistakes once, not in every worker
        workers = Workers(
            server.workers, lambda first: self._work(bound, seal_key, first=first), self._reread
        )
        self._note_served = workers.note_served
        with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
            self._shared = Path(folder)
            _keep_from_cleaners(self._shared)
            return workers.run(bound)

    def _at_passed(self, settings: Settings) -> Settings:
        """Return settings with the address of the socket that systemd passed, if it did.

        Raises:
            ConfigError: it can be reached from the network, and no key is required.
        """
        if self._passed is None:
            return settings
        host, port = self._passed.getsockname()[:2]
        server = structs.replace(settings.server, host=host, port=port)
        if not (server.keys or server.insecure or is_loopback(host)):
            message = f"the socket that systemd passes, `{host}`, can be reached from the network, and no key is required"  # fmt: skip
            raise ConfigError(message)
        return structs.replace(settings, server=server)

    def _reread(self) -> None:
        """Read the file again, for workers that start later; the running workers report its mistakes."""
        if self._reload is None:
            return
        server = self._settings.server
        with suppress(DragomanError):
            settings = self._with_companion(self._reload(), running=False)
            here = structs.replace(settings.server, host=server.host, port=server.port)
            self._settings = structs.replace(settings, server=here)

    def _work(self, bound: socket.socket, seal_key: bytes, *, first: bool) -> int:
        server = self._settings.server
        if not first:
            self._announce = str
        if _KERNEL_DISTRIBUTES and self._passed is None:
            bound = bind(server.host, server.port, share=True)
        return _run(self._main(bound, seal_key))

    async def _main(self, bound: socket.socket, seal_key: bytes) -> int:
        async with AsyncExitStack() as stack:
            settings = self._settings
            if self._companion is not None and not settings.upstreams:
                settings = await stack.enter_async_context(self._companion(settings))
                self._companions = (settings.upstreams, settings.routes)
            running = await stack.enter_async_context(
                Running(settings, seal_key=seal_key, bound=bound, shared=self._shared)
            )
            logger = running.gateway.runtime.logger
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                on_signal(number, partial(self._on_stop_signal, stop, running))
            if hasattr(signal, "SIGHUP"):
                on_signal(signal.SIGHUP, partial(self._on_reload_signal, running))
                let_signals_in()
            # What was made so far stays: to look through it again and again would hold up streams.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GARBAGE)
            logger.notice("started", url=running.url, process=os.getpid())
            self._note_served()
            self._announce(running.url)
            await stop.wait()
            logger.notice("draining", process=os.getpid())
            clean = await running.stop()
            logger.notice("stopped", process=os.getpid(), all_streams_ended=clean)
        return 0

    def _on_stop_signal(self, stop: asyncio.Event, running: Running) -> None:
        if stop.is_set():  # the second signal: do not wait
            running.gateway.hurry()
        stop.set()

    def _with_companion(self, settings: Settings, *, running: bool = True) -> Settings:
        """Return settings with an upstream: settings without one get the companion's, such as the simulator.

        While the companion is not `running`, such settings are returned unchanged.

        Raises:
            ConfigError: the settings have no upstream, and no companion was started.
        """
        if settings.upstreams or (self._companion is not None and not running):
            return settings
        if self._companions is None:
            raise ConfigError("no upstream is left; the simulator answers only after a restart")
        upstreams, routes = self._companions
        return structs.replace(settings, upstreams=upstreams, routes=routes)

    def _on_reload_signal(self, running: Running) -> None:
        logger = running.gateway.runtime.logger
        if self._reload is None:
            logger.notice("not reloaded", level="warning", why="there is no file to read again")
            return
        try:
            running.reload(self._at_passed(self._with_companion(self._reload())))
        except DragomanError as error:
            logger.notice("not reloaded", level="error", why=str(error))
        else:
            logger.notice("reloaded", process=os.getpid())


def _run(main: Coroutine[None, None, int]) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
