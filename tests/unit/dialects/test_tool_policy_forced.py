"""A forced tool, for upstreams that cannot express which one."""

import pytest
from msgspec import Raw

from dragoman.dialects.tool_policy import must_narrow, narrowed
from dragoman.profiles.profile import Profile
from dragoman.turn.request import Request, Tool, ToolChoice

ANY = b'"required"'
FIELDS = {"tools": Raw(b'[{"name":"f"}, {"name": "g"}]'), "tool_choice": Raw(b'{"name":"g"}')}
TOOLS = (Tool(name="f", path="$.tools[0]"), Tool(name="g", path="$.tools[1]"))


def asking(choice: ToolChoice | None, tools: tuple[Tool, ...] = TOOLS) -> Request:
    return Request(dialect="chat", model="m", tools=tools, tool_choice=choice)


@pytest.mark.parametrize(
    ("choice", "strength", "expected"),
    [
        (ToolChoice("tool", "g"), "strings_only", True),
        (ToolChoice("tool", "g"), "full", False),
        (ToolChoice("tool", "g"), "auto_only", False),
        (ToolChoice("required"), "strings_only", False),
        (None, "strings_only", False),
    ],
)
def test_choice_is_narrowed_only_where_a_name_is_not_understood(
    choice: ToolChoice | None, strength: str, expected: bool
) -> None:
    assert expected == must_narrow(asking(choice), Profile(name="p", tool_choice=strength))


def test_tool_is_declared_in_its_own_bytes() -> None:
    fields, losses = narrowed(FIELDS, asking(ToolChoice("tool", "g")), ANY)

    assert {"tools": Raw(b'[{"name": "g"}]'), "tool_choice": Raw(ANY)} == fields
    assert ["tool_choice_narrowed"] == [loss.code for loss in losses]


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (asking(None), FIELDS),
        (asking(ToolChoice("tool", "g")), {"tools": FIELDS["tools"]}),
        (asking(ToolChoice("tool", "g")), {"tool_choice": FIELDS["tool_choice"]}),
        (asking(ToolChoice("tool", "h")), FIELDS),
        # Inside a namespace it cannot stand alone.
        (asking(ToolChoice("tool", "g"), (Tool(name="g", path="$.tools[0].tools[1]"),)), FIELDS),
    ],
)
def test_what_cannot_be_narrowed_is_left(request_: Request, fields: dict[str, Raw]) -> None:
    assert ({}, ()) == narrowed(fields, request_, ANY)
