"""Whether a value fits a JSON schema, as far as the probe's own schemas go."""

from collections.abc import Iterator


def misfits(schema: object, value: object, path: str = "") -> list[str]:
    """Return what does not fit, each with its place."""
    return list(_misfits(schema, value, path))


def _misfits(schema: object, value: object, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    where = f"`{path}`" if path else "the whole"
    if not _is_of(schema.get("type"), value):
        yield f"{where} is {_kind(value)}, not {schema.get('type')}"
        return
    if isinstance(choices := schema.get("enum"), list) and value not in choices:
        yield f"{where} is none of the values that it may have"
    if isinstance(value, dict):
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        wanted = schema.get("required")
        for name in wanted if isinstance(wanted, list) else ():
            if name not in value:
                yield f"`{f'{path}.{name}'.lstrip('.')}` is missing"
        for name, inner in value.items():
            if known and name not in known:
                yield f"`{f'{path}.{name}'.lstrip('.')}` is not in the schema"
            yield from _misfits(known.get(name), inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _misfits(schema.get("items"), inner, f"{path}[{at}]")


def _is_of(kind: object, value: object) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return True


def _kind(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "true or false"
        case _:
            return "a number"
