"""Pages, docstrings, comments, messages and the names of tests are in plain English: some words are banned."""

import ast
import io
import json
import re
import tokenize
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dragoman"
TESTS = ROOT / "tests"
CORPUS = TESTS / "corpus"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

# A banned word, and words that say the same.
BANNED: Final = {
    r"told": "reported, emitted, documented",
    r"mend(?:s|ed|ing)?": "repair",
    r"anew": "again; rewrite",
    r"nobody": "name the client, the user or the upstream",
    r"whoever": "name the client, the user or the upstream",
    r"of (?:its|their|our|one's) own": "its own NOUN; separate",
    r"stands?": "is, appears; remains",
    r"heed(?:s|ed|ing)?": "respect, use",
    r"(?<!there )is no(?! longer)": "is not a",
    r"wish(?:es|ed)?": "request, value",
    r"as (?:it|they) came": "unchanged",
    r"pass(?:es|ed)? over": "ignore",
    r"without a word": "silently, without an error",
    r"in silence": "silently",
    r"small matters": "small tasks",
    r"hand(?:s|ed)? back": "return",
    r"tells": "shows, reports, prints; distinguishes",
    r"says that": "reports, announces; is set if",
    r"can(?:not| not) (?:say|be said)": "has no form for",
}
_PATTERN: Final = re.compile(
    "|".join(rf"(?P<w{n}>\b(?:{word})\b)" for n, word in enumerate(BANNED)), re.IGNORECASE
)
# Words that no name in the code contains, as one of its parts (`told_at`, `_SAID`, `ToldBlock`).
BANNED_IN_NAMES: Final = frozenset(
    {
        "told",
        "tell",
        "tells",
        "said",
        "says",
        "mended",
        "mend",
        "mends",
        "stands",
        "anew",
        "wish",
        "wishes",
        "settle",
        "settles",
        "settled",
        "settling",
        "unsaid",
    }
)
# The same for tests and tools.
BANNED_IN_NAMES_OF_TESTS: Final = frozenset(
    {"told", "tell", "tells", "anew", "settle", "settles", "settled", "unsaid"}
)
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def banned_words(text: str) -> list[tuple[int, str]]:
    """Return the lines of the banned words in prose, each with a suggestion; code is skipped."""
    prose = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    suggestions = list(BANNED.values())
    return [
        (
            prose.count("\n", 0, match.start()) + 1,
            f"`{match[0]}`; write: {suggestions[int((match.lastgroup or 'w0')[1:])]}",
        )
        for match in _PATTERN.finditer(prose)
    ]


def banned_in_module(path: Path) -> list[tuple[int, str]]:
    """Return the same for the comments and the strings of a module, docstrings among them."""
    text = path.read_text("utf-8")
    prose = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    prose += [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return sorted(
        (first + line - 1, found) for first, part in prose for line, found in banned_words(part)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_banned_word(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    found = [f"{name}:{line}: {what}" for line, what in banned_words(page.read_text("utf-8"))]

    assert not found, "\n".join(found)


def test_words_are_found_with_their_line_and_not_in_code() -> None:
    text = "There is no such model.\n```\nis told\n```\nIt is `told` and\nis told. It stands."

    assert [(6, "`told`"), (6, "`stands`")] == [
        (line, what.split(";")[0]) for line, what in banned_words(text)
    ]


def test_docstrings_begin_with_what_the_code_does() -> None:
    # A function returns, reads, emits or reports; it does not say, tell or know.
    vague = re.compile(r'"""(?:Say|Tell|Know) .*')
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for match in vague.finditer(path.read_text("utf-8"))
    ]

    assert not found, "\n".join(found)


def test_source_has_no_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, what in banned_in_module(path)
    ]

    assert not found, "\n".join(found)


def _banned_part(name: str, banned: frozenset[str] = BANNED_IN_NAMES) -> bool:
    return not banned.isdisjoint(part.lower() for part in _PART.findall(name))


def banned_names(path: Path, banned: frozenset[str] = BANNED_IN_NAMES) -> list[tuple[int, str]]:
    """Return the names in a module that contain a banned word, with their lines."""
    text = path.read_text("utf-8")
    if not any(_banned_part(one, banned) for one in set(_NAME.findall(text))):
        return []  # tokens take long
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME and _banned_part(token.string, banned)
    ]


def test_source_has_no_name_with_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: `{name}`"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in banned_names(path)
    ]

    assert not found, "\n".join(found)


def test_tests_and_tools_have_no_name_with_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: `{name}`"
        for folder in (TESTS, ROOT / "tools")
        for path in sorted(folder.rglob("*.py"))
        for line, name in banned_names(path, BANNED_IN_NAMES_OF_TESTS)
    ]

    assert not found, "\n".join(found)


def test_names_are_split_into_their_words(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("_TOLD = 1\nclass ToldBlock: pass\nretold = essays = 1\ndef x_says(): pass\n")

    assert [(1, "_TOLD"), (2, "ToldBlock"), (4, "x_says")] == banned_names(module)


def banned_in_tests(path: Path) -> list[tuple[int, str]]:
    """Return the banned words in the docstrings of a test module and in the names of its tests."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.name.startswith("test_") and _banned_part(node.name)
        ):
            found.append((node.lineno, f"`{node.name}`"))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = getattr(node, "lineno", 1)
            found += [(first, what) for _, what in banned_words(ast.get_docstring(node) or "")]
    return found


def test_tests_have_no_banned_word_in_names_and_docstrings() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, what in banned_in_tests(path)
    ]

    assert not found, "\n".join(found)


def test_cases_of_the_corpus_have_no_banned_word() -> None:
    prose = {path: path.read_text("utf-8") for path in CORPUS.rglob("case.md")}
    prose |= {
        path: json.loads(path.read_text("utf-8"))["says"]
        for path in (CORPUS / "toolcalls").rglob("*.json")
    }
    found = [
        f"{path.relative_to(ROOT)}: {what}"
        for path, text in sorted(prose.items())
        for _, what in banned_words(text)
    ]

    assert len(prose) > 2_000
    assert not found, "\n".join(found)
