"""Ids of state that a vendor keeps: which ones a request names, and which ones an answer gives.

Requests are searched by field name at any depth, except where clients write their own data (schemas,
arguments, metadata).  Answers are read at the few places where vendors put ids, so that nothing a model or
a client wrote can be mistaken for one.  The field names of all vendors are looked for in every dialect: an
upstream ignores what is not of its dialect, and dialects of one vendor share their files.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from dragoman.dialects.decoding import decode
from dragoman.errors import MalformedError
from dragoman.wire.json_values import read_float

_MAX_CHARS: Final = 256  # of an id that is given

# --- requests -------------------------------------------------------------------------------------

# Fields whose value is an id, a list of ids, or an object that has one.
_NAMES: Final[dict[str, str]] = {
    "previous_response_id": "previous_response",
    "conversation": "conversation",
    "container": "container",
    "container_id": "container",
    "file_id": "file",
    "file_ids": "file",
    "vector_store_id": "vector_store",
    "vector_store_ids": "vector_store",
    "skill_id": "skill",
    "thread": "thread",
    "prompt": "prompt",
    "audio": "audio",
}
_OBJECTS_ONLY: Final = frozenset({"prompt", "audio"})  # a plain text there is not an id
# Where clients and models write what they like.
_OWN_DATA: Final = frozenset(
    {
        "arguments",
        "attributes",
        "input_examples",
        "input_schema",
        "metadata",
        "parameters",
        "schema",
    }
)
_ITEM: Final = "item"
# Items that an upstream looks up by their id if they bring nothing else.
_LABELS: Final = frozenset({"type", "id", "status"})
_REASONING: Final = frozenset({"content", "encrypted_content"})
# A body without any of these names nothing.  The last row are escaped letters, which may spell any of them.
_MAY_NAME: Final = re.compile(
    rb'"(?:previous_response_id|conversation|container(?:_id)?|file_ids?|vector_store_ids?|skill_id|thread'
    rb'|prompt|audio|item_reference|reasoning|\w+_call)"|"id"|\\u00[5-7]'
)


class Reference(NamedTuple):
    """State that a request names."""

    kind: str
    id: str
    path: str

    @property
    def is_file(self) -> bool:
        """It is a file, which all dialects of its vendor take."""
        return self.kind == "file"


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its fields: of two with the same name, an upstream may read either."""


def references(body: bytes) -> list[Reference]:
    """Return the state that a request names, in no particular order.

    Raises:
        MalformedError: it is not JSON.
    """
    if not _MAY_NAME.search(body):
        return []
    try:
        value = json.loads(body.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise MalformedError("not valid JSON") from error
    return list(_named(value))


def _named(value: Any) -> Iterator[Reference]:
    waiting: list[tuple[str, Any]] = [("$", value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, _Pairs):
            yield from _named_by_item(one, path)
            for name, inner in one:
                at = f"{path}.{name[:40]}"
                if name in _NAMES and not _is_public(name, one):
                    yield from _named_by_field(name, inner, at)
                if name not in _OWN_DATA and (name != "input" or path == "$"):
                    waiting.append((at, inner))
        elif isinstance(one, list):
            waiting += [(f"{path}[{index}]", inner) for index, inner in enumerate(one)]


def _named_by_field(name: str, value: Any, path: str) -> Iterator[Reference]:
    if isinstance(value, _Pairs):
        ids = [inner for key, inner in value if key == "id"]
    elif name in _OBJECTS_ONLY:
        ids = []
    else:
        ids = value if isinstance(value, list) else [value]
    for one in ids:
        if isinstance(one, str) and one:
            yield Reference(_NAMES[name], one, path)


def _named_by_item(item: _Pairs, path: str) -> Iterator[Reference]:
    """Yield a reference for an item of Responses input without content: its id names a stored item."""
    if path.rpartition("[")[0] != "$.input":
        return
    fields = dict(item)
    kinds = [value for name, value in item if name == "type"]
    ids = [value for name, value in item if name == "id" and isinstance(value, str) and value]
    bare = "role" not in fields and (
        not kinds
        or "item_reference" in kinds
        or fields.keys() <= _LABELS
        or ("reasoning" in kinds and not any(fields.get(name) for name in _REASONING))
    )
    if bare:
        yield from (Reference(_ITEM, one, f"{path}.id") for one in ids)


def _is_public(name: str, fields: _Pairs) -> bool:
    """Return whether a skill is one that the vendor offers to everybody."""
    return name == "skill_id" and [value for key, value in fields if key == "type"] == ["anthropic"]


# --- answers --------------------------------------------------------------------------------------

_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Any, float_hook=read_float)
# What a frame of a stream must hold to give an id; frames of plain text hold none of it.
_MAY_GIVE: Final = re.compile(rb'"(?:response|item|container|file_id|audio)"\s*:')
_INNER: Final = ("response", "item", "message", "delta", "content_block")
_IDS: Final = ("id", "file_id", "container_id")


def given_ids(data: bytes) -> set[str]:
    """Return the ids that a complete answer, or one event of a stream, gives to its client."""
    try:
        return _given(decode(_ANY, data))
    except MalformedError:
        return set()


def may_give(data: bytes) -> bool:
    """Return whether an event of a stream may give ids.  Fast check: false positives are fine."""
    return _MAY_GIVE.search(data) is not None


def _given(value: Any) -> set[str]:
    found: set[str] = set()
    for one in (value, *(_object(value).get(name) for name in _INNER)):
        fields = _object(one)
        _take(fields, found)
        _take(_object(fields.get("container")), found)
        for choice in _objects(fields.get("choices")):
            for name in ("message", "delta"):
                _take(_object(_object(choice.get(name)).get("audio")), found)
        for item in (fields, *_objects(fields.get("output")), *_objects(fields.get("content"))):
            _take_from_item(item, found)
    return found


def _take_from_item(item: dict[str, Any], found: set[str]) -> None:
    """Add the ids of an item of Responses output, or of a block of Messages content."""
    _take(item, found)
    content = item.get("content")
    for part in (*_objects(content), *_objects(_object(content).get("content"))):
        _take(part, found)
        for note in _objects(part.get("annotations")):
            _take(note, found)
    for name in ("results", "outputs"):
        for one in _objects(item.get(name)):
            _take(one, found)


def _take(fields: dict[str, Any], found: set[str]) -> None:
    found.update(
        one
        for name in _IDS
        if isinstance(one := fields.get(name), str) and 0 < len(one) <= _MAX_CHARS
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
