"""Tools that a vendor runs itself: what they do, how they are set up, what they were asked and what they found.

A client of one vendor declares `web_search_20250305`, another one `web_search` or `googleSearch`; answers hold
`server_tool_use` blocks, `web_search_call` items or grounding metadata.  The types here say the same for all of
them.  Knows no field names of any dialect.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Raw, Struct

# Sources of one answer that are collected from its citations.
MAX_SOURCES: Final = 100
# A user, or a query, which may be a key.
_SECRET_ADDRESS: Final = re.compile(r"://[^/?#]*@|\?")
_QUERY_VALUE: Final = re.compile(r"(?<==)[^&#]+")
_HOST: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:\[\]]+)")


class ServerKind(StrEnum):
    """What a vendor-run tool does, whichever vendor runs it.

    Attributes:
        WEB_SEARCH: Searches the web.
        WEB_FETCH: Reads a page whose address is known.
        CODE: Runs code in the vendor's container.
        FILE_SEARCH: Searches files that are stored at the vendor.
        IMAGE: Makes images.
        MCP: Calls tools of a remote MCP server.
        TOOL_SEARCH: Searches the declared tools.
        MAPS: Answers questions about places.
        OTHER: Anything else; only its own vendor has it.
    """

    WEB_SEARCH = "web_search"
    WEB_FETCH = "web_fetch"
    CODE = "code_execution"
    FILE_SEARCH = "file_search"
    IMAGE = "image_generation"
    MCP = "mcp"
    TOOL_SEARCH = "tool_search"
    MAPS = "maps"
    OTHER = "other"


class Place(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where the user roughly is; an empty field was not given.

    Attributes:
        city: The city.
        region: The state or region.
        country: The country's two letters.
        timezone: A name such as `Europe/Rome`.
    """

    city: str = ""
    region: str = ""
    country: str = ""
    timezone: str = ""


class McpServer(Struct, frozen=True, gc=False, kw_only=True):
    """A remote MCP server whose tools the vendor calls for the model.

    Attributes:
        name: The client's name for it, which answers repeat.
        url: Its address.
        allowed: The only tools of the server that may be called; None: all of them.
        blocked: Tools of the server that may not be called.
        token: A bearer token for the server: a secret of the user.
        headers: Headers for the server: secrets of the user too.
        approval: The client wants to approve calls before they run.
        own: What only the vendor of the client's dialect can do with it; empty: nothing.
    """

    name: str
    url: str = ""
    allowed: tuple[str, ...] | None = None
    blocked: tuple[str, ...] = ()
    token: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    approval: bool = False
    own: str = ""

    @property
    def has_credentials(self) -> bool:
        """A vendor that gets the server's definition can act as the user there; keys are often part of an address."""
        return bool(self.token or self.headers or _SECRET_ADDRESS.search(self.url))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be logged or recorded."""
        values = [value for _, value in self.headers]
        return (self.token, *values, *_QUERY_VALUE.findall(self.url))


class ServerOptions(Struct, frozen=True, gc=False, kw_only=True):
    """How a client sets up a vendor-run tool; an empty field was not given.

    Attributes:
        max_uses: How often the tool may be used for one answer.
        allowed: The only domains that may be used.
        blocked: Domains that may not be used.
        place: Where the user is.
        context: How much of the results the model reads.
        max_results: How many results each search returns.
        max_tokens: How much of a page is read.
        live: False: only what the vendor has in its cache, without traffic to the web.
        always: The tool runs whatever the model decides.
        servers: The MCP servers whose tools may be called.
        rest: Names of options that have no place above.
    """

    max_uses: int | None = None
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    place: Place | None = None
    context: str = ""
    max_results: int | None = None
    max_tokens: int | None = None
    live: bool = True
    always: bool = False
    servers: tuple[McpServer, ...] = ()
    rest: tuple[str, ...] = ()


NO_OPTIONS: Final = ServerOptions()


class SourceRef(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that a tool found.

    Attributes:
        url: Its address.
        title: Its title; empty if the vendor gave none.
        snippet: A part of its text.
        age: When it was published, in the vendor's words.
    """

    url: str
    title: str = ""
    snippet: str = ""
    age: str = ""

    @property
    def shown_title(self) -> str:
        """The title, or the host if there is none: readers of some dialects demand one."""
        return self.title or host_of(self.url)


def host_of(url: str) -> str:
    """Return the host of an address; the address itself if it has none."""
    found = _HOST.match(url)
    return found[1].lower() if found else url


class ServerCall(Struct, frozen=True, gc=False, tag="call", tag_field="is"):
    """A vendor-run tool was used.

    Attributes:
        does: What the tool does.
        queries: Searches: what was searched for; empty if the vendor does not say.  Fetches: the address.
        arguments: Other tools: what they were called with, as JSON; for code `{"code": …}`.
        name: MCP: the tool's name.
        server: MCP: the name of the server that has the tool.
    """

    does: ServerKind
    queries: tuple[str, ...] = ()
    arguments: Raw = Raw(b"null")
    name: str = ""
    server: str = ""

    @property
    def tool(self) -> str:
        """The name of an MCP server's tool, behind that of the server; empty for other tools."""
        return f"{self.server}.{self.name}" if self.server and self.name else self.name


class MadeImage(Struct, frozen=True, gc=False, omit_defaults=True):
    """An image that a model or a tool made: its content, or an address.

    Attributes:
        data: The content as base64 text.
        media_type: Its MIME type.
        url: Its address, if there is no `data`.
    """

    data: str = ""
    media_type: str = "image/png"
    url: str = ""


class ServerResult(Struct, frozen=True, gc=False, tag="result", tag_field="is"):
    """What a vendor-run tool found.

    Attributes:
        does: What the tool does.
        sources: What a search found, or the page that was read.
        output: What code or a remote tool printed; the text of a page.
        error: Why it failed, in Anthropic's words; empty: it did not fail.
        return_code: Of code: 0 if it succeeded.
        image: The image that was made.
    """

    does: ServerKind
    sources: tuple[SourceRef, ...] = ()
    output: str = ""
    error: str = ""
    return_code: int | None = None
    image: MadeImage | None = None


# Why a tool failed.
UNAVAILABLE: Final = "unavailable"
TOO_OFTEN: Final = "max_uses_exceeded"


def summary_of(server: ServerCall | ServerResult) -> str:
    """Return what a tool was asked or found, for a model whose API has no place for it."""
    word = str(server.does).replace("_", " ")
    if isinstance(server, ServerCall):
        about = " | ".join(server.queries) or _called(server)
        return f"[{word}: {about}]" if about else f"[{word}]"
    if server.error:
        return f"[{word} failed: {server.output[:_MOST_OUTPUT] or server.error}]"
    lines = [f"{one.shown_title} — {one.url}" for one in server.sources[:_MOST_LINES]]
    if server.image is not None:
        lines.append(server.image.url or f"an image of type {server.image.media_type}")
    if server.output:
        lines.append(server.output[:_MOST_OUTPUT])
    listed = "\n".join(lines)
    return f"[{word} result:\n{listed}]" if listed else f"[{word} result: not shown]"


def _called(call: ServerCall) -> str:
    """Return the tool of an MCP server and what it was called with."""
    if not call.name:
        return ""
    asked = bytes(call.arguments).decode("utf-8", "replace")[:_MOST_ARGUMENTS]
    return call.tool if asked in ("null", "{}") else f"{call.tool} {asked}"


_MOST_ARGUMENTS: Final = 1000  # characters of arguments that are shown in a summary
_MOST_LINES: Final = 10  # sources that are shown in a summary
_MOST_OUTPUT: Final = 4000  # characters of output there
