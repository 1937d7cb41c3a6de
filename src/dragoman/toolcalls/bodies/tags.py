"""Parameters between tags, converted to JSON as they arrive (`TagsSpec`): Qwen, GLM, DeepSeek DSML and others.

    <parameter=city>Oslo</parameter><parameter=days>3</parameter>  ->  {"city": "Oslo", "days": 3}

Types come from the tool's schema (`schema_types.py`) or from the tag.  A string is escaped and emitted as it
arrives.  Any other value is held until its closing tag, because only then is its type certain.  A closing tag inside
a value is data unless a legal continuation follows it.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import TooLargeError
from dragoman.toolcalls.bodies.json import close_arguments
from dragoman.toolcalls.format import (
    AHEAD,
    EXCERPT_CHARS,
    Pattern,
    Run,
    TagsSpec,
    before_lookahead,
    normalized,
)
from dragoman.toolcalls.scanner import FoundMarker, Scanner, scanner
from dragoman.toolcalls.schema_types import (
    STRING_ONLY,
    STRING_OR_NULL,
    escaped,
    json_of_types,
    quoted,
    to_json,
    truncated,
)
from dragoman.turn.arguments import JsonArguments
from dragoman.wire.json_values import decode_any

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_SOLID: Final = re.compile(r"\S")
# Parameters that may contain all the others.  Case: minicpm5/n8_properties.
_WRAPPERS: Final = frozenset({"arguments", "input", "properties"})
_OBJECT: Final = frozenset({"object"})
# `TagsSpec.replaces`: so many characters of parameters wait for a repeated one.
MAX_REPLACED_CHARS: Final = 256
# Text after a parameter is held until another tag, but no longer than this many characters.
MAX_TEXT_CHARS: Final = 128
# What the tag of a parameter without a name may have.
_KNOWN_ATTRIBUTES: Final = re.compile(r"\b(?:type|string)=\"\w*\"|\b(?:name|key)=(?:\"\"|'')?")
_LETTER: Final = re.compile(r"\w")
_MAX_NULL_CHARS: Final = 64  # of `null` with blanks around it


class _Markers:
    """Scanners for the tags between parameters and for the ends of values."""

    def __init__(self, spec: TagsSpec) -> None:
        params = (*spec.param, *spec.nameless)
        self.between = scanner((*params, *spec.call_end, *spec.skip))
        self.params = len(params)
        self.ends = self.params + len(spec.call_end)
        self.closers = scanner(spec.call_end)
        self.openers = scanner(params)
        self.parts = scanner(tuple(dict.fromkeys(_parts(spec))))
        self.value_ends = len(spec.value_end)
        self.cuts = self.value_ends + len(spec.value_cut)
        next_calls: tuple[Pattern, ...] = tuple((AHEAD, *one) for one in spec.next_call)
        self.next_calls = self.cuts + len(next_calls)
        # A whole closer before other text is data; a token of it alone is not.
        closers = tuple(before_lookahead(one) for one in spec.value_end if spec.tokens)
        self.data = self.next_calls + len(closers)
        self.value = scanner(
            (*spec.value_end, *spec.value_cut, *next_calls, *closers, *spec.tokens)
        )
        self.verbatim = scanner(spec.verbatim_end) if spec.verbatim_end else self.value
        # Finds a character that may begin a marker in a value.
        leads = scanner((*spec.value_end, *spec.value_cut, *spec.verbatim_end, *spec.tokens)).leads
        self.may_hold = re.compile(r"[\s\S]" if leads is None else f"[{re.escape(leads)}]").search


def _parts(spec: TagsSpec) -> Iterator[Pattern]:
    """Yield the tags of parameters, each for itself, and as much of them as does not depend on the parameter."""
    for pattern in (*spec.param, *spec.nameless, *map(before_lookahead, spec.value_end)):
        parts = normalized(pattern)
        named = (at for at, part in enumerate(parts) if isinstance(part, Run) and part.name)
        first = next((at for at, part in enumerate(parts) if isinstance(part, str)), 0)
        yield parts[first : next(named, len(parts))]
        for part in parts[first + 1 :]:
            if isinstance(part, str) and "<" in part:
                yield (part,)


_markers = cache(_Markers)


def scanners(spec: TagsSpec) -> tuple[Scanner, ...]:
    """Return all scanners of a spec."""
    markers = _markers(spec)
    return (
        markers.between,
        markers.value,
        markers.verbatim,
        markers.openers,
        markers.closers,
        markers.parts,
    )


def unescaped(attribute: str) -> str:
    """Return an attribute with its entities decoded."""
    return attribute.replace("&quot;", '"').replace("&amp;", "&")


class _Inner(Enum):
    """Where a value is in a call that is part of it, as in a file that shows how tools are called."""

    CALL = auto()  # in it or after it: no parameter of it is open
    VALUE = auto()  # in a parameter of it


class TagsBody:
    """The parameters of one call."""

    def __init__(
        self, machine: "Machine", spec: TagsSpec, call_id: str, name: str, *, ended: bool = False
    ) -> None:
        self._machine = machine
        self._sink = machine.sink
        self._spec = spec
        self._markers = _markers(spec)
        self._call_id = call_id
        self._name = name
        self._parameters = machine.declared.parameters(name)
        self._ended = ended  # the header was the whole call
        self._out: list[str] = []  # JSON that the next flush emits
        self._keys: set[str] = set()
        self._replaces = spec.replaces  # a repeated parameter still replaces the earlier one
        self._values: dict[str, list[str]] = {}  # the JSON of the parameters that wait for that
        self._held_size = 0  # the characters of those that have ended
        self._dropped: list[str] = []  # the JSON of a parameter without a name
        self._value: ParameterValue | None = None  # of the open parameter
        self._streams = False  # its JSON is emitted as it arrives
        self._inner: _Inner | None = None  # the value contains a call; None: not so far
        self._mentioned = (
            False  # the value contains the tag of a parameter: the parts of that are data
        )
        self._broken = False  # a tag is incomplete: so is the call
        self._value_ends = self._markers.value  # the scanner for its end
        self._json: JsonArguments | None = None  # the body is one JSON object
        self._whole = False  # that object is complete: nothing may be added
        self._wrapped: list[str] | None = None  # a value that may contain all arguments
        self._waits = False  # the rest of the text may become a marker

    @property
    def holding(self) -> bool:
        if self._wrapped is not None or self._values:
            return True
        return self._value is not None and self._value.holding

    @property
    def held(self) -> str:
        return ""

    def start(self) -> None:
        self._machine.enter_call()
        self._sink.begin(self._call_id, self._name)
        if self._ended and self._lacks_one:
            self._cut()
        elif self._ended:
            self._end()

    def feed(self, text: str, at: int, /) -> int:
        """Parse parameters; return the end of the consumed text."""
        value = self._value
        if (
            value is not None
            and not at
            and self._streams
            and value.streams
            and not self._markers.may_hold(text)
        ):
            # Fast path for most pieces: the text continues a string.
            self._sink.args(escaped(text))
            return len(text)
        end = len(text)
        self._waits = False
        while at < end and not self._waits and self._machine.body is self:
            at = self._read(text, at)
        size = self._held_size + (self._value.size if self._value is not None else 0)
        if self._values and size > MAX_REPLACED_CHARS:
            self._release_values()
        self._flush()
        if self._value is not None and self.holding:
            self._sink.hold(size)
        return at

    def stop(self) -> None:
        if self._json is not None:
            self._end_json(self._json, cut=True)
        else:
            self._cut()

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        at = self.feed(text, at)
        while self._machine.body is self and self._value is not None and not cut:
            found = self._value_ends.find_last(text, at)
            if found is None or self._is_token(found):
                break  # the rest is a truncated closer
            at = self.feed(text, self._apply_value_marker(self._value, text, at, found))
        if self._machine.body is not self:
            return at
        rest = text[at:].lstrip()
        if self._json is not None:
            self._end_json(self._json, cut=cut)
        elif self._value is not None:
            self._value.cut()  # a truncated closing tag is not part of the value
            self.stop()
        elif (rest and not self._closing(rest)) or (cut and not rest) or self._lacks_one:
            self._cut()
        elif not rest and self._is_bare and not self._machine.declared.takes_nothing(self._name):
            self._cut()  # only the header has arrived: kimi_k3/n0_4_header_alone
        else:
            self._sink.problem("native_closer_missing", self._name)
            self._end()
        return len(text)

    def _closing(self, rest: str) -> bool:
        """Return whether the rest can only be the call's truncated closer."""
        markers = self._markers
        return len(rest) > 1 and markers.closers.begins(rest) and not markers.openers.begins(rest)

    # --- reading -----------------------------------------------------------------------------------

    def _read(self, text: str, at: int) -> int:
        if self._json is not None:
            return self._read_json(text, at)
        if self._value is None:
            return self._read_between(text, at)
        found = self._value_ends.scan(text, at)
        if not isinstance(found, FoundMarker):
            if found > at:
                self._value.add(text[at:found])
            self._waits = True
            return found
        return self._apply_value_marker(self._value, text, at, found)

    def _apply_value_marker(
        self, value: "ParameterValue", text: str, at: int, found: FoundMarker
    ) -> int:
        """Read a marker in a value: its end, the end of the call, or data."""
        ends = self._value_ends is not self._markers.value or found.which < self._markers.value_ends
        next_call = not ends and found.which >= self._markers.cuts
        if self._inner and not (ends and self._inner is _Inner.CALL):
            # Markup of a call inside the value.  Case: glm45/call_in_a_value.
            if ends:
                self._inner = _Inner.CALL
            elif "key" in found.groups:
                self._inner = _Inner.VALUE
            to = max(found.end, found.start + 1)
        elif self._is_token(found):
            # Half of a tag.  Case: kimi_k3/n0_5_closer_token_missing.
            is_part = found.which >= self._markers.data
            self._broken = self._broken or (is_part and not self._mentioned)
            self._mentioned = self._mentioned and not is_part
            to = found.end
        elif (
            "key" in found.groups
            and not (next_call and self._spec.special)
            and not self._may_follow(found.groups["key"])
        ):
            # It looks like the next parameter, but the tool has no parameter of that name.
            if next_call:
                self._inner = _Inner.VALUE
            self._mentioned = True
            to = found.start + 1
        else:
            value.add(text[at : found.start])
            if next_call:
                # Neither the value nor the call was closed.  Case: qwen3_coder/n0_5_call_cut_before_the_next.
                value.cut()
                self._cut()
                return found.start
            self._end_value()
            return max(found.end, at)
        value.add(text[at:to])
        return to

    def _is_token(self, found: FoundMarker) -> bool:
        """Return whether a marker in a value is a part of its closer, or a closer that is data."""
        return self._value_ends is self._markers.value and found.which >= self._markers.next_calls

    def _read_between(self, text: str, at: int) -> int:
        solid = _SOLID.search(text, at)
        if solid is None:
            return len(text)
        start = solid.start()
        scanner = self._markers.between
        found = scanner.scan_at(text, start)
        if found is not None and not (self._whole and found.which < self._markers.params):
            self._apply_marker(text, found)
            return found.end
        if found is None and scanner.begins(text, start):
            self._waits = True
            return start
        if self._spec.json and not self._keys and not self._whole and text[start] == "{":
            self._json = JsonArguments(limits=self._machine.limits)
            return start
        self._read_other(text, start)
        return start

    def _read_other(self, text: str, start: int) -> None:
        """End the call at text that is not a parameter: its closer is missing, or a tag of a parameter is.

        The tag is missing if another part of that parameter follows.  Case: glm45/n0_4_key_tag_missing.
        """
        window = text[start : start + MAX_TEXT_CHARS]
        part = self._markers.parts.scan(window, 0)
        end = self._machine.grammar.ends.scan(window, 0)
        if isinstance(part, FoundMarker):
            to = end.start if isinstance(end, FoundMarker) else end
            self._broken = self._broken or part.start < to
        if not self._broken and not isinstance(end, FoundMarker):
            if len(window) < MAX_TEXT_CHARS and not self._machine.closing:
                self._waits = True
                return
            self._broken = isinstance(part, FoundMarker)
        if self._broken or self._lacks_one:
            self._cut()
        else:
            self._sink.problem("native_closer_missing", self._name)
            self._end(closed=False)

    def _apply_marker(self, text: str, found: FoundMarker) -> None:
        if found.which < self._markers.params:
            self._begin_value(found.groups)
        elif found.which < self._markers.ends:
            self._end()
        else:
            noise = text[found.start : found.end]
            self._broken = self._broken or self._whole  # a tag after an object, which was its value
            self._sink.problem("native_noise_dropped", excerpt=noise[:EXCERPT_CHARS])

    def _read_json(self, text: str, at: int) -> int:
        arguments = self._json
        assert arguments is not None  # noqa: S101 -- the caller looked
        try:
            self._out.append(arguments.feed(text[at:]))
        except TooLargeError as error:
            self._sink.problem("native_call_invalid", str(error), limit=error.limit)
            self._end_json(arguments, cut=True)
            return at
        if not arguments.whole and not arguments.stalled:
            return len(text)
        at = len(text) - len(arguments.take_unread())
        if arguments.whole:
            self._out[-1] = self._out[-1].rstrip()
            self._json = None
            self._whole = True
        else:
            self._sink.problem("native_call_invalid", self._name)
            self._end_json(arguments, cut=True)
        return at

    def _end_json(self, arguments: JsonArguments, *, cut: bool) -> None:
        """End a body whose JSON object is not complete."""
        outcome = close_arguments(arguments, self._parameters, cut=cut)
        self._out.append(outcome.text)
        self._flush()
        for code in outcome.problems:
            self._sink.problem(code, self._name)
        self._sink.end(complete=outcome.complete)
        self._machine.leave_call()

    # --- values ------------------------------------------------------------------------------------

    def _begin_value(self, groups: dict[str, str]) -> None:
        key = groups.get("key", "").strip()
        if self._spec.entities:
            key = unescaped(key)
        verbatim = "verbatim" in groups
        self._value_ends = self._markers.verbatim if verbatim else self._markers.value
        if not key:
            # Only this parameter is lost (minicpm5/n8_param_without_name), unless its name is there, but not
            # legible: minicpm5/n8_quote_missing.
            attributes = _KNOWN_ATTRIBUTES.sub("", groups.get("attributes", ""))
            self._broken = self._broken or _LETTER.search(attributes) is not None
            self._streams = False
            self._sink.problem("native_noise_dropped", "a parameter without a name")
            self._value = ParameterValue(self._dropped, STRING_ONLY, "none")
            return
        out = self._begin_key(key)
        self._streams = out is self._out
        self._keys.add(key)
        flag = groups.get("string", groups.get("type"))
        types = self._parameters.types(key)
        allowed: frozenset[str] = frozenset()
        if flag is not None:
            types = STRING_ONLY if flag in ("true", "string") else frozenset()
            # The schema wins over the tag if it allows only the other reading.
            # Cases: deepseek_v32/n3_2_flagged_string_is_an_integer, kimi_k3/n3_2_string_is_an_integer.
            allowed = self._parameters.declared_types(key)
            if types == STRING_ONLY and allowed and "string" not in allowed:
                types = allowed
            elif not types and allowed == STRING_ONLY:
                types = STRING_ONLY
        self._value = ParameterValue(out, types, "none" if verbatim else self._spec.trim, allowed)

    def _begin_key(self, key: str) -> list[str]:
        """Return the list that takes the JSON of a parameter's value."""
        if self._held_size > MAX_REPLACED_CHARS:
            self._release_values()
        if self._replaces:
            self._held_size += len(key)
            self._values.pop(key, None)
            return self._values.setdefault(key, [])
        if self._wrapped is not None:
            self._keep_wrapper()
        if not self._keys and key in _WRAPPERS and self._may_wrap(key):
            self._wrapped = []
            return self._wrapped
        self._out.append(f"{', ' if self._keys else '{'}{quoted(key)}: ")
        return self._out

    def _may_wrap(self, key: str) -> bool:
        """Return whether a parameter may contain all arguments: the tool declares others, but not this one."""
        properties = self._parameters.properties
        return bool(properties) and key not in properties

    def _keep_wrapper(self) -> None:
        """Emit a held parameter as an ordinary parameter."""
        json = "".join(self._wrapped or ())
        self._wrapped = None
        self._out.append(f"{{{quoted(next(iter(self._keys)))}: {json}")

    def _unwrap(self) -> bool:
        """Use the only parameter as the arguments, if it is an object of the tool's parameters."""
        json = "".join(self._wrapped or ())
        try:
            text: Any = decode_any(json)
            if isinstance(text, str):
                json = to_json(text, _OBJECT).strip()
            inner: Any = decode_any(json)
        except (msgspec.DecodeError, UnicodeError):
            return False
        if not isinstance(inner, dict) or not inner.keys() <= self._parameters.properties.keys():
            return False
        self._out.append(json)
        self._wrapped = None
        return True

    def _end_value(self) -> None:
        assert self._value is not None  # noqa: S101 -- the caller looked
        self._value.end()
        self._inner = None
        self._mentioned = False
        if self._replaces:
            self._held_size += self._value.size
        self._value = None

    def _release_values(self) -> None:
        """Write the parameters that waited for a repeated one."""
        self._replaces = False
        only = next(iter(self._values), "")
        if len(self._values) == 1 and only in _WRAPPERS and self._may_wrap(only):
            self._wrapped = self._values.pop(only)
        lead = "{"
        for key, json in self._values.items():
            self._out += (f"{lead}{quoted(key)}: ", *json)
            lead = ", "
            if self._value is not None and self._value.moved(json, self._out):
                self._streams = True
        self._values = {}

    def _may_follow(self, key: str) -> bool:
        properties = self._parameters.properties
        return key not in self._keys and (not properties or key in properties)

    # --- the end -----------------------------------------------------------------------------------

    def _end(self, *, closed: bool = True) -> None:
        self._release_values()
        if self._wrapped is not None:
            if not self._unwrap():
                self._keep_wrapper()
                self._out.append("}")
        elif self._whole:
            pass
        elif not self._keys:
            self._out.append("{}")
        else:
            self._out.append("}")
        self._flush()
        if self._broken:
            self._sink.problem("native_call_invalid", self._name)
        self._sink.end(complete=not self._broken)
        if closed:
            self._machine.leave_closed()
        else:
            self._machine.leave_call()

    @property
    def _lacks_one(self) -> bool:
        """A required parameter is missing: the model did not finish the call."""
        unknown = self._whole or self._wrapped is not None
        return not unknown and not self._parameters.required <= self._keys

    @property
    def _is_bare(self) -> bool:
        """The call has no arguments so far."""
        return not self._keys and not self._whole

    def _cut(self) -> None:
        self._release_values()
        if self._wrapped is not None:
            # Nothing of it was emitted.
            self._wrapped = None
            self._keys.clear()
        self._flush()
        self._sink.problem("call_cut", self._name)
        self._sink.end(complete=False)
        self._machine.leave_call()

    def _flush(self) -> None:
        self._dropped.clear()
        if self._out:
            json = "".join(self._out)
            self._out.clear()
            if json:
                self._sink.args(json)


class ParameterValue:
    """One value: emitted as it arrives if it is a string, else held until it ends."""

    def __init__(
        self,
        out: list[str],
        types: frozenset[str],
        trim: str,
        allowed: frozenset[str] = frozenset(),
    ) -> None:
        self._out = out
        self._types = types  # empty: the value is JSON
        self._allowed = allowed  # types that the schema allows for a JSON value
        self._trim = trim
        self._fresh = True  # nothing has arrived yet
        self.size: int = 0  # characters so far
        self._held: list[str] | None = None  # the text of a value that is held until its end
        if types == STRING_ONLY:
            self._out.append('"')
        else:
            self._held = []

    @property
    def holding(self) -> bool:
        return bool(self._held)

    @property
    def streams(self) -> bool:
        """Added text is emitted at once, unchanged but for escapes."""
        return self._held is None and not self._fresh

    def moved(self, old: list[str], new: list[str]) -> bool:
        """Write to another list from now on, if `old` is the current one."""
        if self._out is old:
            self._out = new
            return True
        return False

    def add(self, text: str) -> None:
        if self._fresh and text:
            text = self._trimmed(text)
        if not text:
            return
        self.size += len(text)
        if self._held is None:
            self._out.append(escaped(text))
            return
        self._held.append(text)
        if self._types == STRING_OR_NULL and not _may_be_null(self._held):
            self._out.append('"' + escaped("".join(self._held)))
            self._held = None

    def end(self) -> None:
        if self._held is None:
            self._out.append('"')
        else:
            text = "".join(self._held)
            self._out.append(
                to_json(text, self._types) if self._types else json_of_types(text, self._allowed)
            )

    def cut(self) -> None:
        """Emit what is held of a value that has no end."""
        if self._held:
            self._out.append(truncated("".join(self._held)))
            self._held = None

    def _trimmed(self, text: str) -> str:
        """Remove the blanks that the template puts before a value."""
        if self._trim == "blank":
            text = text.lstrip()
            self._fresh = not text
        else:
            self._fresh = False
            if self._trim == "line":
                text = text.removeprefix("\n")
        return text


def _may_be_null(held: list[str]) -> bool:
    text = "".join(held)
    return len(text) < _MAX_NULL_CHARS and "null".startswith(text.strip().lower())
