"""Tool schemas in the flavours of upstreams: the same meaning, nothing that is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.support.schemas import prop, rewritten

from dragoman.errors import MalformedError, MisuseError, UntranslatableError
from dragoman.profiles.schema import rewrite

DIALECTS = ("any", "plain", "moonshot", "gemini")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_needs_no_change_is_the_same_object(dialect: str) -> None:
    schema = Raw(
        b'{ "type":"object", "properties" : {"b":{"type":"string"},"a":{"type":"integer"}} }'
    )

    assert schema is rewrite(schema, dialect)


def test_any_touches_nothing() -> None:
    schema = Raw(b"not even JSON")

    assert schema is rewrite(schema, "any")


def test_an_unknown_dialect_is_our_callers_mistake() -> None:
    with pytest.raises(MisuseError, match="no schema dialect `klingon`"):
        rewrite(Raw(b"{}"), "klingon")


def test_p_7_a_schema_that_is_no_json_is_refused_with_its_path() -> None:
    with pytest.raises(MalformedError) as caught:
        rewrite(Raw(b"{"), "gemini", path="$.tools[2].input_schema")

    assert caught.value.path == "$.tools[2].input_schema"


@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_a_schema_nested_beyond_reason_is_refused(dialect: str) -> None:
    deep = b'{"properties":{"a":' * 5000 + b"{}" + b"}}" * 5000

    with pytest.raises(UntranslatableError, match="nests too deeply"):
        rewrite(Raw(deep), dialect)


schemas = st.recursive(
    st.sampled_from(
        [
            True,
            {"type": "string", "format": "uri"},
            {"type": ["integer", "null"], "exclusiveMinimum": 0},
            {"enum": ["a", 1, None]},
            {"const": 5},
            {"$ref": "#/$defs/x"},
            {},
        ]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("array"), "items": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(
                    st.sampled_from(["a", "format", "type", "anyOf", "$schema"]), inner, max_size=3
                ),
                "required": st.just(["a"]),
                "additionalProperties": st.just(False),
            }
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3), "type": st.just("string")}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=2)}),
    ),
    max_leaves=12,
)


@given(schemas, st.sampled_from(DIALECTS))
def test_any_schema_is_rewritten_and_rewriting_again_changes_nothing(
    schema: object, dialect: str
) -> None:
    full = schema | {"$defs": {"x": {"type": "string"}}} if isinstance(schema, dict) else schema
    once = rewrite(Raw(json.dumps(full).encode()), dialect)

    assert bytes(once) == bytes(rewrite(Raw(json.dumps(full).encode()), dialect))
    assert once is rewrite(once, dialect)


def test_f1_moonshot_a_type_beside_any_of_moves_into_its_members() -> None:
    schema = {"type": "string", "anyOf": [{"enum": ["a"]}, {"type": "null"}], "description": "d"}

    assert prop(schema, "moonshot") == {
        "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}],
        "description": "d",
    }


def test_f1_moonshot_a_list_of_types_beside_any_of_goes_too() -> None:
    schema = {"type": ["string", "boolean"], "anyOf": [{"type": "string"}, {"type": "boolean"}]}

    assert prop(schema, "moonshot") == {"anyOf": [{"type": "string"}, {"type": "boolean"}]}


def test_f1_moonshot_a_member_without_a_type_gets_the_one_its_keywords_imply() -> None:
    schema = {"anyOf": [{"const": "a"}, {"enum": [1, 2]}, {"properties": {}}, {"items": {}}, {}]}

    assert prop(schema, "moonshot") == {
        "anyOf": [
            {"type": "string", "const": "a"},
            {"type": "integer", "enum": [1, 2]},
            {"type": "object", "properties": {}},
            {"type": "array", "items": {}},
            {},
        ]
    }


def test_f1_moonshot_a_tuple_is_written_with_prefix_items() -> None:
    schema = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "minItems": 2}

    assert prop(schema, "moonshot") == {
        "type": "array",
        "minItems": 2,
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
    }


def test_f1_moonshot_items_that_are_no_schema_go() -> None:
    assert prop({"type": "array", "items": False}, "moonshot") == {"type": "array"}


def test_f1_moonshot_a_union_at_the_root_becomes_one_object() -> None:
    schema = {
        "type": "object",
        "description": "one of both",
        "anyOf": [
            {
                "properties": {"name": {"type": "string"}, "text": {"type": "string"}},
                "required": ["name", "text"],
            },
            {
                "properties": {"name": {"type": "integer"}, "url": {"type": "string"}},
                "required": ["name", "url"],
            },
        ],
    }

    assert rewritten(schema, "moonshot") == {
        "type": "object",
        "description": "one of both",
        "properties": {
            "name": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "text": {"type": "string"},
            "url": {"type": "string"},
        },
        "required": ["name"],
    }


def test_f1_moonshot_a_union_of_demands_at_the_root_goes() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }

    assert rewritten(schema, "moonshot") == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }


def test_f1_moonshot_a_union_of_references_at_the_root_is_followed() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/missing"}],
        "$defs": {"a": {"properties": {"x": {"type": "string"}}}},
    }

    assert rewritten(schema, "moonshot") == {
        "type": "object",
        "$defs": {"a": {"properties": {"x": {"type": "string"}}}},
        "properties": {"x": {"type": "string"}},
    }


def test_f1_moonshot_the_root_is_always_an_object() -> None:
    assert rewritten({}, "moonshot") == {"type": "object"}
    assert rewritten(True, "moonshot") == {"type": "object"}


def test_f1_moonshot_data_that_looks_like_a_schema_is_left_alone() -> None:
    data = {"type": "string", "anyOf": [{}]}
    schema = {
        "type": "object",
        "properties": {"anyOf": {"type": "string"}, "type": {"type": "string", "enum": [data]}},
    }

    assert rewritten(schema, "moonshot") == schema


def test_f1_plain_leaves_out_what_picky_servers_refuse_everywhere() -> None:
    noise = {"$schema": "s", "format": "uri", "additionalProperties": False, "default": 1}
    schema = {
        **noise,
        "type": "object",
        "properties": {"format": {"type": "string", **noise}, "default": {"items": dict(noise)}},
    }

    assert rewritten(schema, "plain") == {
        "type": "object",
        "properties": {"format": {"type": "string"}, "default": {"items": {}}},
    }
