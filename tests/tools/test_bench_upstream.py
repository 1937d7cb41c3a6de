"""The upstream of the benchmarks serves every window alike, whatever a gateway did with the streams of the last one."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tools.bench.traffic import request_bytes

_STREAMS = 2


@pytest.fixture
def port() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "tools.bench.upstream"], stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            yield int(child.stdout.readline().rpartition(b":")[2])
        finally:
            child.terminate()


def opened(port: int, window: int) -> list[socket.socket]:
    """Return the streams of one window, of which the head has come."""
    request = request_bytes(f"paced-{_STREAMS}-1000-{window}", port)
    streams = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(_STREAMS)]
    for stream in streams:
        stream.sendall(request)
    return streams


def read_until(stream: socket.socket, sign: bytes) -> bytes:
    """Return what was read until it contains `sign`, or until the end of the stream."""
    data = b""
    while sign not in data and (more := stream.recv(65536)):
        data += more
    return data


def test_streams_that_a_gateway_left_open_end_with_the_next_window(port: int) -> None:
    left = opened(port, 1)
    begun = [read_until(stream, b"@") for stream in left]
    fresh = opened(port, 2)
    paced = [read_until(stream, b"@") for stream in fresh]

    assert all(b"HTTP/1.1 200" in data and b"@" in data for data in begun + paced)
    for stream in left:
        assert b"never" not in read_until(stream, b"never")  # it ends
    for stream in left + fresh:
        stream.close()
