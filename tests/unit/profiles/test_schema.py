"""Tool schemas in the flavours of upstreams: the same meaning, nothing that is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.errors import MalformedError, MisuseError, UntranslatableError
from dragoman.profiles.schema import rewrite, without_meta

DIALECTS = ("any", "plain", "moonshot", "gemini")


def rewritten(schema: object, dialect: str) -> object:
    return json.loads(bytes(rewrite(Raw(json.dumps(schema).encode()), dialect)))


def with_property(schema: object) -> dict[str, object]:
    return {"type": "object", "properties": {"p": schema}}


def prop(schema: object, dialect: str) -> object:
    """Rewrite `schema` as the one property of an object."""
    return rewritten(with_property(schema), dialect)["properties"]["p"]


# --- all ------------------------------------------------------------------------------------------


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


# --- moonshot -------------------------------------------------------------------------------------


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


# --- gemini ---------------------------------------------------------------------------------------


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


# --- plain ----------------------------------------------------------------------------------------


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


# --- $schema --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (b'{"$schema":"x","type":"object"}', b'{"type":"object"}'),
        (b'{ "$schema" : "x" ,\n "type" : "object" }', b'{ "type" : "object" }'),
        (b'{"type":"object","$schema":"x"}', b'{"type":"object"}'),
        (b'{"type":"object" , "$schema":"x" }', b'{"type":"object" }'),
        (b'{"a":1,"$schema":"x,}","b":[1,{"c":2}]}', b'{"a":1,"b":[1,{"c":2}]}'),
        (b'{"$schema":"x"}', b"{}"),
        (b'{"$schema":{"a":[1,2]},"b":"\\"$schema\\""}', b'{"b":"\\"$schema\\""}'),
    ],
)
def test_the_schemas_own_keyword_goes_and_no_other_byte(schema: bytes, expected: bytes) -> None:
    assert expected == bytes(without_meta(Raw(schema)))


@pytest.mark.parametrize(
    "schema",
    [
        b'{"type":"object"}',
        b'{"properties":{"$schema":{"type":"string"}},"required":["$schema"]}',
        b'["$schema"]',
        b'"$schema"',
        b'{"a":"$schema"}',
    ],
)
def test_a_property_of_that_name_stays_and_the_object_is_the_same(schema: bytes) -> None:
    raw = Raw(schema)

    assert raw is without_meta(raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("$schema"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["$schema", "a", "b", '"', "{"]), json_values),
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)
def test_without_meta_agrees_with_deleting_the_key(
    value: dict[str, object], indent: int | str | None, ascii_only: object
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=bool(ascii_only)).encode()
    wanted = {key: one for key, one in value.items() if key != "$schema"}

    assert wanted == json.loads(bytes(without_meta(Raw(text))))
