"""Where an agent works: a gateway of its own, or one that runs already."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct

from dragoman.agents.agent import NO_KEY, Agent, Session, Window
from dragoman.agents.beside import GatewayBeside
from dragoman.agents.models import Listed, choose, window
from dragoman.agents.visit import address, check_health, list_models
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Secret, Settings
from dragoman.gateway.routing import Router
from dragoman.gateway.serve import Companion

_LOG_NAME: Final = "run.log"
_MAX_LOG_BYTES: Final = 8 * 1024 * 1024  # beyond this the next run begins the file anew


class Wishes(Struct, frozen=True, kw_only=True):
    """What the user says about the models."""

    model: str = ""
    small: str = ""
    window: Window = Window()


class Place(Struct, frozen=True, kw_only=True):
    """A gateway that answers."""

    url: str
    serve_url: str  # where `dragoman serve` would be with the same settings
    key: Secret  # its source is empty where no key is asked
    listed: list[Listed]
    router: Router | None = None  # None: the gateway is somebody else's

    def session(self, agent: Agent, wishes: Wishes) -> Session:
        """Return what the agent is told.

        Raises:
            ConfigError: nobody says which model it should ask for.
        """
        choice = choose(
            agent, model=wishes.model, small=wishes.small, listed=self.listed, router=self.router
        )
        sizes = window(agent, choice, asked=wishes.window, listed=self.listed, router=self.router)
        return Session(
            url=self.url,
            key=self.key.value,
            model=choice.model,
            small=choice.small,
            window=sizes,
        )


def running_place(url: str, key: Secret | None) -> Place:
    """Return the gateway at an address.

    Raises:
        ConfigError: it is no address, or the key is refused.
        UnreachableError: no gateway answers there.
    """
    clean = address(url)
    check_health(clean)
    shown = key or Secret("", NO_KEY)
    listed = list_models(clean, shown.value)
    return Place(url=clean, serve_url=clean, key=shown, listed=listed)


@contextmanager
def own_place(
    settings: Settings, *, key: Secret | None, log: TextIO, companion: Companion | None
) -> Iterator[Place]:
    """Run a gateway for as long as it is needed.

    Raises:
        ConfigError: the settings cannot be used.
    """
    if key is None and settings.server.keys:
        key = settings.server.keys[0].key
    shown = key or Secret("", NO_KEY)
    server = settings.server
    with GatewayBeside(settings, log=log, companion=companion) as gateway:
        yield Place(
            url=gateway.url,
            serve_url=f"http://{server.host}:{server.port}",
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
    """Return where the lines of an agent's own gateway go: in the folder for state of the XDG rules."""
    base = environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return folder / "dragoman" / _LOG_NAME


@contextmanager
def open_log(path: Path) -> Iterator[TextIO]:
    """Open a file for lines; one that has become large begins anew, and only its owner may look.

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
        said = f"cannot write {path}: {error.strerror}; name another file with --log"
        raise ConfigError(said) from error
    with os.fdopen(file, "a", encoding="utf-8") as stream:
        yield stream
