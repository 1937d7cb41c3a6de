"""Count the instructions that the gateway, or the relay, executes for each response: they do not depend on other load.

    python -m tools.bench.instructions [--relay] [--record] [--client DIALECT ...] [--upstream DIALECT] [CASE ...]

Needs valgrind.  One connection sends requests one after the other: some that are not counted, and then those that are.
`--libraries` also prints the share of each library: `_core` is msgspec, so JSON; the interpreter is `libpython` or `python`.
`--record` records every exchange, and also counts the process that writes recordings.
`--profiles` names a folder for callgrind's profiles of each case, for `callgrind_annotate`.
"""

import argparse
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tools.bench.processes import Bench, Cores, children, cpu_seconds, serving
from tools.bench.traffic import WORKLOADS, request_bytes

from dragoman.dialects import DIALECT_NAMES, dialect

_WARMING: Final = 60
_COUNTED: Final = 100
_CASES: Final = ("whole", "dense", "agent")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SUMMARY: Final = re.compile(r"^summary: (\d+)", re.MULTILINE)
_LIBRARY: Final = re.compile(
    r"(?:(?P<own>ob)|cob)=\((?P<number>\d+)\)(?: (?:.*/)?(?P<name>[^./]+).*)?"
)
_COST: Final = frozenset("0123456789+-*")  # begins a line with a cost
_MOST_LIBRARIES: Final = 8
_SECONDS: Final = 300.0  # for a response: a process under valgrind is slow
_IDLE_SECONDS: Final = 1.0  # after which a process has no work left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", default=_CASES, help=str([*WORKLOADS]))
    parser.add_argument("--relay", action="store_true", help="count the byte relay's instead")
    parser.add_argument("--client", nargs="+", choices=DIALECT_NAMES, default=["anthropic"])
    parser.add_argument("--upstream", choices=DIALECT_NAMES, default="chat")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--profiles", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as text:
        folder = Path(text)
        bench = Bench(folder, rounds=1)
        with bench.upstream():
            program = ["dragoman.cli.main", "serve", "--port", "0", "--upstream", bench.address]
            program += ["--upstream-dialect", options.upstream]
            program += ["--record", str(folder / "recordings")] if options.record else []
            if options.relay:
                program = ["tools.bench.relay", bench.address + dialect(options.upstream).path]
            arguments = ["--tool=callgrind", f"--callgrind-out-file={folder}/out.%p"]
            arguments += ["--trace-children=yes"] if options.record else []
            arguments += [sys.executable, "-m", *program]
            log = folder / "valgrind.log"
            cores = Cores(apart=False)
            with serving(arguments, log, cores, measured=True, python="valgrind") as server:
                processes = {"": server.process}
                if options.record:
                    (processes["writer-"],) = children(server.process)
                for client in options.client:
                    for case in options.cases:
                        ask(server.port, case, client, _WARMING)
                        _control_all("--zero", processes)
                        ask(server.port, case, client, _COUNTED)
                        _control_all("--dump", processes)
                        for prefix, process in processes.items():
                            name = f"{prefix}{case}-{options.upstream}-{client}"
                            _print(name, _dumped(folder, process), options)
    return 0


def _print(name: str, dumped: Path, options: argparse.Namespace) -> None:
    profile = dumped.read_text()
    total = sum(map(int, _SUMMARY.findall(profile)))
    print(f"{name}: {total / _COUNTED:,.0f}", flush=True)
    if options.libraries:
        print_libraries(profile)
    if options.profiles is not None:
        shutil.copy(dumped, options.profiles / name)


def _dumped(folder: Path, process: int) -> Path:
    """Return the last profile of a process."""
    return max(folder.glob(f"out.{process}.*"), key=lambda one: one.stat().st_mtime_ns)


def print_libraries(profile: str) -> None:
    """Print how many instructions of a response each library executes."""
    counts = library_counts(profile)
    for name, count in counts.most_common(_MOST_LIBRARIES):
        print(f"    {name}: {count / _COUNTED:,.0f} ({count / counts.total():.0%})", flush=True)


def library_counts(profile: str) -> "Counter[str]":
    """Return the instructions of each library in a profile of callgrind."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    library, is_call = "", False
    for line in profile.splitlines():
        found = _LIBRARY.match(line)
        if found is not None:  # the name follows the first time alone
            number = found["number"]
            names[number] = found["name"] or names[number]
            library = names[number] if found["own"] else library
        elif line[:1] in _COST:
            counts[library] += 0 if is_call else int(line.split()[-1])
        is_call = line.startswith("calls=")  # the next line is what the called function took
    return counts


def _control_all(what: str, processes: dict[str, int]) -> None:
    """Do something with the counts of all processes, when they have no work left."""
    for process in processes.values():
        used = -1.0
        while used != (used := cpu_seconds(process)):
            time.sleep(_IDLE_SECONDS)
        subprocess.run(["callgrind_control", what, str(process)], check=True, capture_output=True)


def ask(port: int, case: str, client: str, times: int) -> None:
    """Send requests one after the other, and read each response to its end."""
    request = request_bytes(case, port, client)
    with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as link:
        for _ in range(times):
            link.sendall(request)
            data = b""
            while not _is_whole(data):
                more = link.recv(1 << 20)
                if not more:
                    raise RuntimeError(f"the response broke off: {data[:500]!r}")
                data += more
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"not a good response: {data[:500]!r}")


def _is_whole(data: bytes) -> bool:
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return False
    length = _LENGTH.search(data, 0, head + 2)
    return len(data) >= head + 4 + int(length[1]) if length else data.endswith(b"0\r\n\r\n")


if __name__ == "__main__":
    sys.exit(main())
