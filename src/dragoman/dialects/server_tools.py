"""Vendor-run tools: whether an upstream has those that a request needs, for every pair of dialects.

A request needs a vendor-run tool if its choice forces it, or if it declares no other tools: such a request
is made for the tool's sake, and a model without it would answer from memory.
"""

import re
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.paths import path_of
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.request import Request, Tool

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_VARIANT: Final = re.compile(r"_preview(_\d{4}_\d{2}_\d{2})?\Z|_\d{4}_\d{2}_\d{2}\Z|_\d{8}\Z")
# The vendor whose tools a dialect was made for.
_VENDORS: Final = {"anthropic": "anthropic", "responses": "openai"}
CHAT_SEARCH: Final = "$.web_search_options"  # the path of a search that a Chat client asks for
_TRANSLATED: Final = frozenset({"web_search"})  # kinds that can be asked for in another dialect
# What a definition says beside its options.
_NO_OPTIONS: Final = frozenset({"type", "name", "cache_control"})
_EMPTY: Final = frozenset({b"null", b"[]", b"{}"})


def base_kind(kind: str) -> str:
    """Return a vendor-run tool's kind without the date or stage of its version."""
    return _VARIANT.sub("", kind)


def check_needed(request: Request, dialect: str, profile: Profile) -> None:
    """Refuse a request that needs vendor-run tools of which the upstream has none.

    Raises:
        UntranslatableError: the upstream runs none of them; carries the path.
    """
    if not request.tools or not any(tool.server for tool in request.tools):
        return
    needed = _needed(request)
    if not needed or any(_is_available(tool, request, dialect, profile) for tool in needed):
        return
    kinds = " or ".join(
        f"`{kind}`" for kind in dict.fromkeys(base_kind(one.kind) for one in needed)
    )
    reason = (
        f"this request needs the tool {kinds}, which runs at the model's provider, and the provider of "
        f"`{request.model[:100]}` does not offer it; use a model whose provider does"
    )
    raise UntranslatableError(reason, path=path_of(request, "tools"), code="unsupported_tool")


def _needed(request: Request) -> list[Tool]:
    """Return the vendor-run tools without any of which the request makes no sense."""
    choice = request.tool_choice
    if choice is not None and choice.mode == "none":
        return []
    tools = [*request.tools]
    if choice is not None and choice.mode == "tool":
        tools = [tool for tool in tools if tool.name == choice.name]
    elif choice is not None and choice.allowed:
        tools = [tool for tool in tools if tool.name in choice.allowed]
    return tools if all(tool.server for tool in tools) else []


def _is_available(tool: Tool, request: Request, dialect: str, profile: Profile) -> bool:
    if dialect == request.dialect == "chat":
        return True  # each host has its own words for them, and the client chose the host
    if profile.vendor_tools and tool.vendor == _VENDORS.get(dialect):
        return True
    kind = base_kind(tool.kind)
    spoken = request.dialect == dialect or kind in _TRANSLATED
    return spoken and profile.runs(kind, dialect)


def search_location(raw: Raw) -> Raw:
    """Return a search's `user_location` with its place beside its type, where only Chat nests it."""
    try:
        fields = _FIELDS.decode(raw)
        place = _FIELDS.decode(fields["approximate"])
    except (msgspec.DecodeError, KeyError):
        return raw
    return Raw(msgspec.json.encode({"type": "approximate", **place}))


def dropped_options(tool: Tool, kept: Collection[str]) -> list[str]:
    """Return the options of a vendor-run tool that are not in `kept` and ask for something."""
    try:
        fields = _FIELDS.decode(tool.raw if tool.raw is not None else b"{}")
    except msgspec.DecodeError:
        return []
    return [
        name
        for name, value in fields.items()
        if name not in _NO_OPTIONS
        and name not in kept
        and bytes(value) not in _EMPTY
        and (name, bytes(value)) != ("external_web_access", b"true")  # what every search does
    ]
