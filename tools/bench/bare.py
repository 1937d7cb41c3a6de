"""A floor: a byte relay on asyncio's protocols and httptools, without an HTTP framework.

    python -m tools.bench.bare UPSTREAM_PORT

Prints its address, and serves until it is terminated.  It keeps one upstream connection for each client.
"""

import asyncio
import sys
from typing import Final

import httptools
import uvloop

_HEAD: Final = (
    "POST /v1/chat/completions HTTP/1.1\r\n"
    "host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
)


class Upstream(asyncio.Protocol):
    """Writes each arrival to the client."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class Client(asyncio.Protocol):
    """Forwards each request when it is complete."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()
        self._upstream: Upstream | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        request = _HEAD.format(len(self._body)).encode() + self._body
        self._body = bytearray()
        if self._upstream is None:
            self._task = asyncio.ensure_future(self._connect(request))
        else:
            self._upstream.transport.write(request)

    async def _connect(self, request: bytes) -> None:
        _, self._upstream = await asyncio.get_running_loop().create_connection(
            lambda: Upstream(self._transport), "127.0.0.1", self._port
        )
        self._upstream.transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._upstream is not None:
            self._upstream.transport.close()


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(port), "127.0.0.1", 0, backlog=1024)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
