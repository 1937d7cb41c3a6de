"""JSON whose values arrive with their paths, such as `$.a.b[0]`, written as text while they arrive.

Vertex streams the arguments of a call in this form.  A value that follows the last one in the document is written at
once.  One that goes back into an object or a list that was closed waits for the end: its outermost field is then
written a second time, because readers of JSON take the last of two fields with one name.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from dragoman.errors import MalformedError, TooLargeError
from dragoman.wire.surrogates import join_surrogates

PathStep: TypeAlias = str | int  # a field of an object, or a place in a list

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_MAX_STEPS: Final = 64  # of a path
_PIECE_BYTES: Final = 16  # that a piece counts beside its path and its value
_ENCODER: Final = msgspec.json.Encoder()


class PathWriter:
    """Write one object.

    Attributes:
        repaired: A field was written twice.
    """

    def __init__(self, limit: int) -> None:
        """Write at most `limit` bytes; `TooLargeError` names `max_tool_args_bytes`."""
        self.repaired: bool = False
        self._limit = limit
        self._size = 0
        self._open: list[_Container] = [
            _Container("", is_list=False)
        ]  # the object, and what is open in it
        self._begun = False  # the opening bracket was written
        self._leaf: tuple[
            PathStep, ...
        ] = ()  # the path of the string whose closing quote is missing
        self._pieces: list[
            tuple[tuple[PathStep, ...], str | bytes]
        ] = []  # all of them: text, or JSON
        self._late = 0  # how many of the last ones wait

    def add_text(self, path: str, text: str) -> str:
        """Add text to the string at a path; return what can be written.

        Raises:
            MalformedError: the path is not one, or contradicts the paths before it.
            TooLargeError: the limit is passed.
        """
        return self._add(_steps(path), path, text)

    def add(self, path: str, value: bytes) -> str:
        """Put JSON at a path; return what can be written.  Raises the same."""
        return self._add(_steps(path), path, value)

    def add_field(self, name: str, value: bytes) -> str:
        """Put JSON into a field of the object; return what can be written.  Raises `TooLargeError`."""
        return self._add((name,), name, value)

    def end(self) -> str:
        """Return the rest of the object.

        Raises:
            MalformedError: the paths contradict each other.
        """
        out = [self._close_leaf()]
        out += [container.closer for container in reversed(self._open[1:])]
        del self._open[1:]
        if self._late:
            out += self._written_again()
        return self._beginning() + "".join(out) + "}"

    def _add(self, steps: tuple[PathStep, ...], path: str, value: str | bytes) -> str:
        self._size += len(path) + len(value) + _PIECE_BYTES
        if self._size > self._limit:
            raise TooLargeError("max_tool_args_bytes", self._limit)
        self._pieces.append((steps, value))
        if self._late:
            self._late += 1
            return ""
        if steps == self._leaf and isinstance(value, str):
            return _inside(value)
        common = self._common(steps)
        if self._leaf == steps or not self._open[common].takes(steps[common]):
            self._late = 1
            return ""
        out = [self._beginning(), self._close_leaf()]
        out += [container.closer for container in reversed(self._open[common + 1 :])]
        del self._open[common + 1 :]
        for at in range(common, len(steps)):
            out.append(self._open[-1].begin(steps[at]))
            if at < len(steps) - 1:
                self._open.append(_Container(steps[at], is_list=isinstance(steps[at + 1], int)))
                out.append(self._open[-1].opener)
        if isinstance(value, str):
            self._leaf = steps
            out.append(f'"{_inside(value)}')
        else:
            out.append(value.decode("utf-8", "replace"))
        return "".join(out)

    def _common(self, steps: tuple[PathStep, ...]) -> int:
        """Return how many of the open containers, beside the object itself, are on a path."""
        common = 0
        inner = self._open[1:]
        while common < min(len(inner), len(steps) - 1) and inner[common].step == steps[common]:
            common += 1
        return common

    def _beginning(self) -> str:
        begun, self._begun = self._begun, True
        return "" if begun else "{"

    def _close_leaf(self) -> str:
        open_, self._leaf = bool(self._leaf), ()
        return '"' if open_ else ""

    def _written_again(self) -> Iterator[str]:
        """Return the outermost fields to which values belong that came too late."""
        values: dict[tuple[PathStep, ...], list[str] | msgspec.Raw] = {}
        for steps, value in self._pieces:
            before = values.get(steps)
            if isinstance(value, bytes):
                values[steps] = msgspec.Raw(value)
            elif isinstance(before, list):
                before.append(value)
            else:
                values[steps] = [value]
        whole: dict[str, Any] = {}
        for steps, found in values.items():
            _put(
                whole, steps, join_surrogates("".join(found)) if isinstance(found, list) else found
            )
        top = self._open[0]
        for name in dict.fromkeys(steps[0] for steps, _ in self._pieces[-self._late :]):
            self.repaired = self.repaired or not top.takes(name)
            yield top.begin(name) + _ENCODER.encode(whole[str(name)]).decode()


class _Container:
    """An object or a list that is not closed."""

    def __init__(self, step: PathStep, *, is_list: bool) -> None:
        self.step = step
        self.opener, self.closer = "[]" if is_list else "{}"
        self._is_list = is_list
        self._names: set[PathStep] = set()

    def takes(self, step: PathStep) -> bool:
        """Return whether a value can follow the last one.

        Raises:
            MalformedError: an object has no places, and a list has no fields and no gaps.
        """
        if isinstance(step, int) is not self._is_list or (
            isinstance(step, int) and step > len(self._names)
        ):
            raise _contradiction()
        return step not in self._names

    def begin(self, step: PathStep) -> str:
        """Return what is written before the value of a field, or of a place."""
        separator = "," if self._names else ""
        self._names.add(step)
        return separator if self._is_list else f"{separator}{_quoted(str(step))}:"


def _steps(path: str) -> tuple[PathStep, ...]:
    """Return the names and places of a path.

    Raises:
        MalformedError: it is not one, or begins with a place.
    """
    steps: list[PathStep] = []
    at = 1
    while path.startswith("$") and at < len(path) and len(steps) < _MAX_STEPS:
        found = _STEP.match(path, at)
        if found is None:
            break
        name, index, quoted, double = found.groups()
        steps.append(int(index) if index is not None else name or quoted or double or "")
        at = found.end()
    if not steps or at < len(path) or not isinstance(steps[0], str):
        raise MalformedError(f"a path of partial arguments is `{path[:80]}`", path="$.candidates")
    return tuple(steps)


def _put(root: dict[str, Any], steps: tuple[PathStep, ...], value: object) -> None:
    """Put a value into a document.

    Raises:
        MalformedError: another value is in its way.
    """
    node: Any = root
    for step, following in itertools.pairwise(steps):
        node = _place(node, step, [] if isinstance(following, int) else {})[step]
    _place(node, steps[-1], None)[steps[-1]] = value


def _place(node: Any, step: PathStep, empty: object) -> Any:
    """Return an object or a list that has something at a step: `empty`, if there was nothing."""
    if isinstance(node, dict) and isinstance(step, str):
        node.setdefault(step, empty)
        return node
    if isinstance(node, list) and isinstance(step, int) and step <= len(node):
        if step == len(node):
            node.append(empty)
        return node
    raise _contradiction()


def _contradiction() -> MalformedError:
    return MalformedError("partial arguments contradict each other", path="$.candidates")


def _inside(text: str) -> str:
    """Return text escaped for the inside of a JSON string."""
    return _quoted(text)[1:-1]


def _quoted(text: str) -> str:
    return _ENCODER.encode(join_surrogates(text)).decode()
