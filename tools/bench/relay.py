"""The floor: the gateway's HTTP stack, as server and client, without translation.

    python -m tools.bench.relay http://127.0.0.1:PORT/v1/chat/completions

Prints its address, and serves until it is terminated.
"""

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web
from yarl import URL


class Relay:
    """Forwards bytes unchanged."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str) -> None:
        self._session = session
        self._url = URL(upstream)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = bytearray()
        while data := await request.content.readany():
            body += data
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url, data=bytes(body), headers=headers) as answer:
            del body
            if answer.content_type != "text/event-stream":
                return web.Response(body=await answer.read(), content_type=answer.content_type)
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            try:
                await response.prepare(request)
                while data := await answer.content.readany():
                    await response.write(data)
                await response.write_eof()
            except ConnectionError:
                pass  # the client has disconnected
            return response


async def main(upstream: str) -> None:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity"},
        timeout=aiohttp.ClientTimeout(sock_connect=10),
        read_bufsize=2**16,
    ) as session:
        server = web.Server(
            Relay(session, upstream).handle, handler_cancellation=True, access_log=None
        )
        runner = web.ServerRunner(server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        print(f"127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
