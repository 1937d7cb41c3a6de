"""Measure the budgets, as ratios within one run.

    python -m tools.bench [--quick] [--only PART]... [--write | --check | --json]

Each figure and its floor are measured in turns, several times, so that other load on the machine affects both
alike; the result is the median of the ratios, printed with their spread.  The exit code is 1 if a budget is
exceeded.  `--write` stores the ratios in tools/bench/ratios.json; `--check` compares them with the stored ones
instead of the budgets, and fails if one is more than 25% worse.  `--json` prints rows as lines of JSON.
"""

import argparse
import sys
import time

import msgspec
from tools.bench.chunks import bench_chunk
from tools.bench.client import bench_client
from tools.bench.gateway import bench_dialects, bench_gateway, bench_recorder, bench_workers
from tools.bench.guard import STORED, check, save_ratios
from tools.bench.measure import Row
from tools.bench.native import bench_native
from tools.bench.requests import bench_request

ROUNDS = 5
BENCHES = {
    "chunk": bench_chunk,
    "native": bench_native,
    "request": bench_request,
    "gateway": bench_gateway,
    "dialects": bench_dialects,
    "recorder": bench_recorder,
    "workers": bench_workers,
    "client": bench_client,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument(
        "--only", choices=BENCHES, action="append", help="one part; may be repeated"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help=f"store the ratios in {STORED.name}")
    what.add_argument("--check", action="store_true", help="compare with the stored ratios")
    what.add_argument("--json", action="store_true", help="print the rows as lines of JSON")
    options = parser.parse_args()
    rounds = 3 if options.quick else ROUNDS
    rows: list[Row] = []
    for name in options.only or BENCHES:
        began = time.monotonic()
        for row in BENCHES[name](rounds):
            rows.append(row)
            if options.json:
                print(msgspec.json.encode(row).decode(), flush=True)
            else:
                print_row(row)
        if not options.json:
            print(f"     {name}: {time.monotonic() - began:.0f} s", flush=True)
    if options.write:
        save_ratios(rows)
        return 0
    if options.check:
        return check(rows)
    return 0 if all(row.holds for row in rows) else 1


def print_row(row: Row) -> None:
    mark = "ok  " if row.holds else "OVER"
    budget = f"budget {row.budget}" if row.budget else ""
    print(
        f"{mark} {row.name:70} {row.value:7.2f}  ({row.spread})  {budget:14} {row.detail}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
