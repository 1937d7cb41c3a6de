"""A Responses request for a Responses upstream that lacks some of the dialect's tools.

The client's bytes pass, but for the tools that the upstream does not take: custom, shell and patch tools
and tools of a namespace become functions, vendor-run tools are left out, and the history's calls of all of
them are written the same way.  `ToolTable` turns the calls of the answer back.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import entries_of
from dragoman.dialects.encoding import encode
from dragoman.dialects.responses.definitions import Audience, define
from dragoman.dialects.responses.items import ItemEncoder
from dragoman.dialects.responses.report import Report
from dragoman.dialects.responses.request import decode_request
from dragoman.dialects.responses.shells import SHELLS
from dragoman.dialects.responses.toolset import Toolset
from dragoman.dialects.server_tools import base_kind
from dragoman.exchange import Target
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, ServerToolPart, Tool, ToolCallPart
from dragoman.turn.tools import ToolTable

_NULL: Final = Raw(b"null")


class _Item(Struct):
    type: str | None = None
    namespace: str | None = None


_ITEM: Final = msgspec.json.Decoder(_Item)
_SHELL_TYPES: Final = frozenset(
    kind for shell in SHELLS.values() for kind in (shell.call_type, shell.output_type)
)
# Items that become functions' calls and results, as many as there are, in the same order.
_CALLS: Final = _SHELL_TYPES | {"custom_tool_call", "custom_tool_call_output"}


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds tools, or calls of tools, that the upstream does not take."""
    if profile.supports_custom_tools or profile.vendor_tools:
        return False
    return any(not _fits(tool, profile) for tool in request.tools) or any(
        type(part) is ServerToolPart
        or (type(part) is ToolCallPart and (part.flavor is not Flavor.FUNCTION or part.namespace))
        for turn in request.turns
        for part in turn.parts
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost; None for a field means that it goes.

    Raises:
        Untranslatable: two tools have one name once namespaces are flattened, the choice forces a tool
            that the upstream does not have, or something is lost and the target is strict.
    """
    report = Report(strict=target.strict)
    fitted: dict[str, Raw] = {}
    if any(not _fits(tool, target.profile) for tool in request.tools):
        fitted |= _declared(fields, request, target.profile, report)
    given = fields.get("input", _NULL)
    if bytes(given).startswith(b"["):
        items = entries_of(given)
        written = _history(items, target, report)
        if written is not None:
            fitted["input"] = Raw(encode(written))
    return fitted, tuple(report.losses)


def _fits(tool: Tool, profile: Profile) -> bool:
    if tool.server:
        return profile.runs(base_kind(tool.kind), "responses")
    return tool.flavor is Flavor.FUNCTION and not tool.namespace


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, report: Report
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass, and the choice."""
    ToolTable.of(request.tools)
    by_entry: dict[str, list[Tool]] = {}
    for tool in request.tools:
        by_entry.setdefault(tool.path.partition("]")[0], []).append(tool)
    audience = Audience(profile, native=False, strict=report.strict, namespaces=())
    out: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tools = by_entry.get(f"$.tools[{at}", [])
        if tools and all(_fits(tool, profile) for tool in tools):
            out.append(raw)
            continue
        defined = define(tuple(tools), audience)
        report.losses += defined.losses
        out += entries_of(defined.json)
    fitted = {"tools": Raw(encode(out)) if out else _NULL}
    choice = fields.get("tool_choice", _NULL)
    if choice != _NULL and not (out and bytes(choice).startswith(b'"')):
        # The tools were reported above; only what concerns the choice is still to be reported.
        own = Report(strict=report.strict)
        toolset = Toolset(request, profile, own, native=False)
        report.losses += [one for one in own.losses if one.path.startswith("$.tool_choice")]
        fitted["tool_choice"] = _NULL if toolset.choice is None else Raw(encode(toolset.choice))
    return fitted


def _history(items: list[Raw], target: Target, report: Report) -> list[Raw] | None:
    """Return the items with calls of such tools as calls of functions; None: there are none."""
    kinds = [_kind(item) for item in items]
    calls = [at for at, (kind, space) in enumerate(kinds) if kind in _CALLS or space]
    hosted = [
        at
        for at, (kind, _) in enumerate(kinds)
        if kind.endswith("_call")
        and kind not in ("function_call", *_CALLS)
        and not target.profile.runs(base_kind(kind.removesuffix("_call")), "responses")
    ]
    if not calls and not hosted:
        return None
    written = dict(zip(calls, _rewritten([items[at] for at in calls], target, report), strict=True))
    out: list[Raw] = []
    for at, item in enumerate(items):
        if at in written:
            out.append(written[at])
        elif at in hosted:
            out += _rewritten([item], target, report)
        else:
            out.append(item)
    return out


def _kind(item: Raw) -> tuple[str, str]:
    try:
        given = _ITEM.decode(item)
    except msgspec.DecodeError:
        return "", ""
    return given.type or "", given.namespace or ""


def _rewritten(items: list[Raw], target: Target, report: Report) -> list[Raw]:
    """Return items of the history as an upstream without the dialect's own tools takes them."""
    if not items:
        return []
    body = encode({"model": "", "input": items})
    turns = decode_request(body, sealer=None, limits=target.limits).turns
    encoded = ItemEncoder(target, report, native=False, relayed=True).encode(turns)
    return entries_of(Raw(encode(encoded)))
