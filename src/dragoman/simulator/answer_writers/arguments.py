"""Arguments of a call as a JSON value, where a dialect has no text for them."""

import msgspec

from dragoman.simulator.play import Json
from dragoman.simulator.reply import Call
from dragoman.turn.events import Flavor
from dragoman.wire.json_scanner import JsonScanner


def as_object(call: Call) -> Json:
    """Return a call's arguments; what was cut is closed, and what is no JSON stays text."""
    if call.flavor is Flavor.CUSTOM:
        return {"input": call.arguments}
    text = call.arguments
    if not call.complete:
        scanner = JsonScanner()
        text = text[: scanner.feed(text)]
        text += scanner.closing()
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return call.arguments
    return value
