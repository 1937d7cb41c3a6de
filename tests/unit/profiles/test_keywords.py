"""One keyword is removed from a schema, and no other byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.profiles.schema import without_meta


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
