"""A forward proxy: CONNECT and absolute-form requests, credentials, and a log of what it saw on standard output.

A line `cut` on standard input aborts every connection, a line `mark` is logged.
"""

import argparse
import asyncio
import base64
import json
import ssl
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

_BLOCK = 65536


class _Program:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._hosts: dict[str, int] = json.loads(options.hosts)
        self._writers: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        tls = None
        if self._options.certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self._options.certificate)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        _log(port=server.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        while word := await loop.run_in_executor(None, sys.stdin.readline):
            if word == "mark\n":
                _log(mark=True)
                continue
            for writer in tuple(self._writers):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass
        self._writers.discard(writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; return whether another may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
        }
        _log(method=method, target=target, headers=headers)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if self._options.silent:
            await reader.read()
            return False
        if not self._knows(headers.get("proxy-authorization", "")):
            asked = f"Proxy-Authenticate: {self._options.scheme} realm=x\r\n"
            return await _refuse(writer, 407, asked)
        if self._options.status:
            return await _refuse(writer, self._options.status)
        where = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = self._hosts.get(where.hostname or "", where.port or 80)
        try:
            onward = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return await _refuse(writer, 502)
        self._writers.add(onward[1])
        _log(opened=target)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            onward[1].write(_forwarded(method, target, lines) + body)
        await _join((reader, writer), onward)
        self._writers.discard(onward[1])
        _log(closed=target)
        return False

    def _knows(self, shown: str) -> bool:
        wanted = self._options.credentials
        return not wanted or shown == f"Basic {base64.b64encode(wanted.encode()).decode()}"


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(one: _End, other: _End) -> None:
    """Carry bytes both ways until either side ends."""
    ways = [
        asyncio.create_task(_carry(one[0], other[1])),
        asyncio.create_task(_carry(other[0], one[1])),
    ]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    for writer in (one[1], other[1]):
        writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_BLOCK):
            writer.write(data)
            await writer.drain()


def _forwarded(method: str, target: str, lines: list[str]) -> bytes:
    """Return the head of a request as a server expects it."""
    where = urlsplit(target)
    kept = [one for one in lines if not one.lower().startswith(("proxy-", "connection:"))]
    path = where.path + (f"?{where.query}" if where.query else "")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "connection: close", "", ""]).encode(
        "latin-1"
    )


async def _refuse(writer: asyncio.StreamWriter, status: int, headers: str = "") -> bool:
    body = "<html><title>The proxy</title>no</html>"
    writer.write(
        f"HTTP/1.1 {status} No\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    await writer.drain()
    return True


def _log(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("--credentials", "--scheme", "--certificate", "--hosts"):
        parser.add_argument(name, default="")
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--silent", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_Program(_options()).run())
