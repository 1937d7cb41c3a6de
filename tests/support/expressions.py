"""Every regular expression of the tree, and texts that make a careless one slow.

Run as a program, the module imports all of the package, lets it build what it builds from data, and prints
each expression that was compiled, with the file that compiled it.
"""

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _constants as ops
from re import _parser as parser
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "dragoman"
REPEATS = 12_000  # of one unit in a hostile text
_SHORT = 128  # characters of a match that are too few to matter
_MOST_CHARS = 200_000  # of a hostile text whose unit is long
# A unit of one character per class member would be endless; these stand for all of them.
_SAMPLES = "a0_-. \tA\n\"'{}[]():,;=<>/\\|@é"
_NEVER_MATCHES = "\x00"  # ends a text so that what was begun fails


class Found(NamedTuple):
    """One expression."""

    file: str  # below the package
    pattern: str  # bytes as latin-1
    flags: int
    is_bytes: bool

    def compiled(self) -> re.Pattern[Any]:
        text = self.pattern.encode("latin-1") if self.is_bytes else self.pattern
        return re.compile(text, self.flags)

    @property
    def short(self) -> bool:
        """No match has more than some characters, so that the work at one place is bounded."""
        tree = parser.parse(self.compiled().pattern, self.flags)
        return int(tree.getwidth()[1]) <= _SHORT

    @property
    def anchored(self) -> bool:
        """The file only ever asks whether the expression fits at one place."""
        found = anchored_patterns(self.file)
        return self.pattern in found or _BUILT in found


@cache
def expressions() -> tuple[Found, ...]:
    """Return every expression of the tree, those among them that are built from data."""
    process = subprocess.run(
        [sys.executable, str(Path(__file__))],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    return tuple(sorted({Found(*one) for one in json.loads(process.stdout)}))


# --- how an expression is used ------------------------------------------------------------------------

_BUILT = "built"  # stands for the expressions of a file that are built from data
_ANCHORED = frozenset({"match", "fullmatch"})
_SCANNING = frozenset({"search", "sub", "subn", "split", "findall", "finditer", "scanner"})


@cache
def anchored_patterns(file: str) -> frozenset[str]:
    """Return the literal expressions of a file whose names are used with `match` and `fullmatch` alone."""
    tree = ast.parse((SOURCE / file).read_text())
    named: dict[str, str] = {}
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                text = _literal(call)
                if text is not None:
                    named[name] = text
            case ast.Attribute(value=ast.Name(id=name), attr=method):
                used.setdefault(name, set()).add(method)
    anchored = {
        text
        for name, text in named.items()
        if used.get(name) and used[name] <= _ANCHORED | {"pattern"}
    }
    bound = {_bound_method(node) for node in ast.walk(tree)} - {""}
    return frozenset(anchored | ({_BUILT} if not named and bound and bound <= _ANCHORED else set()))


def _bound_method(node: ast.AST) -> str:
    """Return `match` of `re.compile(...).match`, which is kept without its expression."""
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="compile")), attr=method):
            return method
    return ""


def _literal(call: ast.Call) -> str | None:
    """Return the text of `re.compile("...")`."""
    match call:
        case ast.Call(func=ast.Attribute(attr="compile"), args=[ast.Constant(value=text), *_]):
            return text.decode("latin-1") if isinstance(text, bytes) else str(text)
    return None


def calls_inside_functions() -> Iterator[str]:
    """Yield `file:function` for each use of the module `re` in a function, where none is listed above."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if "import re\n" in text else ():
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name)):
                        if name == "compile" or name in _ANCHORED | _SCANNING:
                            yield f"{path.relative_to(SOURCE)}:{function.name}"


def uses_of_other_engines() -> Iterator[str]:
    """Yield the files that import names from `re`, or another engine: those would not be seen here."""
    for path in sorted(SOURCE.rglob("*.py")):
        if _OTHER_ENGINES.search(path.read_text()):
            yield str(path.relative_to(SOURCE))


_OTHER_ENGINES = re.compile(
    r"^\s*(?:from (?:re|regex|re2)\b|import (?:regex|re2)\b|import re as)", re.MULTILINE
)


# --- hostile texts ------------------------------------------------------------------------------------


def hostile_texts(found: Found, repeats: int = REPEATS) -> Iterator[str]:
    """Yield texts made of what an expression itself looks for.

    A careless expression is slow on a text that nearly fits it very often: each beginning of what would
    fit, repeated; and all up to a repeat, followed by very many of what that repeat takes.
    """
    tree = parser.parse(found.compiled().pattern, found.flags & ~re.DEBUG)
    units: set[str] = set()
    for sample, places in _samples(tree):
        units.update(sample[:size] for size in _sizes(len(sample)))
        for start, body in places:
            yield sample[:start] + _repeated(body, repeats) + _NEVER_MATCHES
            units.add(sample[:start] + body)
    for unit in sorted(units):
        for lead in ("", "-"):  # some look only at the beginning of a word
            if unit:
                yield _repeated(lead + unit, repeats) + _NEVER_MATCHES


def _repeated(unit: str, repeats: int) -> str:
    return unit * min(repeats, _MOST_CHARS // len(unit))


def _sizes(length: int) -> list[int]:
    """Return the beginnings to repeat: all of a short sample, the telling ones of a long one."""
    return [*range(1, min(length, 12) + 1), length // 2, length - 1, length]


class _Sample:
    """A text that an expression takes, and where in it something may be repeated."""

    def __init__(self, choose: int) -> None:
        self.text = ""
        self.repeats: list[tuple[int, str]] = []
        self._choose = choose  # which branch is taken where there are several

    def add(self, tree: Any) -> None:
        for op, value in tree:
            self._add(op, value)

    def _add(self, op: Any, value: Any) -> None:
        match op:
            case ops.LITERAL:
                self.text += chr(value)
            case ops.NOT_LITERAL:
                self.text += "a" if value != ord("a") else "b"
            case ops.IN:
                self.text += _member(value, self._choose)
            case ops.ANY:
                self.text += "a"
            case ops.BRANCH:
                self.add(value[1][self._choose % len(value[1])])
            case ops.SUBPATTERN:
                self.add(value[3])
            case ops.ATOMIC_GROUP:
                self.add(value)
            case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
                self._repeat(*value)
            # Positions, look-arounds and references take no text of their own.

    def _repeat(self, least: int, most: int, tree: Any) -> None:
        start = len(self.text)
        self.add(tree)
        body = self.text[start:]
        if body and most > 64:
            self.repeats.append((start, body))
        self.text += body * (min(least, 20) - 1)


def _samples(tree: Any) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield texts that an expression takes: as many as its widest choice has branches."""
    seen: set[str] = set()
    for choose in range(_widest(tree)):
        sample = _Sample(choose)
        sample.add(tree)
        if sample.text not in seen:
            seen.add(sample.text)
            yield sample.text, sample.repeats


def _widest(tree: Any) -> int:
    """Return the number of branches of the widest choice in an expression; two at least."""
    most = 2
    for op, value in tree:
        match op:
            case ops.BRANCH:
                most = max(most, len(value[1]), *map(_widest, value[1]))
            case ops.SUBPATTERN:
                most = max(most, _widest(value[3]))
            case ops.ATOMIC_GROUP:
                most = max(most, _widest(value))
            case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
                most = max(most, _widest(value[2]))
    return most


def _member(members: Any, choose: int) -> str:
    """Return a character of a class; another one for another choice, as far as there are several."""
    text = "".join(parser_text(members))
    fits = [one for one in _SAMPLES if re.fullmatch(text, one, re.DOTALL)]
    if fits:
        return fits[choose % len(fits)]
    for op, value in members:
        match op:
            case ops.LITERAL:
                return chr(value)
            case ops.RANGE:
                return chr(value[0])
    return "a"


_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def parser_text(members: Any) -> Iterator[str]:
    """Write a parsed class of characters as an expression again."""
    yield "["
    for op, value in members:
        match op:
            case ops.NEGATE:
                yield "^"
            case ops.LITERAL:
                yield re.escape(chr(value))
            case ops.RANGE:
                yield f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
            case ops.CATEGORY:
                yield _CATEGORIES[value]
    yield "]"


# --- the program --------------------------------------------------------------------------------------


def _main() -> None:
    compiled: list[tuple[str, str, int, bool]] = []
    compile_ = re._compile

    def recording(pattern: Any, flags: Any) -> Any:
        made = compile_(pattern, flags)
        frame = sys._getframe(1)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(SOURCE):
                is_bytes = isinstance(made.pattern, bytes)
                text = made.pattern.decode("latin-1") if is_bytes else made.pattern
                file = str(path.relative_to(SOURCE))
                # The flags of a text always hold UNICODE; a pattern's own flags stand in it again.
                compiled.append((file, text, int(flags), is_bytes))
                break
            frame = frame.f_back if "importlib" not in frame.f_code.co_filename else None
        return made

    re._compile = recording
    package = importlib.import_module("dragoman")
    for module in pkgutil.walk_packages(package.__path__, "dragoman."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _build()
    sys.stdout.write(json.dumps(compiled))


def _build() -> None:
    """Let the package build the expressions that it builds from data."""
    from dragoman.globs import Glob
    from dragoman.redaction import redact
    from dragoman.toolcalls.formats import FORMATS
    from dragoman.toolcalls.grammar import warm

    Glob("*claude*-*sonnet*?*")
    redact("text", ("a-secret-of-some-length", "short", "aaaaaaaaaaaaaaab"))
    warm(FORMATS.values())


if __name__ == "__main__":
    _main()
