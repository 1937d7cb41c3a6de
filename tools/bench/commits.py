"""Measure the gateway of this tree beside that of another commit.

    python -m tools.bench.commits COMMIT [--rounds N]

Both run with the dependencies of this environment and are loaded in turns; a row is the median of this tree's rate
over the other's, so more than 1 is faster.
"""

import argparse
import io
import shlex
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tools.bench.__main__ import print_row
from tools.bench.gateway import PACES, cpu_of, cpu_ratios, in_turns, rate_of, ratios
from tools.bench.measure import Row
from tools.bench.processes import Bench
from tools.bench.traffic import WORKLOADS, paced

_ROOT: Final = Path(__file__).parents[2]
_PACE: Final = PACES[1]
_ROUNDS: Final = 7


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as text:
        folder = Path(text)
        try:
            other = interpreter_of(options.commit, folder)
        except subprocess.CalledProcessError as error:
            print(f"git cannot read {options.commit}: {error.stderr.decode().strip()}")
            return 2
        bench = Bench(folder, rounds=options.rounds)
        with bench.upstream(), bench.gateway() as new, bench.gateway(python=other) as old:
            for case in (*WORKLOADS, paced(*_PACE)):
                befores, afters = in_turns(bench, (old, new), case)
                is_paced = case not in WORKLOADS
                # The rate of paced streams is that of the upstream.
                values = cpu_ratios(befores, afters) if is_paced else ratios(afters, befores)
                rates = f"{rate_of(afters):.0f}/s, before {rate_of(befores):.0f}/s"
                cpu = f"{cpu_of(afters):.0f} µs, before {cpu_of(befores):.0f} µs"
                name = f"{case}, by CPU time" if is_paced else case
                print_row(Row(name=name, values=values, better="higher", detail=f"{rates}; {cpu}"))
    return 0


def interpreter_of(commit: str, folder: Path) -> str:
    """Return a program that runs Python with the package as it was in a commit."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=_ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    program = folder / "python"
    source, python = shlex.quote(str(folder / "src")), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {python} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return str(program)


if __name__ == "__main__":
    sys.exit(main())
