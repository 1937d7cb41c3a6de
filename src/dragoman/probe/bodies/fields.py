"""What the bodies of all dialects are made of."""

from typing import Final, TypeAlias

import msgspec

from dragoman.probe.question import Tool

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Fields: TypeAlias = dict[str, Json]

SPOILT: Final = "this is no conversation"  # where a list is due


def decoded(text: str) -> Json:
    value: Json = msgspec.json.decode(text)
    return value


def function(tool: Tool) -> Fields:
    """Return a tool as OpenAI's dialects describe it."""
    return {"name": tool.name, "description": tool.says, "parameters": decoded(tool.schema)}


def data_url(image: str) -> str:
    return f"data:image/png;base64,{image}"
