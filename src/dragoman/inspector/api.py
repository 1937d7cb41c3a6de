"""The inspector over HTTP: the page and its JSON, for the gateway and for `dragoman inspect`.

All answers are bounded, and everything that reads recordings runs in a thread, so that streams do not wait for it.
GET changes nothing; POST is answered only for pages of this server.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from dragoman._version import __version__
from dragoman.dialects import dialect_names
from dragoman.dialects.dialect import auth_header
from dragoman.errors import DragomanError
from dragoman.inspector import playground
from dragoman.inspector.access import Access, Sessions, Viewer, is_own_page
from dragoman.inspector.conversation_view import conversation_view
from dragoman.inspector.conversations import Conversations
from dragoman.inspector.exchange import PAGE_ROWS, view
from dragoman.inspector.index import MOST_ROWS, BadQueryError, Filter, Index, Page
from dragoman.inspector.live import Live
from dragoman.inspector.parts import COLUMNS, Prepared
from dragoman.inspector.recordings import (
    RANGE_BYTES,
    SIDES,
    GoneError,
    Loaded,
    archive,
    load,
    replay_view,
    write_case,
)
from dragoman.inspector.summary import Summary
from dragoman.inspector.views import KEEP_SECONDS, Views, is_large
from dragoman.recorder.lines import SUFFIX
from dragoman.recorder.recording import RecordingError
from dragoman.toolcalls.formats import FORMATS

T = TypeVar("T")

PREFIX: Final = "/inspector"
STATIC: Final = Path(__file__).parent / "static"
_SECURITY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types inspector-worker"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_FILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\.(?:css|js|svg|png)")
_MAX_BODY: Final = 4 * 1024 * 1024  # of a request to the inspector
_MOST_MEMORY: Final = 2000  # rows that are kept of exchanges without a recording
_THREADS: Final = 3
_GROUP_SECONDS: Final = 10.0  # between two groupings for lists
_MOST_NUMBER: Final = 10**9  # in a query
_MOST_ARCHIVES: Final = 2  # at the same time


class ApiError(DragomanError):
    """A request that cannot be answered, as the page gets it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Facts(Struct, frozen=True, kw_only=True):
    """What the page shows about its server."""

    address: str
    recording: str  # always, problems, asked, off
    keep: str = ""  # how long recordings are kept, in words
    folder: str = ""  # that `dragoman inspect` shows


class _Login(Struct):
    key: str


class _Replay(Struct):
    split: Annotated[int, Meta(ge=0)] = 0


class _Case(Struct):
    pass


class Inspector:
    """The page over one folder of recordings, and over what a gateway has in memory.

    `news` returns the exchanges that are running or have ended since it was last asked; it is called in the event
    loop.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        access: Access,
        secret: bytes,
        facts: Callable[[], Facts],
        news: Callable[[], Iterable[Summary]] = tuple,
    ) -> None:
        self.index: Index = Index(folder)
        self._runs = Conversations(self.index)
        self._access = access
        self._sessions = Sessions(secret)
        self._facts = facts
        self._news = news
        self._live = Live(self._changes)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dragoman-inspector")
        self._scanned = False
        self._views = Views()
        self._large = asyncio.Semaphore(1)  # large recordings are taken apart one after the other
        self._archives = 0  # that are being sent
        self._group_after = 0.0  # by the clock of the event loop
        self._grouping: asyncio.TimerHandle | None = None
        self._unsent: list[Summary] = []  # news that a listener has not got yet

    def scan(self) -> None:
        """Begin to read the folder, if that was not done: the page is about to ask for it."""
        if not self._scanned:
            self._scanned = True
            self._threads.submit(self.index.summaries)

    def close(self) -> None:
        """End the streams of all listeners, and the threads."""
        self._live.close()
        if self._grouping is not None:
            self._grouping.cancel()
        self._views.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request to a path under `/inspector`."""
        try:
            return await self._answer(http)
        except ApiError as error:
            body = {"error": {"code": error.code, "message": str(error)}}
            return _json(msgspec.json.encode(body), error.status)
        except BadQueryError as error:
            body = {"error": {"code": "bad_query", "message": str(error)}}
            return _json(msgspec.json.encode(body), 400)

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        path = http.path.removeprefix(PREFIX).strip("/").split("/")
        if path[0] != "api":
            _only(http, "GET", "HEAD")
            self.scan()
            return _static(path)
        if path[1:] == ["session"]:
            return await self._login(http)
        viewer = self._viewer(http)
        match path[1:]:
            case ["me"]:
                return self._me(http, viewer)
            case ["exchanges" | "overview" | "facets" as what]:
                return await self._list(http, viewer, what)
            case ["recordings"]:
                return await self._archive(http, viewer)
            case ["conversations"]:
                return await self._conversations(http, viewer)
            case ["conversations", conversation]:
                return await self._conversation(http, viewer, conversation)
            case ["exchanges", exchange]:
                return await self._exchange(http, viewer, exchange)
            case ["exchanges", exchange, "conversation"]:
                return await self._place(http, viewer, exchange)
            case ["exchanges", exchange, "rows"]:
                return await self._rows(http, viewer, exchange)
            case ["exchanges", exchange, "bytes"]:
                return await self._bytes(http, viewer, exchange)
            case ["exchanges", exchange, "recording"]:
                return await self._download(http, viewer, exchange)
            case ["exchanges", exchange, "replay"]:
                return await self._replay(http, viewer, exchange)
            case ["playground"]:
                return await self._playground(http)
            case ["exchanges", exchange, "case"]:
                return await self._case(http, viewer, exchange)
            case ["live"]:
                return await self._listen(http, viewer)
        raise ApiError(404, "not_found", "there is nothing here")

    # --- access ----------------------------------------------------------------------------------

    def _viewer(self, http: web.BaseRequest) -> Viewer:
        """Return who a request is from.

        Raises:
            ApiError: neither a session nor a key is known.
        """
        found = self._access.viewer(http.headers, http.remote or "")
        if found is None:
            owner = self._sessions.owner(http.headers.get("cookie", ""))
            found = None if owner is None else self._access.viewer_of(owner)
        if found is None:
            raise ApiError(401, "key_required", "this gateway requires a key")
        return found

    async def _login(self, http: web.BaseRequest) -> web.Response:
        """Give a page a session for a key."""
        given = await _body(http, _Login)
        viewer = self._access.viewer(auth_header("bearer", given.key), http.remote or "")
        if viewer is None:
            raise ApiError(401, "key_unknown", "this gateway does not know this key")
        headers = {**_SECURITY, "set-cookie": self._sessions.cookie(viewer.owner)}
        return web.Response(status=204, headers=headers)

    def _me(self, http: web.BaseRequest, viewer: Viewer) -> web.Response:
        _only(http, "GET")
        facts = {
            **msgspec.structs.asdict(self._facts()),
            "all": viewer.all,
            "families": list(FORMATS),
            "dialects": list(dialect_names()),
            "version": __version__,
        }
        return _json(msgspec.json.encode(facts))

    # --- lists -----------------------------------------------------------------------------------

    async def _list(self, http: web.BaseRequest, viewer: Viewer, what: str) -> web.Response:
        _only(http, "GET")
        query = {name: http.query.getall(name) for name in http.query}
        self._take_news()
        index, may_see = self.index, viewer.may_see
        cursor, newest = http.query.get("cursor", ""), http.query.get("newest", "")
        skip, limit = _number(http, "skip", 0), _number(http, "limit", 200)
        wanted = Filter.of(query, index.now())

        def work() -> bytes:
            found: object
            if what == "exchanges":
                page = index.page(
                    wanted, may_see=may_see, cursor=cursor, skip=skip, limit=limit, newest=newest
                )
                found = self._with_conversations(page)
            elif what == "overview":
                found = index.overview(wanted, may_see=may_see)
            else:
                found = index.facets(may_see=may_see)
            return msgspec.json.encode(found)

        answer = _json(await self._in_thread(work))
        if what == "exchanges":
            self._group_soon()
        return answer

    def _with_conversations(self, page: Page) -> Page:
        rows = [
            msgspec.structs.replace(
                row, conversation=place.id if (place := self._runs.known(row.id)) else ""
            )
            for row in page.rows
        ]
        return msgspec.structs.replace(page, rows=rows)

    def _group_soon(self) -> None:
        """Group exchanges into conversations after a list was sent, which does not wait for it."""
        if self._grouping is None:
            loop = asyncio.get_running_loop()
            self._grouping = loop.call_at(max(loop.time(), self._group_after), self._group)

    def _group(self) -> None:
        self._grouping = None
        self._group_after = asyncio.get_running_loop().time() + _GROUP_SECONDS
        with suppress(RuntimeError):  # the threads have ended
            self._threads.submit(self._runs.all)

    async def _archive(self, http: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
        """Send the recordings of a list, or of a conversation, as one tar file."""
        _only(http, "GET")
        query = {name: http.query.getall(name) for name in http.query}
        index, folder = self.index, self.index.folder
        wanted = Filter.of(query, index.now())
        self._take_news()
        conversation, may_see = http.query.get("conversation", ""), viewer.may_see
        files = await self._in_thread(
            lambda: (
                self._runs.files(conversation, may_see=may_see)
                if conversation
                else index.files(wanted, may_see=may_see)
            )
        )
        if not files or folder is None:
            raise ApiError(404, "not_recorded", "no exchange of this list was recorded")
        if self._archives >= _MOST_ARCHIVES:
            raise ApiError(429, "busy", "other archives are being sent; try again in a minute")
        headers = {
            **_SECURITY,
            "content-type": "application/x-tar",
            "content-disposition": 'attachment; filename="recordings.tar"',
        }
        self._archives += 1
        try:
            response = web.StreamResponse(headers=headers)
            await response.prepare(http)
            pieces = archive(folder, files)
            while piece := await self._in_thread(lambda: next(pieces, b"")):
                await response.write(piece)
        finally:
            self._archives -= 1
        return response

    # --- one exchange ----------------------------------------------------------------------------

    async def _find(self, viewer: Viewer, exchange: str) -> Summary:
        """Return an exchange that a viewer may see.

        Raises:
            ApiError: there is none, whether or not others may see one.
        """
        self._take_news()
        found = await self._in_thread(lambda: self.index.find(exchange))
        if found is None or not viewer.may_see(found):
            raise ApiError(404, "not_found", "there is no such exchange, or it was deleted")
        if found.unreadable:
            raise ApiError(422, "newer_version", found.unreadable)
        return found

    def _path(self, found: Summary) -> Path:
        """Return the file of an exchange.

        Raises:
            ApiError: it was not recorded.
        """
        if not found.file or self.index.folder is None:
            raise ApiError(404, "not_recorded", "this exchange was not recorded")
        return self.index.folder / found.file

    def _load(self, found: Summary) -> Loaded:
        """Read the recording of an exchange; called in a thread.

        Raises:
            ApiError: it was deleted, or cannot be read.
        """
        try:
            return load(self._path(found))
        except GoneError as error:
            raise ApiError(410, "deleted", "this exchange was deleted") from error
        except RecordingError as error:
            raise ApiError(422, "unreadable", str(error)) from error

    async def _prepared(self, found: Summary, *, first: bool = False) -> Prepared:
        """Return the view of a recorded exchange; `first`: of a large recording its first part will do.

        Raises:
            ApiError: it was not recorded, was deleted, or cannot be read.
        """
        path, views, address = self._path(found), self._views, self._facts().address
        try:
            kept = await self._in_thread(lambda: views.kept(path, first=first))
            if kept is not None:
                return kept
            if first or not await self._in_thread(lambda: is_large(path)):
                return await self._in_thread(
                    lambda: views.read(path, found, address=address, first=first)
                )
            async with self._large:
                return await self._in_thread(
                    lambda: views.kept(path) or views.read(path, found, address=address)
                )
        except GoneError as error:
            raise ApiError(410, "deleted", "this exchange was deleted") from error
        except RecordingError as error:
            raise ApiError(422, "unreadable", str(error)) from error
        except ApiError:
            raise
        except Exception as error:  # whatever a file has, the page gets an answer
            name = type(error).__name__
            raise ApiError(422, "unreadable", f"it cannot be shown: {name}") from error
        finally:
            asyncio.get_running_loop().call_later(KEEP_SECONDS + 1, views.drop_old)

    async def _exchange(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        """Send the view of an exchange; `part=first`: of a large recording its first part, at once."""
        _only(http, "GET")
        found = await self._find(viewer, exchange)
        place = msgspec.json.encode(self._runs.known(found.row.id))
        if not found.file:
            head = msgspec.json.encode(view(found, None, address="").shown)
        else:
            first = http.query.get("part") == "first"
            head = (await self._prepared(found, first=first)).head
        return _json(b'{"conversation":%b,%b' % (place, head[1:]))

    async def _place(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        """Send which turn of which conversation an exchange is; all exchanges are grouped for it."""
        _only(http, "GET")
        found = await self._find(viewer, exchange)
        place = await self._in_thread(lambda: self._runs.place(found.row.id))
        return _json(msgspec.json.encode(place))

    async def _rows(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        """Send a page of the rows of one column."""
        _only(http, "GET")
        column = http.query.get("column", "")
        if column not in COLUMNS:
            raise ApiError(400, "bad_query", f"`column` must be one of {', '.join(COLUMNS)}")
        start = _number(http, "from", 0)
        start -= start % PAGE_ROWS
        found = await self._find(viewer, exchange)
        prepared = await self._prepared(found)
        rows = await self._in_thread(lambda: prepared.rows(column, start))
        return _json(b'{"from":%d,"rows":%b}' % (start, rows))

    async def _bytes(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        _only(http, "GET")
        side = http.query.get("side", "upstream")
        if side not in SIDES:
            raise ApiError(400, "bad_query", f"`side` must be one of {', '.join(SIDES)}")
        start, end = _number(http, "from", 0), _number(http, "to", _MOST_NUMBER)
        found = await self._find(viewer, exchange)
        prepared = await self._prepared(found, first=True)
        if prepared.more and end > len(prepared.sides[side]):
            prepared = await self._prepared(found)
        data = prepared.sides[side]
        first = min(start, len(data))
        piece = data[first : max(first, min(end, first + RANGE_BYTES))]
        facts = {"from": first, "to": first + len(piece), "size": len(data)}
        try:
            return _json(msgspec.json.encode({**facts, "text": piece.decode()}))
        except UnicodeDecodeError:
            return _json(msgspec.json.encode({**facts, "base64": piece}))

    async def _download(
        self, http: web.BaseRequest, viewer: Viewer, exchange: str
    ) -> web.StreamResponse:
        """Send the file of a recording."""
        _only(http, "GET")
        found = await self._find(viewer, exchange)
        path = self._path(found)
        headers = {
            **_SECURITY,
            "content-type": "application/octet-stream",
            "content-disposition": f'attachment; filename="{exchange}{SUFFIX}"',
        }
        try:
            file = await self._in_thread(lambda: path.open("rb"))
        except OSError as error:
            raise ApiError(410, "deleted", "this exchange was deleted") from error
        with file:
            response = web.StreamResponse(headers=headers)
            await response.prepare(http)
            while piece := await self._in_thread(lambda: file.read(RANGE_BYTES)):
                await response.write(piece)
            return response

    async def _replay(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        """Translate a recorded answer with today's code, and compare."""
        wanted = await _body(http, _Replay)
        found = await self._find(viewer, exchange)
        return _json(
            await self._in_thread(
                lambda: msgspec.json.encode(replay_view(self._load(found).recording, wanted.split))
            )
        )

    async def _playground(self, http: web.BaseRequest) -> web.Response:
        """Parse a pasted text or stream; nothing of it is stored."""
        question = await _body(http, playground.Question)
        try:
            return _json(
                await self._in_thread(lambda: msgspec.json.encode(playground.parse(question)))
            )
        except playground.PlaygroundError as error:
            raise ApiError(422, "cannot_parse", str(error)) from error

    async def _case(self, http: web.BaseRequest, viewer: Viewer, exchange: str) -> web.Response:
        """Write a test of a recorded exchange beside the recordings."""
        await _body(http, _Case)
        found = await self._find(viewer, exchange)
        if not viewer.all:
            raise ApiError(403, "permission", "only a key with the right `inspect` may write cases")
        folder = self._path(found).parent

        def work() -> bytes:
            try:
                return msgspec.json.encode(write_case(folder, self._load(found).recording))
            except RecordingError as error:
                raise ApiError(422, "no_case", str(error)) from error
            except OSError as error:
                raise ApiError(500, "not_written", f"{error.strerror}") from error

        return _json(await self._in_thread(work))

    # --- conversations ---------------------------------------------------------------------------

    async def _conversations(self, http: web.BaseRequest, viewer: Viewer) -> web.Response:
        _only(http, "GET")
        text = http.query.get("text", "")
        skip = _number(http, "cursor", 0)
        limit = min(max(1, _number(http, "limit", 200)), MOST_ROWS)

        def work() -> bytes:
            rows = self._runs.rows(text=text, may_see=viewer.may_see, now=self.index.now())
            more = str(skip + limit) if skip + limit < len(rows) else None
            return msgspec.json.encode({"rows": rows[skip : skip + limit], "cursor": more})

        return _json(await self._in_thread(work))

    async def _conversation(
        self, http: web.BaseRequest, viewer: Viewer, conversation: str
    ) -> web.Response:
        _only(http, "GET")

        def work() -> bytes:
            found, folder = self._runs.find(conversation, may_see=viewer.may_see), self.index.folder
            if found is None or folder is None:
                raise ApiError(404, "not_found", "there is no such conversation")
            return msgspec.json.encode(conversation_view(folder, *found, self.index.now()))

        return _json(await self._in_thread(work))

    def _take_news(self) -> None:
        """Put what the gateway has seen into the index."""
        for one in self._news():
            self.index.put(one, most=_MOST_MEMORY)
            self._unsent.append(one)
        del self._unsent[:-_MOST_MEMORY]

    async def _changes(self) -> list[Summary]:
        """Return what is new since this was last asked, for those who listen."""
        self._take_news()
        changed, self._unsent = self._unsent, []
        return [*changed, *await self._in_thread(self.index.take_changes)]

    async def _listen(self, http: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
        _only(http, "GET")
        if self._live.full:
            raise ApiError(503, "too_many_listeners", "too many pages are open")
        after = http.headers.get("last-event-id", "") or http.query.get("after", "")
        response = web.StreamResponse(headers={**_SECURITY, "content-type": "text/event-stream"})
        await response.prepare(http)
        await self._live.serve(response, viewer, after[:64])
        return response

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _only(http: web.BaseRequest, *methods: str) -> None:
    if http.method not in methods:
        raise ApiError(405, "method", f"this path takes {', '.join(methods)}")


def _number(http: web.BaseRequest, name: str, default: int) -> int:
    text = http.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_NUMBER))):
        raise ApiError(400, "bad_query", f"`{name}` must be a number")
    return int(text)


async def _body(http: web.BaseRequest, kind: type[T]) -> T:
    """Return the body of a POST of the inspector's page.

    Raises:
        ApiError: it comes from elsewhere, or is not what is expected.
    """
    _only(http, "POST")
    if not is_own_page(http.headers.get("origin", ""), http.headers.get("host", "")):
        raise ApiError(403, "origin_refused", "only the inspector's own page may send this request")
    if http.content_type != "application/json":
        raise ApiError(400, "content_type", "the body must be application/json")
    body = bytearray()
    async for chunk in http.content.iter_any():
        body += chunk
        if len(body) > _MAX_BODY:
            raise ApiError(413, "too_large", f"the body has more than {_MAX_BODY} bytes")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(400, "bad_body", f"the body is not valid: {error}") from None


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(
        body=body, status=status, headers=_SECURITY, content_type="application/json"
    )


def _static(path: list[str]) -> web.Response:
    """Return a file of the page; every other path is a view of the one page."""
    name = "index.html"
    if path[0] == "static":
        name = path[1] if len(path) == 2 and _FILE_NAME.fullmatch(path[1]) else ""
    try:
        body = (STATIC / name).read_bytes() if name else None
    except OSError:
        body = None
    if body is None:
        raise ApiError(404, "not_found", "there is no such file")
    kind = _TYPES[Path(name).suffix]
    return web.Response(body=body, headers=_SECURITY, content_type=kind, charset=_charset(kind))


def _charset(kind: str) -> str | None:
    return None if kind == "image/png" else "utf-8"
