"""Plausible values for a JSON schema, always the same ones."""

from collections.abc import Mapping
from typing import Final

from dragoman.simulator.play import Fields, Json

_MAX_DEPTH: Final = 12  # schemas may refer to themselves
_MAX_ITEMS: Final = 16
# What a property is probably about, by a part of its name.
_BY_NAME: Final = (
    ("path", "/tmp/example.txt"),  # noqa: S108 -- an example, never opened
    ("file", "/tmp/example.txt"),  # noqa: S108 -- an example, never opened
    ("dir", "/tmp"),  # noqa: S108 -- an example, never opened
    ("command", "echo hello"),
    ("url", "https://example.com/"),
    ("email", "someone@example.com"),
    ("date", "2025-01-31"),
    ("time", "12:30"),
    ("city", "Paris"),
    ("location", "Paris"),
    ("country", "France"),
    ("language", "en"),
    ("query", "example query"),
    ("pattern", "example"),
)
_BY_FORMAT: Final = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:30:00Z",
    "time": "12:30:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}


def sample(schema: Json, *, name: str = "value", variant: int = 0) -> Json:
    """Return a value that fits a schema; a different `variant` gives a different value."""
    return _Sampler(schema, variant).value(schema, name, 0)


class _Sampler:
    def __init__(self, root: Json, variant: int) -> None:
        self._root = root  # where references point into
        self._variant = variant

    def value(self, schema: Json, name: str, depth: int) -> Json:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return self._string({}, name)
        schema = self._resolved(schema)
        for key in ("const", "default"):
            if key in schema and schema[key] is not None:
                return schema[key]
        for key in ("enum", "examples"):
            choices = schema.get(key)
            if isinstance(choices, list) and choices:
                return choices[min(self._variant, len(choices) - 1) if key == "enum" else 0]
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number" as kind:
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema, name)

    def _resolved(self, schema: Fields) -> Fields:
        """Follow references, take the first choice, and join what must all hold."""
        for _ in range(_MAX_DEPTH):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = {**self._referred(reference), **rest}
                continue
            for key in ("anyOf", "oneOf"):
                choices = schema.get(key)
                if isinstance(choices, list) and choices:
                    rest = {other: value for other, value in schema.items() if other != key}
                    schema = {**rest, **_first_real(choices)}
                    break
            else:
                parts = schema.get("allOf")
                if not isinstance(parts, list):
                    return schema
                schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts:
                    if isinstance(part, dict):
                        schema = _joined(schema, self._resolved(part))
        return schema

    def _referred(self, reference: str) -> Fields:
        found = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) and reference.startswith("#/") else {}

    def _object(self, schema: Fields, depth: int) -> Fields:
        known = schema.get("properties")
        properties = known if isinstance(known, dict) else {}
        listed = schema.get("required")
        required = (
            [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
        )
        # Nothing is required, but an empty call is hardly plausible.
        names = required or list(properties)[:1]
        return {name: self.value(properties.get(name), name, depth + 1) for name in names}

    def _array(self, schema: Fields, name: str, depth: int) -> list[Json]:
        least = schema.get("minItems")
        count = min(_MAX_ITEMS, max(1, least if isinstance(least, int) else 1))
        if depth >= _MAX_DEPTH:
            return []
        singular = name.removesuffix("s") or name
        return [self.value(schema.get("items"), singular, depth + 1) for _ in range(count)]

    def _string(self, schema: Fields, name: str) -> str:
        form = schema.get("format")
        text = _BY_FORMAT.get(form, "") if isinstance(form, str) else ""
        if not text:
            lower = name.lower()
            text = next((value for part, value in _BY_NAME if part in lower), f"example {name}")
            if self._variant and "example" in text and "://" not in text:
                text = text.replace("example", f"example-{self._variant + 1}", 1)
        least, most = schema.get("minLength"), schema.get("maxLength")
        if isinstance(least, int):
            text = text.ljust(min(least, 10_000), "x")
        return text[:most] if isinstance(most, int) else text


def _type(schema: Mapping[str, Json]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _first_real(choices: list[Json]) -> Fields:
    """Return the first choice that is not null."""
    real = [one for one in choices if isinstance(one, dict)]
    return next((one for one in real if one.get("type") != "null"), real[0] if real else {})


def _joined(one: Fields, other: Fields) -> Fields:
    out = {**one, **other}
    for key in ("properties", "required"):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            out[key] = {**mine, **theirs}
        elif isinstance(mine, list) and isinstance(theirs, list):
            out[key] = mine + [item for item in theirs if item not in mine]
    return out


def _number(schema: Mapping[str, Json], *, whole: bool) -> int | float:
    def bound(key: str) -> int | float | None:
        value = schema.get(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if number and isinstance(value, int | float) else None

    step = bound("multipleOf") or 1
    low, above = bound("minimum"), bound("exclusiveMinimum")
    high, below = bound("maximum"), bound("exclusiveMaximum")
    if above is not None:
        low = above + step if low is None else max(low, above + step)
    if below is not None:
        high = below - step if high is None else min(high, below - step)
    value: int | float = step
    if low is not None and value < low:
        value = -(-low // step) * step
    if high is not None and value > high:
        value = high // step * step
        if low is not None and value < low:  # no multiple of the step fits
            value = low if whole else (low + high) / 2
    return int(value) if whole else value
