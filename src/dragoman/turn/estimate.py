"""Estimates how many tokens a request has.

The estimate is used where a client gets a number before the upstream reports one.  It is about the bytes
of text divided by four, plus a constant for each turn, tool and picture.
"""

from typing import Final

from dragoman.turn.request import (
    AudioPart,
    Base64Source,
    DocumentPart,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    RefusalPart,
    Request,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    Tool,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.turn.tools import made_once

_PER_TURN: Final = 4
_PER_TOOL: Final = 8
_PER_IMAGE: Final = 1600
_PER_PAGE_OF_UNKNOWN_SIZE: Final = 2000
_ASCII_BYTES_PER_TOKEN: Final = 4
_WIDE_CHARS_PER_TOKEN: Final = 1.5
_SCHEMA_BYTES_PER_TOKEN: Final = 3.5
_FILE_BYTES_PER_TOKEN: Final = 300
_OUTPUT_CHARS_PER_TOKEN: Final = 4


def output_tokens(chars: int) -> int:
    """Return about how many output tokens a response has, for upstreams that report no usage."""
    return -(-chars // _OUTPUT_CHARS_PER_TOKEN)


def estimate_tokens(request: Request) -> int:
    """Return about how many input tokens `request` has: never 0."""
    total = _tools(request.tools, None) + _PER_TURN * len(request.turns)
    texts = [part.text for part in request.system]
    for turn in request.turns:
        for part in turn.parts:
            # Every part of every request comes by here: the frequent sorts first.
            if type(part) is TextPart:
                texts.append(part.text)
            elif type(part) is ToolCallPart:
                total += _PER_TURN
                texts += (part.name, part.arguments)
            elif type(part) is ToolResultPart:
                total += _PER_TURN
                for inner in part.parts:
                    if type(inner) is TextPart:
                        texts.append(inner.text)
                    else:
                        total += _part(inner)
            else:
                total += _part(part)
    if all(map(str.isascii, texts)):
        total += sum(map(len, texts)) / _ASCII_BYTES_PER_TOKEN
    else:
        total += sum(map(_text, texts))
    return max(1, round(total))


@made_once
def _tools(tools: tuple[Tool, ...], _target: None) -> float:
    total = 0.0
    for tool in tools:
        total += _PER_TOOL + _text(tool.name) + _text(tool.description)
        if tool.schema is not None:
            total += len(tool.schema) / _SCHEMA_BYTES_PER_TOKEN
    return total


def _text(text: str) -> float:
    if text.isascii():
        return len(text) / _ASCII_BYTES_PER_TOKEN
    narrow = len(text.encode("ascii", "ignore"))
    return narrow / _ASCII_BYTES_PER_TOKEN + (len(text) - narrow) / _WIDE_CHARS_PER_TOKEN


def _part(part: Part) -> float:
    match part:
        case ToolCallPart(name=name, arguments=arguments):
            return _PER_TURN + _text(name) + _text(arguments)
        case ToolResultPart(parts=parts) | SearchResultPart(parts=parts):
            return _PER_TURN + sum([_part(inner) for inner in parts])
        case TextPart(text=text) | RefusalPart(text=text) | OpaquePart(text=text):
            return _text(text)
        case ReasoningPart():
            return _text(part.text)
        case ImagePart():
            return _PER_IMAGE
        case DocumentPart():
            return _document(part)
        case AudioPart(data=data):
            return len(data) / _FILE_BYTES_PER_TOKEN
        case ServerToolPart(summary=summary):
            return _text(summary)


def _document(part: DocumentPart) -> float:
    inner = sum(_part(one) for one in part.parts)
    match part.source:
        case TextSource(text=text):
            return inner + _text(text)
        case Base64Source(data=data):
            return inner + len(data) / _FILE_BYTES_PER_TOKEN
        case None:
            return inner
        case _:
            return inner + _PER_PAGE_OF_UNKNOWN_SIZE
