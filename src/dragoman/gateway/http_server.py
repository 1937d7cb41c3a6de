"""The HTTP server under the gateway, as far as it answers by itself: requests that are no valid HTTP."""

from typing import Final

from aiohttp import web

from dragoman.dialects import dialect
from dragoman.turn.events import Fault, FaultKind

OWN_NAME: Final = {"server": "dragoman"}  # in place of the versions that the library would show


class _Connection(web.RequestHandler):
    """One connection.  What cannot be parsed is refused without the parser's own words."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs it, or closes a broken answer
        kind = FaultKind.BAD_REQUEST if status < 500 else FaultKind.GATEWAY
        said = "the request is not valid HTTP" if status < 500 else "the gateway failed"
        _, body = dialect("chat").encode_fault(Fault(kind, said, status=status), "")
        response = web.Response(
            status=status, body=body, content_type="application/json", headers=OWN_NAME
        )
        response.force_close()
        return response


class HttpServer(web.Server):
    """Makes such connections."""

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)
