"""The server of the official SDK over the table of tools, and its two transports: stdio and HTTP."""

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec
import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from dragoman._version import __version__
from dragoman.dialects.encoding import encode
from dragoman.errors import DragomanError, MalformedError, cannot_listen
from dragoman.limits import DEFAULT_LIMITS
from dragoman.mcp_server.results import Piece, failure_of
from dragoman.mcp_server.tools import TOOLS, ServedTool, ToolContext
from dragoman.mcp_server.upstreams import Upstreams

Context: TypeAlias = ServerRequestContext[Any, Any]

HOST: Final = "127.0.0.1"  # loopback only: every client of the server uses our upstream keys
PATH: Final = "/mcp"
_BACKLOG: Final = 128
_DRAIN_SECONDS: Final = 3
_INSTRUCTIONS: Final = (
    "Asks models of any vendor, finds tool calls that models write as text, and translates between API "
    "dialects.  Tool calls are reported, never run."
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
            found = await tool.run(asked, ToolContext(upstreams, progress.report))
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
    """Sends the answer so far to a caller that asked for progress."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._progress = 0  # how many characters: a number that only grows

    async def report(self, piece: Piece) -> None:
        self._progress += sum(map(len, (piece.text, piece.reasoning, piece.arguments, piece.call)))
        await self._session.report_progress(self._progress, None, encode(piece).decode())


def _arguments(tool: ServedTool, given: dict[str, Any] | None) -> Struct:
    """Read a tool's arguments.

    Raises:
        MalformedError: they do not fit its schema; carries the path.
    """
    try:
        asked: Struct = msgspec.convert(given or {}, tool.input_type)
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
        description=tool.description,
        input_schema=_schema(tool.input_type),
        output_schema=_schema(tool.output_type),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=not tool.uses_upstream,
            open_world_hint=tool.uses_upstream,
        ),
    )
    for name, tool in TOOLS.items()
]


# --- transports ---


async def serve_stdio(upstreams: Upstreams) -> None:
    """Serve the program that started this process, until it closes our standard input.

    Standard output carries the protocol alone; the SDK redirects everything else to standard error.
    """
    server = make_server(upstreams)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await upstreams.close()


async def serve_http(upstreams: Upstreams, port: int, announce: Callable[[str], object]) -> None:
    """Serve programs of this machine until a stop signal; pages in a browser are refused.

    Raises:
        ConfigError: the port is not available.
    """
    listening = _listen(port)
    port = listening.getsockname()[1]
    app = make_server(upstreams).streamable_http_app(
        streamable_http_path=PATH,
        host=HOST,
        max_request_body_size=DEFAULT_LIMITS.max_request_bytes,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[f"{name}:{port}" for name in (HOST, "localhost")],
            allowed_origins=[],  # no page at all: its scripts are not the user's programs
        ),
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = _Announced(config, lambda: announce(f"http://{HOST}:{port}{PATH}"))
    try:
        await server.serve(sockets=[listening])
    finally:
        listening.close()
        await upstreams.close()


class _Announced(uvicorn.Server):
    """A server that calls `announce` when it serves; its signal handlers are installed by then."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], object]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there the option would let another program take over the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise cannot_listen(HOST, port, error, flag="--http") from error
    return listening
