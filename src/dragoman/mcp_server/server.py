"""The table of tools, as the official SDK serves it."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from dragoman._version import __version__
from dragoman.dialects.encoding import encode
from dragoman.errors import DragomanError, MalformedError
from dragoman.mcp_server.telling import Piece, failure_of
from dragoman.mcp_server.tools import TOOLS, Around, ServedTool
from dragoman.mcp_server.upstreams import Upstreams

Context: TypeAlias = ServerRequestContext[Any, Any]

_INSTRUCTIONS: Final = (
    "Asks models of any vendor, finds tool calls that models write as text, and translates between API "
    "dialects.  Tool calls are told, never run."
)


def make_server(upstreams: Upstreams) -> Server[Any]:
    """Return a server over these upstreams; it does not close them."""

    async def list_tools(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_LISTED)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool `{params.name[:100]}`")
        progress = _Progress(context)
        try:
            asked = _arguments(tool, params.arguments)
            found = await tool.run(asked, Around(upstreams, progress.report))
        except DragomanError as error:
            return _result(failure_of(error), is_error=True)
        return _result(found)

    return Server(
        "dragoman",
        version=__version__,
        title="Dragoman",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class _Progress:
    """Tell what has come, for a caller that asked to be told."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._told = 0  # how many characters: a number that only grows

    async def report(self, piece: Piece) -> None:
        self._told += sum(map(len, (piece.text, piece.reasoning, piece.arguments, piece.call)))
        await self._session.report_progress(self._told, None, encode(piece).decode())


def _arguments(tool: ServedTool, given: dict[str, Any] | None) -> Struct:
    """Read a tool's arguments.

    Raises:
        MalformedError: they do not fit its schema; carries the path.
    """
    try:
        asked: Struct = msgspec.convert(given or {}, tool.takes)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise MalformedError(reason, path=path.rstrip("`")) from None
    return asked


def _result(found: Struct, *, is_error: bool = False) -> types.CallToolResult:
    """Return a value as structured content, and as text for clients that read nothing else."""
    text = encode(found)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text.decode())],
        structured_content=msgspec.json.decode(text),
        is_error=is_error,
    )


def _schema(form: type[Struct]) -> dict[str, Any]:
    """Return a JSON schema whose root is the object itself, as MCP wants it.

    Some clients read no property without a type, so enumerations have theirs.
    """
    (root,), definitions = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    name = root["$ref"].rpartition("/")[2]
    schema: dict[str, Any] = definitions.pop(name)
    for one in _inside([schema, definitions]):
        if "enum" in one:
            one.setdefault("type", "string")
    return schema | ({"$defs": definitions} if definitions else {})


def _inside(value: object) -> Iterator[dict[str, Any]]:
    """Give every object in a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _inside(one)


_LISTED: Final = [
    types.Tool(
        name=name,
        title=tool.title,
        description=tool.says,
        input_schema=_schema(tool.takes),
        output_schema=_schema(tool.gives),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=not tool.asks,
            open_world_hint=tool.asks,
        ),
    )
    for name, tool in TOOLS.items()
]
