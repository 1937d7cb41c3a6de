"""What an agent is, and what it is told about where it works.

An agent's own file knows its variables, flags and settings; nothing else does.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from dragoman.turn.request import DialectName

NO_KEY: Final = "dragoman"  # shown where no key is asked, for agents do not start without one
KEY_VARIABLE: Final = "DRAGOMAN_AGENT_KEY"  # where agents find the key that may name a variable


class Window(Struct, frozen=True, kw_only=True):
    """How much a model takes and gives, in tokens; 0: unknown."""

    context: int = 0
    output: int = 0


class Session(Struct, frozen=True, kw_only=True):
    """Where an agent works and as whom."""

    url: str  # of the gateway, without `/v1`
    key: str = NO_KEY
    model: str = ""  # what it asks for; empty: the names it knows itself
    small: str = ""  # what it asks for in small matters; empty: `model`
    window: Window = Window()


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """What an agent is started with; what the user gave stands behind `arguments`."""

    variables: dict[str, str]
    clashing: tuple[str, ...] = ()  # variables that would lead it elsewhere
    arguments: tuple[str, ...] = ()
    # A flag that takes a file, and what stands in the file; it may hold the key.
    file: tuple[str, str] | None = None


# From a session and the user's variables to what the agent is started with.
MakeLaunchSpec: TypeAlias = Callable[[Session, Mapping[str, str]], LaunchSpec]


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    says: str  # what people call it
    package: str  # of npm, which brings the program
    dialect: DialectName  # which it speaks
    launch_spec: MakeLaunchSpec
    # Models that it asks for by itself, the best first; the last is for small matters.
    usual: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return self.name

    @property
    def install(self) -> str:
        return f"npm install -g {self.package}"
