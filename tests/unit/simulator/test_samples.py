"""Values from schemas."""

from typing import Any

import pytest

from dragoman.simulator.samples import sample


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "example value"),
        ({"type": "string", "format": "uuid"}, "00000000-0000-4000-8000-000000000000"),
        ({"type": "string", "minLength": 15}, "example valuexx"),
        ({"type": "string", "maxLength": 3}, "exa"),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": 7}, 7),
        ({"type": "string", "default": "d"}, "d"),
        ({"type": "string", "examples": ["e", "f"]}, "e"),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, 10),
        ({"type": "number", "minimum": 0, "maximum": 0.5}, 0.0),
        ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.5),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"items": {"type": "boolean"}}, [True]),
        ({"type": "object"}, {}),
        ({}, "example value"),
        (True, "example value"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"$ref": "#/nowhere"}, "example value"),
        ({"$ref": "https://elsewhere"}, "example value"),
    ],
)
def test_value_fits_its_schema(schema: Any, expected: Any) -> None:
    assert expected == sample(schema)


def test_object_has_what_is_required() -> None:
    schema = {
        "properties": {
            "file_path": {"type": "string"},
            "more": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "line": {"type": "integer"}},
                    "required": ["old", "line"],
                },
            },
        },
        "required": ["file_path", "edits"],
    }

    assert {
        "file_path": "/tmp/example.txt",
        "edits": [{"old": "example old", "line": 1}],
    } == sample(schema)


def test_object_without_demands_has_its_first_property() -> None:
    schema = {"properties": {"command": {"type": "string"}, "restart": {"type": "boolean"}}}

    assert {"command": "echo hello"} == sample(schema)


def test_references_and_joined_schemas_are_followed() -> None:
    schema = {
        "$defs": {"place": {"type": "object", "properties": {"city": {}}, "required": ["city"]}},
        "type": "object",
        "properties": {
            "from": {"$ref": "#/$defs/place"},
            "to": {
                "allOf": [
                    {"$ref": "#/$defs/place"},
                    {"properties": {"zip": {"type": "integer"}}, "required": ["zip"]},
                ]
            },
        },
        "required": ["from", "to"],
    }

    assert {"from": {"city": "Paris"}, "to": {"city": "Paris", "zip": 1}} == sample(schema)


def test_schema_that_holds_itself_has_an_end() -> None:
    schema = {"properties": {"child": {"$ref": "#"}, "list": {"items": {"$ref": "#"}}}}
    schema["required"] = ["child", "list"]

    assert isinstance(sample(schema), dict)


def test_variants_differ() -> None:
    schema = {"properties": {"name": {"type": "string"}, "kind": {"enum": ["a", "b"]}}}
    schema["required"] = ["name", "kind"]

    assert {"name": "example-2 name", "kind": "b"} == sample(schema, variant=1)
