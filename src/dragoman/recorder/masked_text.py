"""Texts without their content: letters are replaced, and everything that decides how a text is parsed stays.

Lengths, digits, punctuation, blanks, escapes and the markers of native formats stay, and `true`, `false` and `null`
where they are values: between the punctuation of JSON, of arguments or of tags.  Names (of tools, parameters, ids, stop sequences) become other names of the same length, the same one wherever it
occurs.  All other letters become `x`.  The result has as many bytes as the text.

A text that arrives in pieces is masked as far as what follows cannot change the result: `MaskedText` keeps back the
end that may become a marker or a known name.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Final

from dragoman.dialects import vocabulary
from dragoman.toolcalls.format import (
    ElementsSpec,
    Format,
    LiteralsSpec,
    ObjectsSpec,
    Pattern,
    TagsSpec,
    strings_of,
)
from dragoman.toolcalls.formats import FORMATS
from dragoman.turn.losses import CODES

_LETTERS: Final = "bcdfghjklmnpqrstvwz"  # no vowels, so that no name is a word
_FILL: Final = "q"
_KEYWORDS: Final = frozenset({"true", "false", "null", "True", "False", "None", "NaN", "Infinity"})
_BEFORE_VALUE: Final = frozenset(":=[,(>{")  # next to it, but for blanks, a keyword is a value
_AFTER_VALUE: Final = frozenset(",}])<")
_MOST_BLANKS: Final = 32  # between both
_LEAST_LITERAL: Final = 4  # characters of a marker that is kept wherever it occurs
_SENTENCE_BLANKS: Final = 2  # a marker with so many is a sentence, whose words mean nothing alone
_MARKUP: Final = "<>|/[]{}=:\"'\u2581\uff5c\u25c1\u25b7"  # next to it, a word of a marker is one
_EMOJI: Final = "\U0001f000"  # and all above
# By the bytes of a character: what replaces a letter outside of ASCII.
_WIDE: Final = {1: "x", 2: "\u0436", 3: "\u5b57", 4: "\U00020000"}
_HIGH: Final = range(0xD800, 0xDC00)  # the halves of characters beyond U+FFFF
_LOW: Final = range(0xDC00, 0xE000)
_WORD: Final = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")
_PART: Final = re.compile(r"[-.]|[^-.]+")
_REST: Final = re.compile(r"\w*")  # of a word
_PLAIN: Final = re.compile(r"[\x00-@\[-`{-\x7f]*")  # ASCII without letters
_NUMBER: Final = "0123456789.eE+-"
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_MEDIA_TYPE: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+/-;")
_DATA: Final = "data:"
_SCHEMES: Final = ("http://", "https://", _DATA)
_MOST_KEPT: Final = 128  # characters at the end of a piece that may be the beginning of something


class Names:
    """The names of one exchange, and what they become."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}  # by the name in lower case, without punctuation
        self._beginnings: set[str] = set()  # of these
        self._used: dict[int, Iterator[int]] = {}  # by the number of letters

    def add(self, text: str) -> None:
        """Collect all names in a text, such as `functions.get_weather:0`."""
        for match in _tokens().finditer(text):
            if match.lastgroup == "word":
                for part in (match[0], *_PART.findall(match[0])):
                    self._add(part)

    def _add(self, word: str) -> None:
        word = word[_prefix(word) :]
        folded = _folded(word)
        if not folded or folded in self._letters or word.lower() in _marker_words():
            return
        letters = sum(map(str.isalpha, folded))
        number = next(self._used.setdefault(letters, count()))
        made = ""
        for _ in range(letters):
            number, digit = divmod(number, len(_LETTERS))
            made = (_LETTERS[digit] if number or digit or not made else _FILL) + made
        self._letters[folded] = made
        self._beginnings.update(folded[:end] for end in range(min(len(folded), _MOST_KEPT) + 1))

    def may_become(self, word: str) -> bool:
        """Return whether a word that goes on may turn out to be a name, or a word of a marker."""
        word = word.rstrip("-.")  # the next part is looked up alone
        for one in (word, _PART.findall(word)[-1]):
            folded = _folded(one[_prefix(one) :])
            if not folded or folded in self._beginnings or folded in _known_beginnings():
                return True
        return False

    def masked(self, word: str) -> str:
        """Return another name of the same length; empty: this is not one."""
        kept = _prefix(word)
        letters = self._letters.get(_folded(word[kept:]), "")
        if not letters:
            return ""
        left = iter(letters)
        return word[:kept] + "".join(
            _like(char, next(left)) if char.isalpha() else char for char in word[kept:]
        )


def mask_text(text: str, names: Names) -> str:
    """Return a text of the same length in which no word of the content is left."""
    return _mask_rest(text, names, 0)


class MaskedText:
    """One text that arrives in pieces."""

    __slots__ = ("_before", "_early", "_in_word", "_names", "_text")

    def __init__(self, names: Names) -> None:
        self._names = names
        self._before = ""  # the last characters that were masked, as they were
        self._text = ""  # what is not masked yet
        self._early = (
            0  # characters of it that were returned: blanks and punctuation stay in any case
        )
        self._in_word = (
            False  # a word was masked up to its middle: it is not a name, whatever follows
        )

    def feed(self, piece: str) -> None:
        """Take a piece."""
        self._text += piece

    def take(self, *, ended: bool = False) -> str:
        """Return what is final now and was not returned before; all of it, if the text has ended."""
        text = self._before + self._text
        start = at = len(self._before)
        out = ""
        if self._in_word:
            rest = _REST.match(text, at)
            at = at if rest is None else rest.end()
            out = _crossed(text[start:at])
        if ended:
            out += _mask_rest(text, self._names, at)
            at = len(text)
        elif at < len(text):
            final = _final(text, at, self._names)
            masked, at = _mask_until(text, self._names, at, final)
            out += masked
        if at > start:
            last = text[at - 1]
            self._in_word = at == len(text) and (last.isalnum() or last == "_")
            self._before, self._text = text[max(0, at - _MOST_BLANKS - 1) : at], text[at:]
        plain = _PLAIN.match(self._text)
        early = "" if plain is None else plain[0]
        out = (out + early)[self._early :]
        self._early = len(early)
        return out


def _mask_rest(text: str, names: Names, start: int) -> str:
    """Mask a text from a position to its end; a marker that the end cuts stays, because it decides what is parsed."""
    cut = _cut_marker(text, max(start, len(text) - _MOST_KEPT))
    if not _keeps_cut(text, cut):
        cut = len(text)
    masked, end = _mask_until(text, names, start, cut, ended=True)
    return masked + text[end:]


def _keeps_cut(text: str, cut: int) -> bool:
    """Return whether the end of a text is neither a word of the content nor a part of an address."""
    first = text[cut : cut + 1]
    if not first.isalnum():
        return first != "/"
    return len(text) - cut < _LEAST_LITERAL and text[max(cut - 1, 0) : cut].isspace()


def _mask_until(
    text: str, names: Names, start: int, end: int, *, ended: bool = False
) -> tuple[str, int]:
    """Mask what begins between two positions; return it, and the position behind it."""
    out: list[str] = []
    done = start
    for match in _tokens().finditer(text, start):
        start = match.start()
        if start >= end:
            break
        out.append(text[done:start])
        done = match.end()
        match match.lastgroup:
            case "word":
                if match[0] in _KEYWORDS and _is_value(text, start, done):
                    out.append(match[0])
                    continue
                next_to = text[max(start - 1, 0) : start] + text[done : done + 1]
                before = text[max(start - 2, 0) : start]
                if ended and done == len(text) and _is_cut_word(match[0], before):
                    out.append(match[0])
                    continue
                out.append(_mask_word(match[0], names, next_to))
            case "code":  # a character that is written as its number
                out.append(match[0][:-4] + _mask_code(match[0][-4:]))
            case "wide":
                out.append(_wide(match[0]))
            case _:
                out.append(match[0])
    end = max(done, end)
    return "".join((*out, text[done:end])), end


def _final(text: str, start: int, names: Names) -> int:
    """Return the position up to which nothing that follows a text changes how it is masked."""
    end = len(text)
    least = max(start, end - _MOST_KEPT)
    return min(
        _open_marker(text, least),
        _open_word(text, least, names),
        _open_keyword(text, least),
        _open_number(text, least),
        _open_escape(text, least),
    )


def _open_marker(text: str, least: int) -> int:
    """Return where a marker begins of which a text may have the first characters; else its end."""
    data = text.rfind(_DATA, least)
    if data >= 0 and not _MEDIA_TYPE.issuperset(text[data + len(_DATA) :]):
        data = -1
    cut = _cut_marker(text, least)
    return cut if data < 0 else min(cut, data)


def _cut_marker(text: str, least: int) -> int:
    """Return where a marker begins that the end of a text cuts; else its end."""
    beginnings = _marker_beginnings()
    end = len(text)
    return next((at for at in range(least, end) if text[at:] in beginnings), end)


def _open_word(text: str, least: int, names: Names) -> int:
    end = len(text)
    at = end
    while at > least and (text[at - 1].isalnum() or text[at - 1] in "_-."):
        at -= 1
    while at < end and not (text[at].isalpha() or text[at] == "_"):  # a word begins with a letter
        at += 1
    if at == least and end - least == _MOST_KEPT:  # too long for a name
        return end
    return at if at < end and names.may_become(text[at:]) else end


def _open_keyword(text: str, least: int) -> int:
    """Return where a keyword begins that is a value or not, as what follows decides."""
    end = len(text.rstrip())
    if len(text) - end >= _MOST_BLANKS:
        return len(text)
    at = end
    while at > least and (text[at - 1].isalnum() or text[at - 1] == "_"):
        at -= 1
    return at if text[at:end] in _KEYWORDS else len(text)


def _open_number(text: str, least: int) -> int:
    """Return where a number begins, whose exponent may follow: its letter stays."""
    at = max(len(text.rstrip(_NUMBER)), least)
    while at < len(text) and not text[at].isdigit():
        at += 1
    return at


def _open_escape(text: str, least: int) -> int:
    at = text.rfind("\\", max(least, len(text) - 5))
    if at < 0:
        return len(text)
    rest = text[at + 1 :]
    return at if not rest or (rest[0] == "u" and _HEX.issuperset(rest[1:])) else len(text)


def mask_name(text: str, names: Names) -> str:
    """Return a text in which every name is another one, unless a vendor has chosen it."""
    if text in vocabulary().own_names:
        return text
    names.add(text)
    return _tokens().sub(
        lambda match: (
            _mask_word(match[0], names, _MARKUP) if match.lastgroup == "word" else match[0]
        ),
        text,
    )


def _is_value(text: str, start: int, end: int) -> bool:
    """Return whether a keyword is a value of JSON or of an argument, and not a word of a sentence."""
    before = text[max(0, start - _MOST_BLANKS) : start]
    after = text[end : end + _MOST_BLANKS]
    left, right = before.rstrip(), after.lstrip()
    begins = left[-1] in _BEFORE_VALUE if left else len(before) < _MOST_BLANKS
    ends = right[0] in _AFTER_VALUE if right else len(after) < _MOST_BLANKS
    return begins and ends


def _mask_word(word: str, names: Names, next_to: str) -> str:
    if word in CODES:
        return word
    if word.lower() in _marker_words() and any(char in _MARKUP for char in next_to):
        return word
    made = names.masked(word)
    if made:
        return made
    parts = _PART.findall(word)
    if len(parts) > 1:
        return "".join(
            part if part in "-." else names.masked(part) or _crossed(part) for part in parts
        )
    return _crossed(word)


def _is_cut_word(word: str, before: str) -> bool:
    """Return whether the last word of a text may be the beginning of a word of a marker, by what is before it."""
    follows = word[0] == "_" or before.endswith("</")  # another slash is one of an address
    if not follows and (before[-1:] == "/" or before[-1:] not in set(_MARKUP)):
        return False
    *whole, last = word.lower().strip("_").split("_")
    words = _marker_words()
    return words.issuperset(whole) and (last in words or last in _marker_word_beginnings())


def _mask_code(digits: str) -> str:
    code = int(digits, 16)
    if code in _HIGH:
        return f"{_HIGH.start + 0x40:04x}"
    if code in _LOW:
        return f"{_LOW.start:04x}"
    if not chr(code).isalpha():
        return digits
    return "0078" if chr(code).isascii() else "0436"


def _crossed(word: str) -> str:
    if word.isascii():
        return "".join(_like(char, "x") if char.isalpha() else char for char in word)
    return "".join(
        _wide(char) if not char.isascii() else _like(char, "x") if char.isalpha() else char
        for char in word
    )


def _wide(char: str) -> str:
    return _WIDE[len(char.encode("utf-8", "surrogatepass"))]


def _like(char: str, letter: str) -> str:
    """Return a letter as large as a character, and in as many bytes."""
    if not char.isascii():
        return _wide(char)
    return letter.upper() if char.isupper() else letter


def _prefix(word: str) -> int:
    match = _id_prefix().match(word)
    return 0 if match is None else match.end()


@cache
def _id_prefix() -> re.Pattern[str]:
    """Return the expression of what vendors put before their ids."""
    return re.compile(rf"(?:{'|'.join(sorted(vocabulary().id_prefixes))})[_-]")


def _folded(word: str) -> str:
    return "".join(filter(str.isalnum, word)).lower()


# --- the markers of all formats ------------------------------------------------------------------------


def _patterns(format_: Format) -> Iterator[Pattern]:
    for rule in format_.rules:
        yield rule.pattern
        match rule.body:
            case TagsSpec() as tags:
                yield from (*tags.param, *tags.nameless, *tags.value_end, *tags.value_cut)
                yield from (*tags.verbatim_end, *tags.call_end, *tags.tokens, *tags.skip)
            case LiteralsSpec() as literals:
                yield (literals.closer, literals.outer, literals.quote)
            case ObjectsSpec() as objects:
                yield (*objects.name_keys, *objects.argument_keys, *objects.id_keys)
            case ElementsSpec() as elements:
                yield (elements.mark,)
            case _:
                pass
    yield from ((tag,) for pair in format_.think for tag in pair)
    for token in (*format_.special, *format_.special_openers):
        yield (token,) if isinstance(token, str) else token


@cache
def _markers() -> frozenset[str]:
    return frozenset(
        text
        for one in FORMATS.values()
        for pattern in _patterns(one)
        for text in strings_of(pattern)
    )


@cache
def _marker_words() -> frozenset[str]:
    """Return the words of markers, such as `parameter`, in lower case."""
    return frozenset(
        word.lower()
        for marker in _markers()
        if marker.count(" ") < _SENTENCE_BLANKS
        for whole in _WORD.findall(marker)
        for word in (whole, *whole.split("_"))
        if len(word) > 1
    )


@cache
def _marker_word_beginnings() -> frozenset[str]:
    return frozenset(word[:end] for word in _marker_words() for end in range(1, len(word)))


@cache
def _known_beginnings() -> frozenset[str]:
    """Return all beginnings of words that are kept, or kept before an id, as `_folded` writes them."""
    kept = (*_marker_words(), *_KEYWORDS, *CODES, *vocabulary().id_prefixes)
    words = map(_folded, kept)
    return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))


@cache
def _marker_beginnings() -> frozenset[str]:
    """Return the beginnings of all markers that are kept, without their last character."""
    return frozenset(
        marker[:end] for marker in (*_kept_markers(), *_SCHEMES) for end in range(1, len(marker))
    )


@cache
def _kept_markers() -> tuple[str, ...]:
    """Return the markers that are kept wherever they occur."""
    return tuple(
        marker
        for marker in _markers()
        if len(marker) >= _LEAST_LITERAL and _WORD.search(marker) and not marker.isalnum()
    )


def _choice(markers: tuple[str, ...], first: str) -> str:
    """Return an expression for what follows the first character of markers, the longest first."""
    rests = sorted((one[1:] for one in markers if one[0] == first), key=len, reverse=True)
    return "|".join(map(re.escape, rests))


@cache
def _tokens() -> re.Pattern[str]:
    """Return the expression of everything in a text that is not kept as single characters."""
    kept = _kept_markers()
    literals = "|".join(
        (r"(?<!\w)" if first.isalnum() else "") + f"{re.escape(first)}(?:{_choice(kept, first)})"
        for first in sorted({marker[0] for marker in kept})
    )
    return re.compile(
        rf"(?P<marker>{literals}|\bhttps?://|\bdata:[a-z0-9.+/-]{{1,60}};base64,)"
        r"|(?P<code>\\u[0-9a-fA-F]{4})"
        r"|(?P<escape>\\[A-Za-z\\])"
        r"|(?P<number>(?<!\w)\d+(?:\.\d+)?[eE][+-]?\d+(?!\w))"
        r"|(?P<word>[^\W\d](?:\w|[-.](?=\w))*)"
        rf"|(?P<wide>[{_EMOJI}-\U0010ffff])"
    )
