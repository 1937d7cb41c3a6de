"""Functions in both languages, tools that Google runs, and which may be called."""

import json

import pytest

from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.request import ToolChoice
from tests.support.corpus import SEALER
from tests.unit.dialects.gemini.support import GEMINI, asked, user


def tools_of(*entries):
    return asked(user("x"), tools=list(entries)).tools


def schema_of(**declaration):
    (tool,) = tools_of({"functionDeclarations": [{"name": "f", **declaration}]})
    return json.loads(bytes(tool.schema or b"null"))


def test_functions_of_all_entries_are_tools_with_their_paths():
    tools = tools_of(
        {"functionDeclarations": [{"name": "a", "description": "A."}, {"name": "b.c:d"}]},
        {"googleSearch": {}, "function_declarations": [{"name": "e"}]},
    )

    assert ["a", "b.c:d", "web_search", "e"] == [tool.name for tool in tools]
    assert "$.tools[0].functionDeclarations[1]" == tools[1].path
    assert ("A.", None) == (tools[0].description, tools[0].schema)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("googleSearch", "web_search"),
        ("url_context", "web_fetch"),
        ("codeExecution", "code_execution"),
        ("fileSearch", "file_search"),
    ],
)
def test_tools_that_google_runs(name, kind):
    (tool,) = tools_of({name: {}})

    assert (kind, True, "google") == (tool.kind, tool.server, tool.vendor)


def test_json_schema_passes_as_it_is_but_for_shouted_types():
    schema = {"type": "object", "properties": {"type": {"type": "string"}}, "$schema": "x"}
    shouted = {"type": "OBJECT", "properties": {"a": {"type": ["STRING", "NULL"]}}}

    assert schema == schema_of(parametersJsonSchema=schema)
    assert {"type": "object", "properties": {"a": {"type": ["string", "null"]}}} == schema_of(
        parametersJsonSchema=shouted
    )


def test_googles_language_becomes_json_schema():
    assert {
        "type": "object",
        "properties": {
            "b": {"type": ["string", "null"], "enum": ["x", None]},
            "a": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "c": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/d"}, {"type": "null"}]},
        },
        "required": ["a"],
        "$defs": {"d": {"type": "boolean", "examples": [True]}},
    } == schema_of(
        parameters={
            "type": "OBJECT",
            "properties": {
                "a": {"type": "ARRAY", "items": {"type": "INTEGER"}, "min_items": "1"},
                "b": {"type": "STRING", "nullable": True, "format": "enum", "enum": ["x"]},
                "c": {
                    "anyOf": [{"type": "NUMBER"}, {"ref": "#/defs/d"}],
                    "nullable": True,
                    "type": "TYPE_UNSPECIFIED",
                },
            },
            "required": ["a"],
            "propertyOrdering": ["b", "a", "z"],
            "defs": {"d": {"type": "BOOLEAN", "example": True}},
        }
    )


@pytest.mark.parametrize(
    "written",
    [("defs", "ref", "#/defs/d"), ("$defs", "$ref", "#/$defs/d"), ("defs", "$ref", "#/defs/d")],
)
def test_a_reference_names_the_definition_in_either_spelling(written):
    defs, ref, pointer = written
    inner = {"type": "OBJECT", "properties": {"defs": {ref: pointer}, "ref": {"type": "STRING"}}}
    schema = {"type": "OBJECT", "properties": {"a": {ref: pointer}}, defs: {"d": inner}}

    assert {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d"}},
        "$defs": {
            "d": {
                "type": "object",
                "properties": {"defs": {"$ref": "#/$defs/d"}, "ref": {"type": "string"}},
            }
        },
    } == schema_of(parameters=schema)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ref": "#/defs/d"}, {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}),
        ({"enum": ["a"]}, {"enum": ["a", None]}),
        ({"type": "STRING", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "NULL"}, {"type": "null"}),
    ],
)
def test_null_is_a_value_where_it_is_allowed(given, expected):
    schema = {"type": "OBJECT", "properties": {"a": {**given, "nullable": True}}}

    assert expected == schema_of(parameters=schema)["properties"]["a"]


def test_bounds_may_come_as_text():
    bounds = {"minimum": "-3", "maximum": "2.5", "maxLength": "7", "default": "1"}
    schema = {"type": "OBJECT", "properties": {"a": bounds, "b": {"minimum": "low"}}}

    assert {
        "a": {"minimum": -3, "maximum": 2.5, "maxLength": 7, "default": "1"},
        "b": {"minimum": "low"},
    } == schema_of(parameters=schema)["properties"]


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ({"name": ""}, "name"),
        ({"name": "f", "parameters": {}, "parametersJsonSchema": {}}, "not both"),
        ({"name": "f", "parameters": 7}, "an object"),
    ],
)
def test_what_is_not_a_function_is_refused(declaration, reason):
    with pytest.raises(MalformedError, match=reason):
        tools_of({"functionDeclarations": [declaration]})


def test_options_that_no_one_else_has_are_named():
    declared = {"name": "f", "behavior": "BLOCKING", "response": {"a": 1}, "new": 1, "old": None}
    (tool,) = tools_of({"functionDeclarations": [declared]})

    assert ("behavior", "response", "new") == tool.options


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"mode": "AUTO"}, ToolChoice("auto")),
        ({"mode": "validated"}, ToolChoice("auto")),
        ({"mode": 1}, ToolChoice("auto")),
        ({"mode": "ANY"}, ToolChoice("required")),
        ({"mode": "ANY", "allowedFunctionNames": ["a"]}, ToolChoice("tool", "a")),
        (
            {"mode": "ANY", "allowed_function_names": ["a", "b"]},
            ToolChoice("required", allowed=("a", "b")),
        ),
        (
            {"mode": "VALIDATED", "allowedFunctionNames": ["a"]},
            ToolChoice("auto", allowed=("a",)),
        ),
        ({"allowedFunctionNames": ["a"]}, ToolChoice("auto", allowed=("a",))),
        ({"mode": None, "allowedFunctionNames": []}, None),
        ({"mode": 0, "allowedFunctionNames": ["a"]}, ToolChoice("auto", allowed=("a",))),
        ({"mode": "NONE"}, ToolChoice("none")),
    ],
)
def test_the_choice(config, expected):
    declared = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]

    assert expected == (
        asked(user("x"), tools=declared, toolConfig={"functionCallingConfig": config}).tool_choice
    )


@pytest.mark.parametrize(
    "config",
    [
        {"mode": "SOMETIMES"},
        {"mode": "ANY", "allowedFunctionNames": ["z"]},
        {"allowedFunctionNames": ["z"]},
    ],
)
def test_a_choice_that_cannot_be_is_refused(config):
    with pytest.raises(MalformedError):
        asked(user("x"), toolConfig={"functionCallingConfig": config})


@pytest.mark.parametrize("field", ["parameters", "parametersJsonSchema"])
def test_a_schema_that_nests_too_deeply_is_refused(field):
    schema = '{"type": "ARRAY", "items": ' * 2000 + '{"type": "STRING"}' + "}" * 2000
    body = (
        '{"model": "m", "contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": '
        f'[{{"name": "f", "{field}": {schema}}}]}}]}}'
    )
    with pytest.raises(MalformedError, match="nests too deeply"):
        GEMINI.decode_request(body.encode(), sealer=SEALER, limits=DEFAULT_LIMITS)
