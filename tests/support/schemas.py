"""Schemas of tools, rewritten as an upstream takes them."""

import json

from msgspec import Raw

from dragoman.profiles.schema import rewrite


def rewritten(schema: object, dialect: str) -> object:
    return json.loads(bytes(rewrite(Raw(json.dumps(schema).encode()), dialect)))


def with_property(schema: object) -> dict[str, object]:
    return {"type": "object", "properties": {"p": schema}}


def prop(schema: object, dialect: str) -> object:
    """Rewrite `schema` as the one property of an object."""
    return rewritten(with_property(schema), dialect)["properties"]["p"]
