"""Count the bytecode instructions of Python that a response takes, by part of the gateway: they do not depend on other load.

    python -m tools.bench.parts [--client DIALECT] [--upstream DIALECT] [--files] [CASE ...]

The gateway runs in this process and is traced while another one sends requests, one after the other.  Code in C, such as
JSON and the HTTP parser, has no bytecode; `tools.bench.instructions --libraries` shows its share of the machine's instructions.
"""

import argparse
import asyncio
import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from tools.bench.processes import Bench
from tools.bench.traffic import WORKLOADS

from dragoman.dialects import DIALECT_NAMES
from dragoman.event_loop import new_event_loop
from dragoman.gateway.config.settings import Server, Settings, Upstream
from dragoman.gateway.logging import Logger
from dragoman.gateway.serve import Running

_WARMING: Final = 60
_COUNTED: Final = 20
_CASES: Final = ("whole", "dense", "agent")
# The first expression that a file's path matches names its part.
_PARTS: Final = {
    "HTTP with the client": r"aiohttp/|multidict|yarl|gateway/(connections|client_stream|pipe|headers)\.py",
    "HTTP with the upstream": r"transport/",
    "reading the request": r"dialects/\w+/(request|history|tools)_reader\.py|dialects/decoding\.py|wire/json",
    "limits, history, tools, estimate": r"translate_requests\.py|turn/(history|tools|estimate|request|repeats)\.py|dragoman/context\.py",
    "writing it for the upstream": r"dialects/(\w+/(request|history|tools)_writer|\w+_policy|encoding|server_tools)\.py|overrides\.py",
    "reading the answer": r"dialects/(\w+/(answer|block)_reader|framing|text_runs)\.py|wire/|turn/(assembler|arguments|block_builder)\.py",
    "stages, remembered reasoning": r"toolcalls/|turn/stages\.py|reasoning_memory\.py",
    "fold": r"turn/answer\.py",
    "writing the answer": r"dialects/\w+/(answer|body)_writer\.py|dialects/identity\.py|ids\.py|envelopes\.py|turn/(state|events)\.py",
    "setting up the translation": r"translate\.py|passthrough\.py|exchange_setup\.py|profiles/|dialects/",
    "log line": r"gateway/logging\.py|redaction\.py",
    "metrics": r"gateway/metrics\.py",
    "keys, routing, admission": r"gateway/(keys|routing|admission|origins|target_order|accept|app|endpoints|capacity)\.py|state/",
    "attempts, retries, deadlines": r"gateway/",
    "Python's own library": r"lib/python",
    "other": r"",
}  # fmt: skip
_SHORT: Final = re.compile(r".*/(?:src/dragoman|site-packages|python3\.\d+)/")


class _Counts:
    """Instructions and calls of each function while it is the trace function."""

    def __init__(self) -> None:
        self.instructions: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, _event: str, _arg: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.calls[frame.f_code] += 1
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "opcode":
            self.instructions[frame.f_code] += 1
        return self._step


def part_of(path: str) -> str:
    """Return the part to which a file belongs."""
    return next(part for part, pattern in _PARTS.items() if re.search(pattern, path))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", default=_CASES, help=str([*WORKLOADS]))
    parser.add_argument("--client", choices=DIALECT_NAMES, default="anthropic")
    parser.add_argument("--upstream", choices=DIALECT_NAMES, default="chat")
    parser.add_argument("--files", action="store_true", help="also print each file's")
    options = parser.parse_args()
    counted = {}
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=1, apart=False)
        with bench.upstream(), asyncio.Runner(loop_factory=new_event_loop) as runner:
            for case in options.cases:
                one = _count(case, options.client, options.upstream, bench.address)
                counted[case] = runner.run(one)
    print("\n".join(_table(counted)))
    if options.files:
        print("\n".join(_files(counted)))
    return 0


async def _count(case: str, client: str, upstream: str, address: str) -> _Counts:
    settings = Settings(
        server=Server(port=0), upstreams={"bench": Upstream(base_url=address, dialect=upstream)}
    )
    counts = _Counts()
    async with Running(settings, logger=Logger(io.StringIO(), json=True)) as running:
        await _load(running.port, case, client, _WARMING)
        sys.settrace(counts)
        try:
            await _load(running.port, case, client, _COUNTED)
        finally:
            sys.settrace(None)
    return counts


async def _load(port: int, case: str, client: str, times: int) -> None:
    """Send requests from another process."""
    code = f"from tools.bench.instructions import ask; ask({port}, {case!r}, {client!r}, {times})"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    if await process.wait():
        raise RuntimeError("the requests failed")


def _table(counted: dict[str, _Counts]) -> Iterator[str]:
    yield f"| Part | {' | '.join(counted)} |"
    yield f"|---|{'--:|' * len(counted)}"
    parts = {
        case: _summed({code: part_of(code.co_filename) for code in counts.calls}, counts)
        for case, counts in counted.items()
    }
    for part in _PARTS:
        cells = [f"{one[part]:,.0f} ({one[part] / one.total():.0%})" for one in parts.values()]
        yield f"| {part} | {' | '.join(cells)} |"
    yield f"| **all** | {' | '.join(f'**{one.total():,.0f}**' for one in parts.values())} |"
    calls = [f"{one.calls.total() / _COUNTED:,.0f}" for one in counted.values()]
    yield f"| calls of Python functions | {' | '.join(calls)} |"


def _summed(names: dict[CodeType, str], counts: _Counts) -> "Counter[str]":
    summed: Counter[str] = Counter()
    for code, count in counts.instructions.items():
        summed[names[code]] += count  # whole numbers, until all are added
    return Counter({name: count // _COUNTED for name, count in summed.items()})


def _files(counted: dict[str, _Counts]) -> Iterator[str]:
    for case, counts in counted.items():
        names = {code: _file_of(code.co_filename) for code in counts.calls}
        yield f"\n{case}"
        for name, count in _summed(names, counts).most_common():
            yield f"{count:8,}  {name}"


def _file_of(path: str) -> str:
    return f"{part_of(path)}: {_SHORT.sub('', path)}"


if __name__ == "__main__":
    sys.exit(main())
