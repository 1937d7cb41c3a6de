"""A server of prebuilt streams in the dialects with one path, for clients to read.

    python -m tools.bench.streams

Prints its address, and serves until it is terminated.  The request's model selects the mode: `dense` writes all
at once, `paced` one event at a time, `held` begins and then waits until the client disconnects.  Each event is a
separate HTTP chunk, as from servers that do not know the length of the answer in advance.
"""

import asyncio
import re
from contextlib import suppress
from typing import Final

from tools.bench.traffic import FIXED_PATHS

from dragoman.dialects import dialect
from dragoman.exchange_setup import make_exchange
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Finish,
    FinishReason,
    Start,
    TextDelta,
    Usage,
)

EVENTS: Final = {"dense": 4000, "paced": 300}  # text deltas of a stream
_PACE: Final = 0.001  # seconds between two of them
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def stream_of(name: str, deltas: int) -> list[bytes]:
    """Return the chunks of a stream."""
    writer = dialect(name).writer(make_exchange(seed="bench"))
    words = ("The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ".\n")
    events: list[Event] = [
        Start("model", "id", 1),
        BlockStart(0, BlockKind.TEXT),
        *(TextDelta(0, words[at % len(words)]) for at in range(deltas)),
        BlockEnd(0),
        Usage(input_tokens=10, output_tokens=deltas, final=True),
        Finish(FinishReason.STOP),
    ]
    written = [data for data in map(writer.send, events) if data]
    return [b"%x\r\n%b\r\n" % (len(data), data) for data in (*written, b"")]


_PATHS: Final = {dialect(name).path.encode(): name for name in FIXED_PATHS}
_DENSE: Final = {name: b"".join(stream_of(name, EVENTS["dense"])) for name in FIXED_PATHS}
_PACED: Final = {name: stream_of(name, EVENTS["paced"]) for name in FIXED_PATHS}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            name = next(name for path, name in _PATHS.items() if path + b" " in head[:80])
            writer.write(_HEAD)
            if b'"dense"' in body:
                writer.write(_DENSE[name])
                await writer.drain()
                continue
            writes = _PACED[name]
            if b'"held"' in body:
                writer.write(b"".join(writes[:20]))
                await reader.read()
                break
            for data in writes:
                writer.write(data)
                await asyncio.sleep(_PACE)
    writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1000)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main())
