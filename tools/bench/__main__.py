"""Measure the budgets, as ratios within one run.

    python -m tools.bench [--quick] [--only chunk|request|native|gateway|client]

Each figure and its floor are measured alternately, several times, so that other load on the machine affects
both alike.  For the core, the result is the median of the ratios; for the gateway see its module.  The exit
code is 1 if a budget is exceeded.
"""

import argparse
import sys

from tools.bench.chunks import bench_chunk
from tools.bench.client import bench_client
from tools.bench.gateway import bench_gateway
from tools.bench.measure import Row
from tools.bench.native import bench_native
from tools.bench.requests import bench_request

ROUNDS = 9
BENCHES = {
    "chunk": bench_chunk,
    "native": bench_native,
    "request": bench_request,
    "gateway": bench_gateway,
    "client": bench_client,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", choices=BENCHES, help="one part")
    options = parser.parse_args()
    rounds = 3 if options.quick else ROUNDS
    rows: list[Row] = []
    for name, bench in BENCHES.items():
        if options.only not in (None, name):
            continue
        for row in bench(rounds):
            rows.append(row)
            mark = "ok  " if row.holds else "OVER"
            print(
                f"{mark} {row.name:52} {row.ratio:7.2f}   budget {row.budget:18} {row.detail}",
                flush=True,
            )
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
