"""Tool calls written as text in the grammar of each family, by the keys of `dragoman.toolcalls.formats`."""

from typing import Final

import msgspec
from msgspec import structs

from dragoman.simulator.conversation import calls_made
from dragoman.simulator.native import expressions, json_text, tags
from dragoman.simulator.native.family import Arguments, Family, NativeCall
from dragoman.simulator.play import Play, SimulatedCall
from dragoman.toolcalls.formats import FORMATS
from dragoman.turn.events import Flavor

_ARGUMENTS: Final[msgspec.json.Decoder[Arguments]] = msgspec.json.Decoder(dict)
_BY_GRAMMAR: Final = {**json_text.FAMILIES, **tags.FAMILIES, **expressions.FAMILIES}
# In the order of the families' own table.
FAMILIES: Final[dict[str, Family]] = {
    key: _BY_GRAMMAR[key] for key in FORMATS if key in _BY_GRAMMAR
}


def arguments_of(call: SimulatedCall) -> Arguments:
    """Return a call's arguments, decoded; the text of a custom tool becomes `input`."""
    if call.flavor is Flavor.CUSTOM:
        return {"input": call.arguments}
    return _ARGUMENTS.decode(call.arguments)


def render(play: Play) -> Play:
    """Write the calls as text, if the model belongs to a family with a native grammar."""
    reply = play.reply
    if not play.asked.family or not reply.calls:
        return play
    family = FAMILIES[play.asked.family]
    calls = reply.calls[: family.most]
    before = calls_made(play.asked.request)
    native = family.render([NativeCall(one.name, arguments_of(one), before) for one in calls])
    if play.style.leak:
        lead = f"{reply.reasoning}\n" if reply.reasoning and family.before else ""
        reply = structs.replace(reply, reasoning=lead + native, leaked=True)
    else:
        lead = f"{reply.text}\n" if reply.text and family.before else ""
        reply = structs.replace(reply, text=lead + native)
    return structs.replace(
        play, reply=structs.replace(reply, calls=(), written=calls, finish="stop")
    )
