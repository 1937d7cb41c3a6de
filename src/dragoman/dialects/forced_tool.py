"""A forced tool, for upstreams that cannot be told which one: it alone is declared, and some tool demanded.

For requests that pass in their own dialect; translated ones are written so from the start.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import decode
from dragoman.profiles.profile import Profile
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request

_DEFINITIONS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_CHOICE: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])
_PLACE: Final = re.compile(r"\$\.tools\[(\d+)\]")


def must_narrow(request: Request, profile: Profile) -> bool:
    """Say whether a tool is forced by its name, and the upstream knows no way to be told it."""
    choice = request.tool_choice
    return choice is not None and choice.mode == "tool" and profile.tool_choice == "strings_only"


def narrowed(
    fields: Mapping[str, Raw], request: Request, any_tool: bytes
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that declare the forced tool alone, and what was done; nothing if that cannot be.

    `any_tool` is how the dialect says that some tool must be called, whichever.
    """
    choice = request.tool_choice
    if choice is None or "tools" not in fields or "tool_choice" not in fields:
        return {}, ()
    named = (choice.name, choice.namespace)
    paths = (tool.path for tool in request.tools if (tool.name, tool.namespace) == named)
    place = next((found for path in paths if (found := _PLACE.fullmatch(path))), None)
    if place is None:
        return {}, ()  # it stands inside another, or nowhere
    only = bytes(decode(_DEFINITIONS, fields["tools"])[int(place[1])])
    return {
        "tools": Raw(b"[%b]" % only),
        "tool_choice": _demanded(bytes(fields["tool_choice"]), any_tool),
    }, (Loss("tool_choice_narrowed", "$.tool_choice", choice.name),)


def _demanded(own: bytes, any_tool: bytes) -> Raw:
    """Return the choice of any tool; where that is an object, what else the client said in it stays."""
    if not any_tool.startswith(b"{"):
        return Raw(any_tool)
    kept = decode(_CHOICE, own)
    kept.pop("name", None)
    return Raw(msgspec.json.encode(kept | decode(_CHOICE, any_tool)))
