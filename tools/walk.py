"""Count the files that a request and a streamed chunk pass through in the gateway, from Messages to Chat.

    python -m tools.walk

A gateway and a simulator run in this process; the files whose functions run are counted, those of the simulator
excluded.  The first request of a process is not counted: it also fills caches.
"""

import asyncio
import json
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.serve import Running
from dragoman.testing import Simulator

SOURCE = f"{Path(__file__).parent.parent / 'src' / 'dragoman'}/"
# The simulator waits between its chunks, so that each arrives alone.
REQUEST = {
    "model": "sim/sim/plain+pace:20",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "Say some words, one after the other."}],
    "tools": [{"name": "bash", "input_schema": {"type": "object"}}],
}


class Entered(NamedTuple):
    file: str
    function: str


async def send(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(REQUEST).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer


async def traced() -> list[Entered]:
    """Return the functions that the second request enters, in order."""
    entered: list[Entered] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            entered.append(Entered(code.co_filename.removeprefix(SOURCE), code.co_qualname))

    with Simulator() as simulator:
        text = f'[upstreams.sim]\nbase_url = "{simulator.base_url}"\n[log]\nlevel = "error"\n'
        around = ConfigEnvironment(environ={}, folder=Path.cwd())
        settings = make_settings(tomllib.loads(text), around).settings
        async with Running(settings) as running:
            await send(running.port)
            sys.setprofile(note)
            await send(running.port)
            sys.setprofile(None)
    return entered


def files(entered: list[Entered]) -> list[str]:
    return list(dict.fromkeys(one.file for one in entered))


def main() -> None:
    entered = asyncio.run(traced())
    reads = [
        at for at, one in enumerate(entered) if one.function == "Connection.buffer_updated"
    ] or [at for at, one in enumerate(entered) if one.function == "Connection.data_received"]
    request = files(entered[: reads[0]])
    chunks = [files(entered[a:b]) for a, b in pairwise(reads)]
    written = [one for one in chunks if "gateway/client_stream.py" in one]
    middle = sorted(written[len(written) // 4 : -2], key=len)
    chunk = middle[len(middle) // 2]
    print(f"a request, from the client's socket to the upstream's: {len(request)} files")
    print(*request, sep="\n")
    print(f"\na chunk in the middle of a stream, back to the client: {len(chunk)} files")
    print(*chunk, sep="\n")


if __name__ == "__main__":
    main()
