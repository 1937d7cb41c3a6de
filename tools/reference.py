"""Write docs/reference.md, the reference of the public API, from the docstrings.

    python -m tools.reference

`tests/docs/test_reference.py` fails while the page is not what this program writes.
"""

import inspect
import re
import textwrap
import typing
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin

from msgspec import Struct

import dragoman
from dragoman import testing

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
WIDTH = 100

# Every public name, by subject.
SUBJECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Translate": (
        "Responses and requests from one dialect to another; see [library.md](library.md).",
        (
            "Translator",
            "translate_body",
            "TranslatedBody",
            "translate_error",
            "translate_request",
            "TranslatedRequest",
            "error_response",
            "decode_tools",
            "Rendering",
            "Sealer",
            "Checker",
            "Verdict",
            "Violation",
        ),
    ),
    "Tool calls in text": (
        "Tool calls that a model writes as text; see [native-formats.md](native-formats.md).",
        ("ToolCallParser", "Parsed", "Format", "json_format", "tags_format"),
    ),
    "Client": (
        "Requests to one server; see [library-client.md](library-client.md).",
        (
            "Client",
            "SyncClient",
            "AnswerStream",
            "SyncAnswerStream",
            "Timeouts",
            "TLS",
        ),
    ),
    "Requests": (
        "What is sent.",
        (
            "request",
            "system",
            "user",
            "assistant",
            "answer_turn",
            "result",
            "tool",
            "Request",
            "Turn",
            "TextPart",
            "ImagePart",
            "DocumentPart",
            "AudioPart",
            "SearchResultPart",
            "UrlSource",
            "Base64Source",
            "FileSource",
            "TextSource",
            "CacheHint",
            "ReasoningSettings",
            "Tool",
            "DialectName",
        ),
    ),
    "Answers": ("What comes back.", ("Answer", "Block", "ToolCall", "Loss")),
    "Tool loop": (
        "Conversations with tools; see [tool-loop.md](tool-loop.md).",
        ("ToolLoop", "Step", "LoopLimits", "Transcript"),
    ),
    "Events": (
        "The parts of a streamed answer; [ARCHITECTURE.md](../ARCHITECTURE.md#events-of-a-response) shows their order.",
        (
            "Event",
            "Start",
            "BlockStart",
            "BlockKind",
            "Flavor",
            "TextDelta",
            "ReasoningDelta",
            "Channel",
            "ArgsDelta",
            "InputDelta",
            "RefusalDelta",
            "Citation",
            "Opaque",
            "OpaqueKind",
            "BlockEnd",
            "Usage",
            "Finish",
            "FinishReason",
            "Fault",
            "FaultKind",
            "Ping",
        ),
    ),
    "Profiles and limits": (
        "What an upstream accepts, and how much a peer may send.",
        ("profile", "Profile", "Limits"),
    ),
    "Errors": (
        "Every exception is a `DragomanError`.",
        (
            "DragomanError",
            "ClientError",
            "LoopStoppedError",
            "ConfigError",
            "MisuseError",
            "UntranslatableError",
            "ProtocolError",
            "PeerError",
            "MalformedError",
            "NotJsonError",
            "IllegalOrderError",
            "TruncatedError",
            "TooLargeError",
        ),
    ),
    "Testing": (
        "Test doubles, in `dragoman.testing`; see [simulator.md](simulator.md).",
        ("Simulator", "ReceivedRequest", "check_format", "Outcome", "check_recording"),
    ),
    "Version": ("", ("__version__",)),
}
# Type aliases and values, which have no docstring.
ALIASES = {
    "DialectName": "The name of a dialect: `chat`, `anthropic`, `responses`, `gemini`, or one that a program registered.",
    "Event": "Any of the events below, or a `Loss`.",
    "__version__": "The version of the package, a string.",
}
OTHERS = "Other types"
OTHERS_INTRO = (
    "Types of fields and results of the names above. A program seldom has to name one; the module to import it from is"
    " given, and may change. [native-formats.md](native-formats.md#in-python) shows those of a `Format`."
)
# Not made by users, and types of a seam of the gateway.
_INNER = {"AnswerStream", "SyncAnswerStream"}
_SEAMS = {"watchers"}
_SECTION = re.compile(r"^(Args|Attributes|Raises|Example):$")
_ENTRY = re.compile(r"^    (\*{0,2}\w+): (.*)$")
_HEADS = {"Args": "Argument", "Attributes": "Attribute", "Raises": "Raises"}
_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Reference",
        "",
        "Every public name of `dragoman` and `dragoman.testing`, from the docstrings.",
        "`python -m tools.reference` writes this page; edit the docstrings instead.",
        "Names that are not on this page may change without notice.",
        "",
    ]
    anchors = _anchors()
    for subject, (_, names) in SUBJECTS.items():
        own = next(anchors)
        listed = ", ".join(f"[`{name}`](#{next(anchors)})" for name in names)
        lines += [f"* [{subject}](#{own}): {listed}"]
    lines += [f"* [{OTHERS}](#other-types)"]
    for subject, (intro, names) in SUBJECTS.items():
        lines += ["", f"## {subject}", ""]
        lines += [intro, ""] if intro else []
        for name in names:
            lines += _entry(name)
        lines.pop()
    lines += ["", f"## {OTHERS}", "", OTHERS_INTRO, ""]
    for cls in other_types():
        lines += [f"### `{cls.__name__}`", "", f"From `{cls.__module__}`.", ""]
        lines += _explained(cls.__name__, cls)
    lines.pop()
    return "\n".join(lines) + "\n"


def public_names() -> list[str]:
    """Return every name that the page must have."""
    return [*dragoman.__all__, *testing.__all__]


def other_types() -> list[type]:
    """Return the types that the public names use and that are not public names themselves."""
    public = {name: _value(name) for name in public_names()}
    found: dict[type, None] = {}
    for name, value in public.items():
        _collect(value, name, {*filter(inspect.isclass, public.values())}, found)
    return sorted(
        (cls for cls in found if not typing.is_typeddict(cls)), key=lambda cls: cls.__name__
    )


def _collect(value: Any, name: str, public: set[type], found: dict[type, None]) -> None:
    """Add the types of the fields, parameters and results of a value to `found`, and theirs."""
    for hints in _hints(value, name):
        for of, hint in hints.items():
            for cls in () if of.startswith("_") or of in _SEAMS else _classes(hint):
                if cls not in found and cls not in public:
                    found[cls] = None
                    _collect(cls, cls.__name__, public, found)


def _hints(value: Any, name: str) -> Iterator[dict[str, Any]]:
    if not isinstance(value, type):
        yield typing.get_type_hints(value) if inspect.isfunction(value) else {"": value}
        return
    if issubclass(value, Struct) or typing.is_typeddict(value):
        yield typing.get_type_hints(value)
    elif name not in _INNER and not issubclass(value, Enum):
        yield typing.get_type_hints(value.__init__)
    for member, one in inspect.getmembers(value):
        if not member.startswith("_") and not _is_foreign(value, member):
            function = one.fget if isinstance(one, property) else one
            if inspect.isroutine(function):
                yield typing.get_type_hints(function)


def _classes(hint: Any) -> Iterator[type]:
    """Yield the classes of this package in a type."""
    if isinstance(hint, type) and hint.__module__.startswith("dragoman."):
        yield hint
    for inner in hint if isinstance(hint, list) else get_args(hint):
        yield from _classes(inner)


def _value(name: str) -> Any:
    return getattr(testing if name in testing.__all__ else dragoman, name)


def _anchors() -> Iterator[str]:
    """Yield the anchors of all headings in order; GitHub numbers those that are equal."""
    seen: Counter[str] = Counter()
    for heading in (one for subject, (_, names) in SUBJECTS.items() for one in (subject, *names)):
        anchor = heading.lower().replace(" ", "-")
        yield f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
        seen[anchor] += 1


def _entry(name: str) -> Iterator[str]:
    yield f"### `{name}`"
    yield ""
    if name in ALIASES:
        yield ALIASES[name]
        yield ""
        return
    yield from _explained(name, _value(name))


def _explained(name: str, value: Any) -> Iterator[str]:
    bases = [
        base.__name__
        for base in getattr(value, "__bases__", ())
        if base.__module__.startswith("dragoman.errors")
    ]
    if not isinstance(value, type) or not issubclass(value, Enum | Exception):
        yield "```text"
        yield _signature(name, value)
        yield "```"
        yield ""
    yield from Docstring(inspect.getdoc(value) or "").markdown()
    for parameter in _parameters(value):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            [options] = get_args(parameter.annotation)
            rows = Docstring(inspect.getdoc(options) or "").sections.get("Attributes", [])
            if rows:
                yield from _table("Option", rows)
    if bases:
        yield f"A subclass of `{bases[0]}`."
        yield ""
    if isinstance(value, type) and issubclass(value, dragoman.DragomanError):
        yield f"`http_status` is {value.http_status}, `exit_code` is {value.exit_code}."
        yield ""
    if isinstance(value, type):
        yield from _members(value)


class Docstring:
    """A docstring: its prose, and the entries of its sections."""

    def __init__(self, text: str) -> None:
        self.prose: list[str] = []
        self.sections: dict[str, list[tuple[str, str]]] = {}
        self.examples: list[str] = []
        section = ""
        for line in text.splitlines():
            head = _SECTION.match(line)
            if head:
                section = head[1]
            elif section and line and not line.startswith(" "):
                section = ""
                self.prose += ["", line]
            elif not section:
                self.prose.append(line)
            elif section == "Example":
                self.examples.append(line)
            else:
                self._add(self.sections.setdefault(section, []), line)

    @staticmethod
    def _add(rows: list[tuple[str, str]], line: str) -> None:
        entry = _ENTRY.match(line)
        if entry:
            rows.append((entry[1], entry[2]))
        elif line.strip() and rows:
            name, text = rows[-1]
            rows[-1] = (name, f"{text} {line.strip()}")

    @cached_property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join("\n".join(self.prose).strip().partition("\n\n")[0].split())

    def markdown(self) -> Iterator[str]:
        """Yield the lines of everything."""
        paragraphs = re.split(r"\n{2,}", "\n".join(self.prose).strip())
        for paragraph in paragraphs:
            if paragraph.startswith("    ") or "\n    " in paragraph:
                yield from ("```text", textwrap.dedent(paragraph), "```", "")
            else:
                yield " ".join(paragraph.split())
                yield ""
        for section, head in _HEADS.items():
            if section in self.sections:
                yield from _table(head, self.sections[section])
        if self.examples:
            yield from ("```text", textwrap.dedent("\n".join(self.examples)).strip(), "```", "")


def _table(head: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {head} | |"
    yield "|---|---|"
    for name, text in rows:
        escaped = " ".join(text.split()).replace("|", "\\|")
        yield f"| `{name}` | {escaped[:1].upper()}{escaped[1:]} |"
    yield ""


def _members(cls: type) -> Iterator[str]:
    """Yield a table of the methods and properties of a class."""
    if issubclass(cls, Enum):
        return
    rows = []
    fields = getattr(cls, "__struct_fields__", ())
    for name, value in inspect.getmembers(cls):
        if name.startswith("_") or name in fields or _is_foreign(cls, name):
            continue
        if isinstance(value, property):
            rows.append((name, Docstring(inspect.getdoc(value) or "").summary))
        elif inspect.isroutine(value):
            rows.append((f"{name}()", Docstring(inspect.getdoc(value) or "").summary))
    if rows:
        yield from _table("Member", rows)


def _is_foreign(cls: type, name: str) -> bool:
    """Return whether a member comes from a base class outside of the package."""
    home = next(base for base in cls.__mro__ if name in vars(base))
    return not home.__module__.startswith("dragoman")


def _parameters(value: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []


def _signature(name: str, value: Any) -> str:
    """Return a call, on one line if it fits, with short names of types."""
    parts: list[str] = []
    keywords = False
    for parameter in _parameters(value):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        parts.append(_parameter(parameter))
    returned = (
        ""
        if isinstance(value, type)
        else f" -> {_type(inspect.signature(value).return_annotation)}"
    )
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) <= WIDTH:
        return line
    body = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{body}){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = f"{stars.get(parameter.kind, '')}{parameter.name}: {_type(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    return f"{text} = {_default(parameter.default)}"


def _default(value: object) -> str:
    if isinstance(value, Struct):
        same = value == type(value)() if not _needs(type(value)) else False
        return f"{type(value).__name__}()" if same else f"{type(value).__name__}(…)"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, frozenset) and value:
        return "…"  # its order differs in every process
    text = repr(value)
    return "…" if " at 0x" in text or text == "<factory>" else text


def _needs(cls: type[Struct]) -> bool:
    return any(one.default is inspect.Parameter.empty for one in _parameters(cls))


def _type(annotation: object) -> str:
    if get_origin(annotation) is Unpack:
        return f"Unpack[{get_args(annotation)[0].__name__}]"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _QUALIFIED.sub("", text).replace("NoneType", "None")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
