"""What an agent is, and the gateway, key and models that it is started with.

Only an agent's own module knows its variables, flags and settings.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from dragoman.turn.request import DialectName

NO_KEY: Final = "dragoman"  # sent if there is no key: agents do not start without one
KEY_VARIABLE: Final = (
    "DRAGOMAN_AGENT_KEY"  # holds the key, for agents whose settings name a variable
)


class Window(Struct, frozen=True, kw_only=True):
    """The sizes of a model's context and output, in tokens; 0: unknown."""

    context: int = 0
    output: int = 0


class Session(Struct, frozen=True, kw_only=True):
    """The gateway, the key and the models that an agent uses."""

    url: str  # of the gateway, without `/v1`
    key: str = NO_KEY
    model: str = ""  # the model it asks for; empty: its own default names
    small: str = ""  # the model it asks for in small tasks; empty: `model`
    window: Window = Window()


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """What an agent is started with; the user's own arguments follow `arguments`."""

    variables: dict[str, str]
    clashing: tuple[str, ...] = ()  # variables to unset: they would lead it to another server
    arguments: tuple[str, ...] = ()
    # A flag that takes a file, and the content of the file, which may hold the key.
    file: tuple[str, str] | None = None
    # A variable that names the agent's home folder, a file in it, and its content, which holds no key.
    home_file: tuple[str, str, str] | None = None


# From a session and the user's variables to what the agent is started with.
MakeLaunchSpec: TypeAlias = Callable[[Session, Mapping[str, str]], LaunchSpec]


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    title: str  # its name in messages
    package: str  # the npm package that installs the program
    dialect: DialectName  # which it speaks
    launch_spec: MakeLaunchSpec
    # Models that it asks for by default, the preferred one first; the last is for small tasks.
    usual: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # profiles of upstreams that know these names

    @property
    def program(self) -> str:
        return self.name

    @property
    def install(self) -> str:
        return f"npm install -g {self.package}"
