"""The upstreams that the server uses; the program that starts it supplies them."""

from typing import Annotated, Protocol

from msgspec import Meta, Struct

from dragoman.client.client import Client
from dragoman.toolcalls.format import Format


class Target(Struct, frozen=True):
    """The client that answers for a model, and the upstream's name of the model."""

    client: Client
    model: str  # as the upstream calls it


class ListedModel(Struct, frozen=True, kw_only=True):
    """A model that may be asked for."""

    name: Annotated[str, Meta(description="For `model` of `chat`.")]
    owner: Annotated[str, Meta(description="The upstream that answers.")]
    context: Annotated[
        int | None, Meta(description="The context window, in tokens; null: unknown.")
    ]
    output: Annotated[int | None, Meta(description="The output limit, in tokens; null: unknown.")]


class ModelList(Struct, frozen=True, kw_only=True):
    models: Annotated[list[ListedModel], Meta(description="All models that can be requested.")]
    unreachable: Annotated[
        list[str], Meta(description="Upstreams that did not answer, each with the reason.")
    ]


class Upstreams(Protocol):
    @property
    def formats(self) -> tuple[Format, ...]:
        """Formats of tool calls that the settings declare."""

    def target(self, model: str, /) -> Target:
        """Return the target that answers for a model; an empty name: the default target.

        Raises:
            ConfigError: there is none.
        """

    async def models(self) -> ModelList:
        """Return the models that may be asked for."""

    async def close(self) -> None:
        """Close all connections."""
