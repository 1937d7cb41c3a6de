"""Which stages an exchange needs: calls and reasoning tags, reasoning tags alone, or none."""

from collections.abc import Sequence

from dragoman.context import Exchange
from dragoman.toolcalls.detection import STANDARD, known_family
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats import AUTO, FORMATS, find_format
from dragoman.toolcalls.stage import NativeCalls
from dragoman.toolcalls.thinking import ThinkTags
from dragoman.turn.request import Tool
from dragoman.turn.stages import Stage


def choose_format(model: str, native_format: str = "auto") -> Format | None:
    """Return the family to look for: the one that is set, the model's, or what the stream may show.

    Raises:
        ConfigError: there is no family of that name.
    """
    if native_format in ("none", STANDARD):
        return None
    if native_format != "auto":
        return find_format(native_format)
    family = known_family(model)
    if family == STANDARD:
        return None
    return AUTO if family is None else FORMATS.get(family, AUTO)


def stages(
    exchange: Exchange,
    *,
    model: str = "",
    native_format: str = "auto",
    tools: Sequence[Tool] | None = None,
    seal_plain: bool = True,
) -> list[Stage]:
    """Return the stages for an exchange; `tools` are the declared ones if there is no request.

    `seal_plain` says that the upstream's reader marks unsigned reasoning to be given back; reasoning
    that is found here is then marked as well.

    Raises:
        ConfigError: there is no family of that name.
    """
    profile = exchange.profile
    request = exchange.request
    if request is not None:
        tools = request.tools
        if request.tool_choice is not None and request.tool_choice.mode == "none":
            tools = ()
    family = choose_format(model, native_format)
    if tools and family is not None:
        return [
            NativeCalls(
                format=family,
                tools=tools,
                table=exchange.tools,
                think_tags=profile.think_tags,
                seed=exchange.seed,
                origin=profile.origin,
                seal_plain=seal_plain,
                limits=exchange.limits,
            )
        ]
    if profile.think_tags == "off":
        return []
    return [
        ThinkTags(
            think_tags=profile.think_tags,
            format=family,
            origin=profile.origin,
            seal_plain=seal_plain,
            limits=exchange.limits,
        )
    ]
