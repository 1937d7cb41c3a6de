import pytest
from msgspec import Raw

from dragoman.toolcalls.schema_types import ToolParameters, to_json, types_of
from dragoman.turn.request import Tool


@pytest.mark.parametrize(
    ("declared", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"enum": ["a", 1]}, {"string", "integer"}),
        ({"const": True}, {"boolean"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"string", "integer"}),
        ({"allOf": [{"$ref": "#/$defs/X"}]}, {"array"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
        ({"type": "varchar(255)"}, {"string"}),
        ({"type": "uint64"}, {"integer"}),
        ({"type": "float32"}, {"number"}),
        ({"type": "dict"}, {"object"}),
        ({}, {"string"}),
        (None, {"string"}),
        ({"$ref": "#/$defs/circle"}, {"string"}),
    ],
)
def test_types_of_a_schema(declared: object, types: set[str]) -> None:
    root = {"$defs": {"X": {"type": "array"}, "circle": {"$ref": "#/$defs/circle"}}}

    assert types == types_of(declared, root)


@pytest.mark.parametrize(
    ("text", "types", "json"),
    [
        ("02134", {"string"}, '"02134"'),
        ("1e5", {"string"}, '"1e5"'),
        ("2026-01-15", {"integer"}, '"2026-01-15"'),
        ("12345678901234567890", {"integer"}, "12345678901234567890"),
        ("3", {"integer"}, "3"),
        ("\n3\n", {"integer"}, "3"),
        ("+03", {"integer"}, "3"),
        ("3.50", {"number"}, "3.50"),
        (".5", {"number"}, "0.5"),
        ("1e999", {"number"}, '"1e999"'),
        ("NaN", {"number"}, '"NaN"'),
        ("TRUE", {"boolean"}, "true"),
        ("0", {"boolean"}, "false"),
        ("yes", {"boolean"}, '"yes"'),
        ("null", {"string"}, '"null"'),
        ("NULL", {"string", "null"}, "null"),
        ("null", {"integer"}, "null"),
        ("42", {"string", "integer"}, "42"),
        ("4x", {"string", "integer"}, '"4x"'),
        ('{"a": 1}', {"object"}, '{"a": 1}'),
        ("{'a': True}", {"object"}, '{"a":true}'),
        ("(1, 2)", {"array"}, "[1,2]"),
        ("[1, 2]", {"object"}, "[1, 2]"),
        ("oops", {"array"}, '"oops"'),
        ('a "b" \\ \n', {"string"}, '"a \\"b\\" \\\\ \\n"'),
        ("\ud83d", {"string"}, '"\\ud83d"'),
    ],
)
def test_c9_a_value_is_typed_by_the_schema_alone(text: str, types: set[str], json: str) -> None:
    assert json == to_json(text, frozenset(types))


def test_a_schema_that_is_no_json_means_nothing_is_known() -> None:
    parameters = ToolParameters(Tool(name="f", schema=Raw(b"{")))

    assert parameters.types("a") == {"string"}
