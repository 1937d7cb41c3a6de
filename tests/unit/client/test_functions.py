"""Python functions as tools: their schema and their description."""

import json
from typing import Annotated, Literal

import msgspec
import pytest

from dragoman import (
    MisuseError,
    tool,
)
from dragoman.client.functions import description_of, schema_of


class Place(msgspec.Struct):
    """Where something is."""

    lat: float
    lon: float = 0.0


def look(
    place: Place,
    mode: Literal["map", "street"] = "map",
    depth: Annotated[int, msgspec.Meta(ge=1)] = 1,
    *,
    names: list[str] | None = None,
    anything=None,
) -> str:
    """Look at a place.

    It is shown as it was.

    Args:
        place: where to look
        mode (str): how,
            in a word
        names: whom to look for

    Returns:
        what is seen
    """


def schema(function) -> dict:
    return json.loads(bytes(schema_of(function)))


def test_a_function_becomes_a_tool_without_being_run() -> None:
    found = tool(look)

    assert "look" == found.name
    assert "Look at a place. It is shown as it was." == found.description
    assert schema(look) == json.loads(bytes(found.schema))


def test_the_schema_follows_the_annotations() -> None:
    found = schema(look)

    assert "object" == found["type"]
    assert ["place"] == found["required"]
    assert {"$ref": "#/$defs/Place", "description": "where to look"} == found["properties"]["place"]
    assert {
        "enum": ["map", "street"],
        "description": "how, in a word",
        "default": "map",
    } == found["properties"]["mode"]
    assert {"type": "integer", "minimum": 1, "default": 1} == found["properties"]["depth"]
    assert {"default": None} == found["properties"]["anything"]
    assert "whom to look for" == found["properties"]["names"]["description"]
    assert {"lat", "lon"} == found["$defs"]["Place"]["properties"].keys()


def test_a_function_without_arguments_or_docstring_is_a_tool_all_the_same() -> None:
    def ping(): ...

    assert {"type": "object", "properties": {}, "required": []} == schema(ping)
    assert "" == description_of(ping)


def variadic(*args: int) -> None: ...


def positional(a: int, /) -> None: ...


def odd(a: type(print)) -> None: ...


def unknown(a: "Nowhere") -> None: ...  # noqa: F821 -- the test's subject


@pytest.mark.parametrize("function", [variadic, positional, odd, unknown])
def test_a_function_that_no_schema_describes_is_refused(function) -> None:
    with pytest.raises(MisuseError, match=function.__name__):
        tool(function)
