"""Tool schemas as Gemini takes them."""

import pytest
from tests.support.schemas import prop, rewritten

from dragoman.errors import UntranslatableError


@pytest.mark.parametrize(
    "keyword",
    [
        "$schema",
        "$id",
        "$comment",
        "additionalProperties",
        "propertyNames",
        "patternProperties",
        "uniqueItems",
        "multipleOf",
        "not",
        "if",
        "contentEncoding",
        "examples",
        "x-vendor",
    ],
)
def test_f1_gemini_a_name_it_does_not_know_goes(keyword: str) -> None:
    assert rewritten({"type": "object", keyword: True}, "gemini") == {"type": "object"}
    assert prop({"type": "string", keyword: {}}, "gemini") == {"type": "string"}


def test_f1_gemini_a_property_may_have_any_name() -> None:
    properties = {name: {"type": "string"} for name in ("format", "$schema", "default", "const")}
    schema = {"type": "object", "properties": properties, "required": ["$schema"]}

    assert rewritten(schema, "gemini") == schema


def test_f1_gemini_the_root_has_a_type() -> None:
    assert rewritten({"properties": {}}, "gemini") == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, {"type": "string"}, id="anything"),
        pytest.param(True, {"type": "string"}, id="true"),
        pytest.param({"enum": ["a"]}, {"type": "string", "enum": ["a"]}, id="enum"),
        pytest.param({"const": "a"}, {"enum": ["a"], "type": "string"}, id="const"),
        pytest.param(
            {"enum": [1, 2], "description": "size"},
            {"description": "size (one of 1, 2)", "type": "integer"},
            id="enum of numbers",
        ),
        pytest.param({"const": 5}, {"description": "one of 5", "type": "integer"}, id="const 5"),
        pytest.param(
            {"enum": ["a", None]}, {"nullable": True, "enum": ["a"], "type": "string"}, id="null"
        ),
        pytest.param(
            {"type": ["string", "null"]}, {"nullable": True, "type": "string"}, id="types with null"
        ),
        pytest.param(
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            id="types",
        ),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
            {"description": "d", "nullable": True, "type": "string"},
            id="optional",
        ),
        pytest.param(
            {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "format": "uri"}]},
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string"}], "type": "string"},
            id="union of one type",
        ),
        pytest.param(
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
            {"type": "integer", "minimum": 1, "maximum": 9},
            id="exclusive integers",
        ),
        pytest.param(
            {"type": "number", "exclusiveMinimum": 0.5},
            {"type": "number", "minimum": 0.5},
            id="exclusive numbers",
        ),
        pytest.param(
            {"minimum": 0, "exclusiveMinimum": True, "type": "number"},
            {"minimum": 0, "type": "number"},
            id="draft 4",
        ),
        pytest.param({"type": "array"}, {"type": "array", "items": {"type": "string"}}, id="array"),
        pytest.param(
            {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            id="tuple",
        ),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}]},
            {"type": "array", "items": {"type": "string"}},
            id="tuple of one",
        ),
        pytest.param(
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "string"}}, "required": ["b", "zzz"]},
                    True,
                ],
                "description": "both",
            },
            {
                "type": "object",
                "description": "both",
                "properties": {"b": {"type": "string"}, "a": {"type": "string"}},
                "required": ["a", "b"],
            },
            id="allOf",
        ),
        pytest.param(
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date-time"},
            id="known format",
        ),
        pytest.param({"type": "string", "format": "uuid"}, {"type": "string"}, id="format"),
        pytest.param(
            {"type": "object", "properties": {}, "required": ["zzz"]},
            {"type": "object", "properties": {}},
            id="required of nothing",
        ),
        pytest.param({"type": "string", "enum": "a"}, {"type": "string"}, id="enum that is none"),
    ],
)
def test_f1_gemini_gets_the_keywords_it_knows(schema: object, expected: object) -> None:
    assert prop(schema, "gemini") == expected


def test_f1_gemini_references_are_written_out() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/one~1two", "description": "mine"},
            "b": {"$ref": "#/definitions/chain"},
            "c": {"$ref": "https://example.org/schema"},
        },
        "$defs": {"one/two": {"type": "integer", "description": "theirs"}},
        "definitions": {"chain": {"$ref": "#/$defs/one~1two"}},
    }

    assert rewritten(schema, "gemini") == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "mine"},
            "b": {"type": "integer", "description": "theirs"},
            "c": {"type": "object"},
        },
    }


def test_f1_gemini_a_reference_that_goes_round_ends_as_any_object() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            }
        },
    }

    assert rewritten(schema, "gemini")["properties"]["tree"] == {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"type": "object"}}},
    }


def test_f1_gemini_references_that_fan_out_without_end_are_refused() -> None:
    levels = {
        f"l{level}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/l{level + 1}"} for side in "abcd"},
        }
        for level in range(30)
    }
    schema = {"type": "object", "properties": {"p": {"$ref": "#/$defs/l0"}}, "$defs": levels}

    with pytest.raises(UntranslatableError, match="references grow too large"):
        rewritten(schema, "gemini")
