"""What a strict client asks of a tool's schema."""

import json

import pytest

from dragoman.client.encode import check_described, schema_fault
from dragoman.client.messages import tool
from dragoman.errors import MisuseError
from dragoman.turn.request import Tool

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["object", "null"], "additionalProperties": False},
        {"properties": {"a": True, "b": {"enum": [1, None]}}, "required": ["a"]},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}, "minItems": 1}}},
        {"properties": {"a": {"items": [{"type": "string"}, {}]}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}},
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"properties": {"type": {"type": "string"}, "required": {"type": "boolean"}}},
        {"x-own": 5, "properties": {"a": {"const": [], "default": "x", "minimum": 0.5}}},
    ],
    ids=str,
)
def test_a_valid_schema_is_one(schema: dict) -> None:
    assert "" == schema_fault(json.dumps(schema).encode())


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "it is not an object"),
        ({"type": "string"}, "`$.type` must be object: arguments have names"),
        ({"type": ["array", "null"]}, "`$.type` must be object: arguments have names"),
        ({"type": "dict"}, "`$.type` must be one or several of array, boolean, "),
        ({"type": []}, "`$.type` must be one or several of"),
        ({"properties": []}, "`$.properties` must be an object of schemas"),
        ({"properties": {"a": "string"}}, "`$.properties.a` is not a schema"),
        ({"properties": {"a": {"type": 5}}}, "`$.properties.a.type` must be one or several of"),
        ({"properties": {"a": {"enum": []}}}, "`$.properties.a.enum` must be a list of values"),
        ({"required": True}, "`$.required` must be a list of names"),
        ({"required": [1]}, "`$.required` must be a list of names"),
        ({"properties": {"a": {"items": 5}}}, "`$.properties.a.items` is not a schema"),
        ({"properties": {"a": {"items": [5]}}}, "`$.properties.a.items[0]` is not a schema"),
        ({"anyOf": {}}, "`$.anyOf` must be a list of schemas"),
        ({"oneOf": [{}, 5]}, "`$.oneOf[1]` is not a schema"),
        ({"description": 5}, "`$.description` must be a string"),
        ({"properties": {"a": {"minLength": -1}}}, "`$.properties.a.minLength` must be a number"),
        ({"properties": {"a": {"maximum": "5"}}}, "`$.properties.a.maximum` must be a number"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "`$.properties.a.$ref` has no target"),
        ({"$defs": {"b": {"type": "map"}}}, "`$.$defs.b.type` must be one or several of"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_schema_is_reported_with_its_place(schema: object, why: str) -> None:
    assert schema_fault(json.dumps(schema).encode()).startswith(why)


def test_a_schema_that_is_no_json_is_none() -> None:
    assert schema_fault(b"{").startswith("it is not JSON: ")


def test_deep_schemas_end() -> None:
    schema: dict = {"type": "string"}
    for _ in range(200):
        schema = {"properties": {"a": schema}}

    assert "" == schema_fault(json.dumps(schema).encode())


def test_tools_of_a_vendor_are_not_judged() -> None:
    check_described(Tool(name="web_search", server=True))


def test_a_tool_made_of_a_function_with_a_docstring_is_described() -> None:
    def look(path: str, *, deep: bool = False, kinds: list[str] | None = None) -> str:
        """Look at a file."""
        return path

    check_described(tool(look))


def test_the_tool_is_named() -> None:
    with pytest.raises(MisuseError, match="the tool `f` has no valid schema of its arguments: `"):
        check_described(tool("f", description="does", schema={"type": "map"}))
