"""Whether arguments fit a schema, and the message for the model if not."""

from typing import Any

import pytest

from dragoman.toolcalls.schema_check import misfit

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "at": {"$ref": "#/$defs/Place"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city"],
    "$defs": {
        "Place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    },
}


@pytest.mark.parametrize(
    "value",
    [
        {"city": "Rome"},
        {"city": "Rome", "days": 3},
        {"city": "Rome", "days": 3.0},
        {"city": "Rome", "unit": "celsius", "tags": ["a"], "when": None, "at": {"x": 1}},
        {"city": "Rome", "unknown": 1},
    ],
)
def test_what_fits_has_no_complaint(value: Any) -> None:
    assert "" == misfit(value, WEATHER)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "required and missing: `city`"),
        ({"city": 5}, "`city` must be string"),
        ({"city": None}, "`city` must be string"),
        ({"city": "Rome", "days": 3.5}, "`days` must be integer"),
        ({"city": "Rome", "days": True}, "`days` must be integer"),
        ({"city": "Rome", "unit": "kelvin"}, '`unit` must be one of "celsius", "fahrenheit"'),
        ({"city": "Rome", "at": {}}, "required and missing: `at.x`"),
        ({"city": "Rome", "at": {"x": "1"}}, "`at.x` must be number"),
        ({"city": "Rome", "tags": ["a", 2]}, "`tags[1]` must be string"),
        ({"city": "Rome", "when": 5}, "`when` must be string; or `when` must be null"),
        ([], "the value must be object"),
    ],
)
def test_the_first_misfit_is_named_with_its_place(value: Any, says: str) -> None:
    assert says == misfit(value, WEATHER)


def test_unknown_properties_are_refused_where_the_schema_forbids_them() -> None:
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}

    assert "`b` is not allowed" == misfit({"a": 1, "b": 2}, closed)
    assert "" == misfit({"a": 1, "b": 2}, closed | {"patternProperties": {"b": {}}})


@pytest.mark.parametrize(
    "schema",
    [None, True, [], {"type": "str"}, {"type": []}, {"properties": 5}, {"$ref": "#"}, {"enum": 1}],
)
def test_a_schema_without_rules_accepts_everything(schema: Any) -> None:
    assert "" == misfit({"a": [1, {"b": None}]}, schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema: dict[str, Any] = {"properties": {"next": {"$ref": "#"}, "a": {"$ref": "#/x"}}}
    schema["x"] = {"$ref": "#/x"}
    value: dict[str, Any] = {"a": 1}
    for _ in range(200):
        value = {"next": value}

    assert "" == misfit(value, {"properties": {"next": schema}} | schema)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"kind": "a", "n": 5}, ""),
        ({"kind": "b", "n": 5}, '`kind` must be one of "a"'),
        ({"kind": "a", "n": "5"}, "`n` must be integer"),
        ({"kind": "a"}, "required and missing: `n`"),
    ],
)
def test_constants_and_every_schema_of_all_of_count(value: Any, complaint: str) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"const": "a"}},
        "allOf": [{"required": ["n"]}, {"properties": {"n": {"type": "integer"}}}],
    }

    assert complaint == misfit(value, schema)
