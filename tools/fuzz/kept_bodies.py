"""Judges whether requests and complete answers keep their text: what a body says, the translated one says too.

Texts are taken out of a JSON body with the standard library alone, from the places where its dialect documents them;
`kept_text.py` does the same for streams.  A text may be missing only if a loss names its place.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from dragoman.turn.losses import Loss

_UNSURE: Final = re.compile("[\ud800-\udfff\ufffd]+")  # what is left of damaged characters

_WHOLE_BLOCKS: Final = frozenset({"content_dropped", "server_block_dropped"})


class Said(NamedTuple):
    """A text of a body."""

    path: str
    text: str
    reasoning: bool = False


def find_lost(source: str, body: bytes, written: bytes, losses: Sequence[Loss]) -> str:
    """Return the first text of a body that the translated one lacks, though no loss names its place."""
    try:
        given, made = json.loads(body), json.loads(written)
    except (ValueError, RecursionError):
        return ""
    found = "\n".join(_strings(made))
    for said in _TAKERS[source](given):
        kept = all(part.strip() in found for part in _UNSURE.split(said.text))
        if not kept and not any(_explains(one, said) for one in losses):
            return f"{said.path}: {said.text!r}"
    return ""


def _explains(loss: Loss, said: Said) -> bool:
    """Say whether a loss is about a text, a part of it, or something that contains it."""
    if loss.code in _WHOLE_BLOCKS or (said.reasoning and loss.code == "reasoning_dropped"):
        return True  # the first ones name a block of the answer, the last one is reported once for all turns
    shorter, longer = sorted((loss.path, said.path), key=len)
    return longer.startswith(shorter) and longer[len(shorter) : len(shorter) + 1] in ("", ".", "[")


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value, names of fields too, and those of JSON that is in a string."""
    left = [value]
    while left:
        match left.pop():
            case str(text):
                yield text
                if text[:1] in ("{", "["):
                    with suppress(ValueError, RecursionError):
                        left.append(json.loads(text))
            case list(values):
                left += values
            case dict(fields):
                left += fields.keys()
                left += fields.values()


def _each(values: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a list, with their paths."""
    if isinstance(values, list):
        for number, one in enumerate(values):
            if isinstance(one, dict):
                yield f"{path}[{number}]", one


def _text(value: Any, path: str, *, reasoning: bool = False) -> Iterator[Said]:
    """Yield a text, or the texts of a list of parts."""
    if isinstance(value, str):
        yield Said(path, value, reasoning)
    for place, part in _each(value, path):
        if isinstance(part.get("text"), str):
            yield Said(f"{place}.text", part["text"], reasoning)


def _leaves(value: Any, path: str) -> Iterator[Said]:
    """Yield the strings of arguments, which may be JSON in a string."""
    return (Said(path, text) for text in _strings(value) if text[:1] not in ("{", "["))


# --- requests and answers of each dialect ---------------------------------------------------------


def _chat(body: Any) -> Iterator[Said]:
    for place, message in _each(body.get("messages"), "$.messages"):
        yield from _chat_message(message, place)
    for place, choice in _each(body.get("choices"), "$.choices"):
        if isinstance(choice.get("message"), dict):
            yield from _chat_message(choice["message"], f"{place}.message")


def _chat_message(message: Mapping[str, Any], path: str) -> Iterator[Said]:
    yield from _text(message.get("content"), f"{path}.content")
    yield from _text(message.get("reasoning_content"), f"{path}.reasoning_content", reasoning=True)
    for place, call in _each(message.get("tool_calls"), f"{path}.tool_calls"):
        match call:
            case {"function": {"arguments": str(arguments)}}:
                yield from _leaves(arguments, place)


def _anthropic(body: Any) -> Iterator[Said]:
    yield from _text(body.get("system"), "$.system")
    for place, message in _each(body.get("messages"), "$.messages"):
        content = message.get("content")
        if isinstance(content, str):
            yield Said(f"{place}.content", content)
        yield from _anthropic_blocks(content, f"{place}.content")
    yield from _anthropic_blocks(body.get("content"), "$.content")


def _anthropic_blocks(blocks: Any, path: str) -> Iterator[Said]:
    for place, block in _each(blocks, path):
        match block:
            case {"type": "text", "text": str(text)}:
                yield Said(place, text)
            case {"type": "thinking", "thinking": str(text)}:
                yield Said(place, text, reasoning=True)
            case {"type": "tool_use", "input": dict(arguments)}:
                yield from _leaves(arguments, place)
            case {"type": "tool_result", "content": content}:
                yield from _text(content, f"{place}.content")


def _responses(body: Any) -> Iterator[Said]:
    yield from _text(body.get("instructions"), "$.instructions")
    if isinstance(body.get("input"), str):
        yield Said("$.input", body["input"])
    for field in ("input", "output"):
        for place, item in _each(body.get(field), f"$.{field}"):
            match item:
                case {"type": "function_call", "arguments": str(arguments)}:
                    yield from _leaves(arguments, place)
                case {"type": "function_call_output", "output": output}:
                    yield from _text(output, f"{place}.output")
                case {"type": "reasoning", "summary": summary}:
                    yield from _text(summary, f"{place}.summary", reasoning=True)
                case {"content": content} if item.get("type", "message") == "message":
                    yield from _text(content, f"{place}.content")


def _gemini(body: Any) -> Iterator[Said]:
    match body.get("systemInstruction"):
        case {"parts": parts}:
            yield from _text(parts, "$.systemInstruction.parts")
    for place, content in _each(body.get("contents"), "$.contents"):
        yield from _gemini_parts(content.get("parts"), f"{place}.parts")
    for place, candidate in _each(body.get("candidates"), "$.candidates"):
        match candidate:
            case {"content": {"parts": parts}}:
                yield from _gemini_parts(parts, f"{place}.content.parts")


def _gemini_parts(parts: Any, path: str) -> Iterator[Said]:
    for place, part in _each(parts, path):
        match part:
            case {"text": str(text)}:
                yield Said(place, text, part.get("thought") is True)
            case {"functionCall": {"args": dict(value)}}:
                yield from _leaves(value, place)
            case {"functionResponse": {"response": dict(value)}}:
                yield from _leaves(
                    list(value.values()), place
                )  # other dialects have no name for a result


def _of_object(take: Callable[[Any], Iterator[Said]]) -> Callable[[Any], Iterable[Said]]:
    return lambda body: take(body) if isinstance(body, dict) else ()


_TAKERS: Final[Mapping[str, Callable[[Any], Iterable[Said]]]] = {
    "chat": _of_object(_chat),
    "anthropic": _of_object(_anthropic),
    "responses": _of_object(_responses),
    "gemini": _of_object(_gemini),
}
