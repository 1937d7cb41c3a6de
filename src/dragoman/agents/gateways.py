"""The gateway of an agent: one started for it in a thread, or one that runs already."""

import asyncio
import os
import stat
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar, Final, Self, TextIO
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from dragoman.agents.agent import NO_KEY, Agent, Session, Window
from dragoman.agents.models import ListedModel, choose, window
from dragoman.errors import ConfigError, DragomanError
from dragoman.event_loop import new_event_loop
from dragoman.gateway.config.settings import DEFAULT_HOST, Secret, Settings
from dragoman.gateway.logging import Logger
from dragoman.gateway.plan import secrets_of
from dragoman.gateway.routing import Router
from dragoman.gateway.serve import Companion, Running, url_of

_SECONDS: Final = 10.0  # the gateway may have to ask its upstreams
_MAX_BYTES: Final = 8 * 1024 * 1024
_LOG_NAME: Final = "run.log"
_MAX_LOG_BYTES: Final = 8 * 1024 * 1024  # the next run truncates a larger file
# For requests that still run after the agent has ended: no client waits for them.
_LAST_SECONDS: Final = 1.0


class ModelOptions(Struct, frozen=True, kw_only=True):
    """The user's options for models."""

    model: str = ""
    small: str = ""
    window: Window = Window()


class AgentGateway(Struct, frozen=True, kw_only=True):
    """A gateway that runs, and what was read from it."""

    url: str
    serve_url: (
        str  # where `dragoman serve` would be with the same settings; empty: on any free port
    )
    key: Secret  # its source is empty if there is no key
    listed: list[ListedModel]
    router: Router | None = None  # None: this process did not start the gateway

    def session(self, agent: Agent, options: ModelOptions) -> Session:
        """Return the gateway, key and models for an agent.

        Raises:
            ConfigError: no model is given, and the gateway lists none.
        """
        choice = choose(
            agent, model=options.model, small=options.small, listed=self.listed, router=self.router
        )
        sizes = window(agent, choice, asked=options.window, listed=self.listed, router=self.router)
        return Session(
            url=self.url,
            key=self.key.value,
            model=choice.model,
            small=choice.small,
            window=sizes,
        )


def running_gateway(url: str, key: Secret | None) -> AgentGateway:
    """Return the gateway at an address.

    Raises:
        ConfigError: it is not an address, or the key is refused.
        UnreachableError: no gateway answers there.
    """
    clean = address(url)
    check_health(clean)
    shown = key or Secret("", NO_KEY)
    listed = list_models(clean, shown.value)
    return AgentGateway(url=clean, serve_url=clean, key=shown, listed=listed)


@contextmanager
def own_gateway(
    settings: Settings, *, key: Secret | None, log: TextIO, companion: Companion | None
) -> Iterator[AgentGateway]:
    """Run a gateway for as long as it is needed.

    Raises:
        ConfigError: the settings cannot be used.
    """
    if key is None and settings.server.keys:
        key = settings.server.keys[0].key
    shown = key or Secret("", NO_KEY)
    server = settings.server
    with GatewayThread(settings, log=log, companion=companion) as gateway:
        yield AgentGateway(
            url=gateway.url,
            serve_url=url_of(server.host, server.port) if server.port else "",
            key=shown,
            listed=list_models(gateway.url, shown.value),
            router=Router(gateway.settings),
        )


def key_from(variable: str, environ: Mapping[str, str]) -> Secret:
    """Return the key that a variable holds.

    Raises:
        ConfigError: it holds none.
    """
    value = environ.get(variable, "").strip()
    if not value:
        raise ConfigError(f"--key-env: environment variable {variable} is not set")
    return Secret(f"env:{variable}", value)


def log_path(environ: Mapping[str, str]) -> Path:
    """Return the log file of an agent's own gateway, in the state folder of the XDG specification."""
    base = environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return folder / "dragoman" / _LOG_NAME


@contextmanager
def open_log(path: Path) -> Iterator[TextIO]:
    """Open a log file to append to; a large one is truncated, a new one is readable by its owner only.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        large = path.is_file() and path.stat().st_size > _MAX_LOG_BYTES
        file = os.open(
            path,
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if large else 0),
            stat.S_IRUSR | stat.S_IWUSR,
        )
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}; name another file with --log"
        raise ConfigError(message) from error
    with os.fdopen(file, "a", encoding="utf-8") as stream:
        yield stream


# --- a gateway in a thread of this process ---


class GatewayThread:
    """A gateway on a free port of loopback, for as long as an agent runs.

    `with GatewayThread(settings, log=file) as gateway: gateway.url`
    """

    def __init__(
        self, settings: Settings, *, log: TextIO, companion: Companion | None = None
    ) -> None:
        server = structs.replace(
            settings.server, host=DEFAULT_HOST, port=0, workers=1, drain_seconds=_LAST_SECONDS
        )
        self._settings = structs.replace(settings, server=server)
        self._companion = companion
        self._log = log
        self._thread = threading.Thread(target=self._run, name="dragoman-gateway", daemon=True)
        self._started: Future[tuple[str, Settings]] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.url: str = ""
        self.settings: Settings = settings  # as they are served: with the companion's changes

    def __enter__(self) -> Self:
        self._thread.start()
        self.url, self.settings = self._started.result()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # raised where the gateway was asked for

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            settings = self._settings
            if self._companion is not None:
                settings = await stack.enter_async_context(self._companion(settings))
            logger = Logger.of(settings.log, secrets=secrets_of(settings), stream=self._log)
            running = await stack.enter_async_context(Running(settings, logger=logger))
            self._started.set_result((running.url, settings))
            await self._stop.wait()
            await running.stop()


# --- requests to a gateway ---


class UnreachableError(DragomanError):
    """No gateway answers where one should be."""

    exit_code: ClassVar[int] = 3


class _Page(Struct, frozen=True):
    data: list[ListedModel]


_PAGE: Final = msgspec.json.Decoder(_Page)


def address(text: str) -> str:
    """Return a gateway's address as agents need it: without `/v1` and without a last slash.

    Raises:
        ConfigError: it is not an address.
    """
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise ConfigError(f"--gateway: `{text}` is not an address such as http://127.0.0.1:8484")
    return text.rstrip("/").removesuffix("/v1")


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_health(url: str) -> None:
    """Check that a gateway is alive.

    Raises:
        UnreachableError: it does not, or something else is there.
    """
    try:
        _get(f"{url}/health", {})
    except urllib.error.HTTPError as error:
        message = f"{url}/health answers {error.code}: it is not a running gateway"
        raise UnreachableError(message) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        message = f"no gateway answers at {url}: {reason}; start one with `dragoman serve`"
        raise UnreachableError(message) from error


def list_models(url: str, key: str) -> list[ListedModel]:
    """Return the models of a gateway; an empty list if it does not list them.

    Raises:
        ConfigError: it refuses the key.
    """
    try:
        return _PAGE.decode(_get(f"{url}/v1/models", {"authorization": f"Bearer {key}"})).data
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            message = f"the gateway at {url} refuses the key: name the variable that holds one with --key-env"
            raise ConfigError(message) from error
        return []
    except (OSError, HTTPException, msgspec.DecodeError):
        return []


def _get(url: str, headers: dict[str, str]) -> bytes:
    proxies = urllib.request.ProxyHandler({} if is_loopback(url) else None)
    opener = urllib.request.build_opener(proxies)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- `address` allows http(s)
    with opener.open(request, timeout=_SECONDS) as response:
        data: bytes = response.read(_MAX_BYTES)
    return data
