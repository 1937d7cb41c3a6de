"""Arguments as nested elements, every tag after the format's mark (`ElementsSpec`): MiniMax-M3.

    ]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>  ->  {"tags": ["a"]}

An element is an object or an array if the schema declares it or if another element begins inside it; else it is a
value, typed by the schema.  A string is escaped and emitted as it arrives.
"""

from typing import TYPE_CHECKING, Any, Final

from dragoman.toolcalls.bodies.tags import ParameterValue
from dragoman.toolcalls.format import AHEAD, BLANKS, EXCERPT_CHARS, ElementsSpec, Run
from dragoman.toolcalls.scanner import FoundMarker, Scanner, scanner
from dragoman.toolcalls.schema_types import element_schema, escaped, quoted, types_of

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_ITEM: Final = "item"  # the tag of an array's elements
_CALL, _SECTION = "invoke", "tool_call"  # the tags around the elements
_OPEN, _CLOSE, _NEXT_CALL, _UNMARKED, _MARK = range(5)  # indices of the scanner's patterns


def scanner_of(spec: ElementsSpec) -> Scanner:
    """Return the scanner for an element's tags."""
    name = Run(r"[^<>\s/]", 1, 256, name="key")
    return scanner(
        (
            (spec.mark, BLANKS, "<", name, ">"),
            (spec.mark, BLANKS, "</", name, ">"),
            (spec.mark, BLANKS, f"<{_CALL} name=", Run(r"[^<>]", 1, 130), ">"),
            # A closer whose mark is missing, before another tag.  Case: minimax_m3/n8_mark_missing.
            (
                "</",
                name,
                ">",
                AHEAD,
                spec.mark,
                BLANKS,
                "<",
                Run(r"[^<>]", 1, 256, name="next"),
                ">",
            ),
            (spec.mark,),
        )
    )


class _Element:
    """An open element."""

    def __init__(self, key: str, schema: Any) -> None:
        self.key = key
        self.schema = schema
        self.opener = ""  # `{` or `[` if the schema declares a container
        self.closer = ""  # `}` or `]`; empty: not known to be a container
        self.empty = True  # the container has no child yet
        self.blanks: list[str] = []  # before the first child or value
        self.size = 0  # of the blanks
        self.value: ParameterValue | None = None  # of an element that is not a container


class ElementsBody:
    """The elements of one call."""

    def __init__(self, machine: "Machine", spec: ElementsSpec, call_id: str, name: str) -> None:
        self._machine = machine
        self._sink = machine.sink
        self._spec = spec
        self._scanner = scanner_of(spec)
        self._call_id = call_id
        self._name = name
        self._root = machine.declared.parameters(name).schema
        self._out: list[str] = ["{"]
        top = _Element(_CALL, self._root)
        top.closer = "}"
        self._stack = [top]
        self._keys: set[str] = set()  # parameters so far
        self._noise = ""  # the start of text between elements
        self._broken = False  # a tag is incomplete: the call is not complete

    @property
    def holding(self) -> bool:
        value = self._stack[-1].value
        return value is not None and value.holding

    @property
    def held(self) -> str:
        return ""

    def start(self) -> None:
        self._machine.enter_call()
        self._sink.begin(self._call_id, self._name)

    def feed(self, text: str, at: int, /) -> int:
        value = self._stack[-1].value
        if (
            value is not None
            and value.streams
            and not at
            and self._spec.mark[0] not in text
            and "<" not in text
        ):
            # Fast path for most pieces: the text continues a string.
            self._sink.args(escaped(text))
            return len(text)
        end = len(text)
        while at < end and self._machine.body is self:
            found = self._scanner.scan(text, at)
            to = found.start if isinstance(found, FoundMarker) else found
            if to > at:
                self._text(text[at:to])
            if not isinstance(found, FoundMarker):
                at = to
                break
            if found.which == _NEXT_CALL:
                self._end_before_next()
                at = found.start
                break
            at = self._apply_marker(text, found)
        self._flush()
        if self._machine.body is self:
            last = self._stack[-1]
            if last.value is None:
                self._sink.hold(last.size)
            elif last.value.holding:
                self._sink.hold(last.value.size)
        return at

    def _apply_marker(self, text: str, found: FoundMarker) -> int:
        """Read a tag; return the end of the consumed text."""
        if found.which == _MARK:
            # The tag after the mark is missing.  Case: minimax_m3/n8_tag_missing.
            self._broken = True
            self._sink.problem("native_noise_dropped", excerpt=self._spec.mark)
            return found.end
        key = found.groups["key"]
        if found.which == _UNMARKED:
            last = self._stack[-1]
            if len(self._stack) == 1 or key != last.key or found.groups["next"] == f"/{key}":
                self._text(text[found.start : found.start + 1])
                return found.start + 1
        elif not self._belongs(key, closes=found.which == _CLOSE):
            self._broken = True  # the closer of a string is missing
            self._text(text[found.start : found.end])
            return found.end
        self._report_noise()
        if found.which == _OPEN:
            self._open(key)
        else:
            self._close(key)
        return found.end

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        at = self.feed(text, at)
        if self._machine.body is not self:
            return at
        self._report_noise()
        # If only the header has arrived, the call was cut: minimax_m3/n0_4_header_alone.
        bare = not self._keys and not self._machine.declared.takes_nothing(self._name)
        if not cut and at == len(text) and not bare and self._may_end:
            self._sink.problem("native_closer_missing", self._name)
            self._end()
        else:
            value = self._stack[-1].value
            if value is not None:
                value.cut()
                self._flush()
            self.stop()
        return len(text)

    def _end_before_next(self) -> None:
        """End the call at the header of another one: minimax_m3/n0_5_closer_missing_next_begins."""
        self._report_noise()
        self._flush()
        if self._may_end:
            self._sink.problem("native_closer_missing", self._name)
            self._end()
        else:
            self.stop()

    @property
    def _may_end(self) -> bool:
        """All elements are closed and no required one is missing."""
        required = self._machine.declared.parameters(self._name).required
        return len(self._stack) == 1 and required <= self._keys

    def stop(self) -> None:
        self._sink.problem("call_cut", self._name)
        self._sink.end(complete=False)
        self._machine.leave_call()

    # --- elements ----------------------------------------------------------------------------------

    def _belongs(self, key: str, *, closes: bool) -> bool:
        """Return whether a tag is legal here; else it is text."""
        if closes:
            return key in (_SECTION, _CALL) or len(self._stack) > 1
        return self._stack[-1].value is None  # a string contains no elements

    def _open(self, key: str) -> None:
        element = self._stack[-1]
        self._contain(element, key)
        if len(self._stack) == 1:
            self._keys.add(key)
        if not element.empty:
            self._out.append(", ")
        element.empty = False
        if element.closer == "}":
            self._out.append(f"{quoted(key)}: ")
        schema = element_schema(element.schema, key, self._root, array=element.closer == "]")
        child = _Element(key, schema)
        types = types_of(schema, self._root)
        if types == {"object"}:
            child.opener = "{"
        elif types == {"array"}:
            child.opener = "["
        self._stack.append(child)

    def _contain(self, element: _Element, key: str) -> None:
        """Make an element an object or an array, depending on its first child."""
        if element.closer:
            return
        self._begin_container(element, element.opener or ("[" if key == _ITEM else "{"))

    def _begin_container(self, element: _Element, opener: str) -> None:
        element.closer = "}" if opener == "{" else "]"
        self._out.append(opener)

    def _text(self, text: str) -> None:
        element = self._stack[-1]
        start = text.lstrip()[:1]
        waits = element.opener and not element.closer and element.value is None
        if waits and start and start not in "{[":
            # A brace or bracket means that the container is JSON: minimax_m3/n2_2_json_in_an_element.
            self._begin_container(element, element.opener)
        if element.closer:
            if len(self._noise) < EXCERPT_CHARS:
                self._noise += text if self._noise else text.lstrip()
            return
        if element.value is None:
            element.blanks.append(text)
            element.size += len(text)
            if not text.isspace():
                # Blanks may precede a child as well as a value.
                self._begin_value(element)
            return
        element.value.add(text)

    def _begin_value(self, element: _Element) -> ParameterValue:
        element.value = ParameterValue(self._out, types_of(element.schema, self._root), "none")
        element.value.add("".join(element.blanks))
        return element.value

    def _close(self, key: str) -> None:
        """Close the innermost element of that name and all elements inside it.

        A closer of another name closes the open element: minimax_m3/n8_closer_of_another_name.
        """
        if key != _SECTION and all(key != element.key for element in self._stack):
            key = self._stack[-1].key
        while len(self._stack) > 1:
            element = self._stack.pop()
            if not element.closer and element.opener and element.value is None:
                self._begin_container(element, element.opener)
            if element.closer:
                self._out.append(element.closer)
            else:
                (element.value or self._begin_value(element)).end()
            if element.key == key:
                return
        self._end()

    def _report_noise(self) -> None:
        if self._noise:
            excerpt = self._noise[:EXCERPT_CHARS].rstrip()
            self._sink.problem("native_noise_dropped", excerpt=excerpt)
            self._noise = ""

    # --- the end -----------------------------------------------------------------------------------

    def _end(self) -> None:
        self._out.append("}")
        self._flush()
        if self._broken:
            self._sink.problem("native_call_invalid", self._name)
        self._sink.end(complete=not self._broken)
        self._machine.leave_closed()

    def _flush(self) -> None:
        json = "".join(self._out)
        self._out.clear()
        if json:
            self._sink.args(json)
