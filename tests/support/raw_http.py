"""A client on a bare socket: it sees every byte as it comes, may stop reading, and may leave."""

import json
import socket
import time
from typing import Any, Self
from urllib.parse import urlsplit


class RawClient:
    """One request on one connection.  Use as a context; leaving it closes the connection."""

    def __init__(
        self,
        url: str,
        path: str,
        body: Any,
        *,
        buffer: int = 0,
        method: str = "POST",
        version: str = "1.1",
    ) -> None:
        place = urlsplit(url)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(60)
        self.socket.connect((place.hostname, place.port))
        self.socket.sendall(
            b"%b %b HTTP/%b\r\nhost: %b\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n"
            % (
                method.encode(),
                path.encode(),
                version.encode(),
                place.netloc.encode(),
                len(data),
            )
        )
        self.socket.sendall(data)
        self.status = 0
        self.headers: dict[str, str] = {}  # names in lower case
        self.received = bytearray()  # of the body, as far as it was asked for
        self._raw = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def head(self) -> int:
        """Wait for the status line and the headers, and return the status."""
        while b"\r\n\r\n" not in self._raw:
            self._receive()
        head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.status = int(status_line.split(" ", 2)[1])
        return self.status

    def body_with(self, text: bytes) -> bytearray:
        """Read until the body of a chunked answer holds a text; return all of it."""
        while text not in self.received:
            self._next_chunk()
        return self.received

    def whole(self) -> bytearray:
        """Read a chunked answer to its end."""
        while self._next_chunk():
            pass
        return self.received

    def until_closed(self) -> bytes:
        """Read a body that ends with its connection."""
        parts = [self._raw]
        while data := self.socket.recv(1 << 20):
            parts.append(data)
        return b"".join(parts)

    def timed(self) -> list[tuple[float, bytes]]:
        """Read to the end; return each chunk and when it came."""
        found = []
        while chunk := self._next_chunk():
            found.append((time.monotonic(), chunk))
        return found

    def _next_chunk(self) -> bytes:
        while b"\r\n" not in self._raw:
            self._receive()
        size, _, self._raw = self._raw.partition(b"\r\n")
        wanted = int(size, 16) + 2
        parts, have = [self._raw], len(self._raw)
        while have < wanted:
            parts.append(self._more())
            have += len(parts[-1])
        joined = b"".join(parts)
        chunk, self._raw = joined[: wanted - 2], joined[wanted:]
        self.received += chunk
        return chunk

    def _receive(self) -> None:
        self._raw += self._more()

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the connection was closed before its answer ended")
        return data
