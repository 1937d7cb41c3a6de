"""Ends answers early: at a stop sequence, at the token limit, inside a call."""

import json

from msgspec import structs

from dragoman.simulator.native import arguments_of
from dragoman.simulator.play import TOKEN, Reply, SimulatedCall, count


def at_stop(reply: Reply, sequences: tuple[str, ...]) -> Reply:
    """End the text before the first of the stop sequences."""
    found = [(reply.text.find(one), one) for one in sequences if one and one in reply.text]
    if not found:
        return reply
    at, sequence = min(found)
    return structs.replace(
        reply, text=reply.text[:at], calls=(), finish="stop_sequence", stop_sequence=sequence
    )


def to_tokens(reply: Reply, limit: int | None) -> Reply:
    """End the answer at the token limit."""
    if limit is None or reply.output_tokens <= limit:
        return reply
    left = limit
    reasoning = reply.reasoning[: left * TOKEN]
    left -= count(reasoning)
    text = reply.text[: left * TOKEN]
    left -= count(text)
    calls: list[SimulatedCall] = []
    for call in reply.calls:
        left -= count(call.name)
        if left <= 0:
            break
        arguments = call.arguments[: left * TOKEN]
        left -= count(arguments)
        complete = len(arguments) == len(call.arguments)
        calls.append(structs.replace(call, arguments=arguments, complete=complete))
    return structs.replace(
        reply, reasoning=reasoning, text=text, calls=tuple(calls), finish="length", stop_sequence=""
    )


def inside_first(reply: Reply) -> Reply:
    """End the answer in the middle of its first block."""
    if reply.reasoning:
        half = reply.reasoning[: len(reply.reasoning) // 2]
        return structs.replace(reply, reasoning=half, text="", calls=())
    if reply.text:
        return structs.replace(reply, text=reply.text[: len(reply.text) // 2], calls=())
    return inside_call(structs.replace(reply, calls=reply.calls[:1]))


def inside_text(reply: Reply) -> Reply:
    """End the answer in the middle of its text."""
    return structs.replace(reply, text=reply.text[: len(reply.text) // 2], calls=())


def inside_call(reply: Reply) -> Reply:
    """End the answer inside its last call, or in the middle of its text if it has none."""
    if reply.calls:
        last = reply.calls[-1]
        half = last.arguments[: max(1, len(last.arguments) // 2)]
        cut = structs.replace(last, arguments=half, complete=False)
        return structs.replace(reply, calls=(*reply.calls[:-1], cut), finish="length")
    text = reply.reasoning if reply.leaked else reply.text
    at = (_place(text, reply.written[-1]) if reply.written else 0) or len(text) // 2
    if reply.leaked:
        return structs.replace(reply, reasoning=text[:at], text="", finish="length")
    return structs.replace(reply, text=text[:at], finish="length")


def _place(text: str, call: SimulatedCall) -> int:
    """Return a place inside the last value of a call that is written in a text; 0 if it is not there."""
    values = list(arguments_of(call).values()) or [call.name]
    for form in (str(values[-1]), json.dumps(values[-1], ensure_ascii=False), call.name):
        at = text.rfind(form)
        if at >= 0:
            return at + len(form) // 2 + 1
    return 0
