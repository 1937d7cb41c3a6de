"""Fuzz everything that reads bytes of a peer, guided by coverage.

    python -m tools.fuzz [--seconds N] [TARGET]...    all targets, N seconds in all (60)
    python -m tools.fuzz --runs N [TARGET]...         N inputs a target, the same ones each time, for CI
    python -m tools.fuzz --again FILE                 run one found input again

tools/fuzz/targets.py describes the targets.  Inputs that reach new code are kept under `$DRAGOMAN_CACHE/fuzz`, or
`~/.cache/dragoman/fuzz`, and are used again.  atheris is installed there too, from requirements/fuzz.txt.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools.fuzz.judge import judge, judge_growth
from tools.fuzz.targets import TARGETS, Choice
from tools.venvs import cache, environment

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements" / "fuzz.txt"
_MOST_SEEDS: Final = 2_000
_LONGEST: Final = 300  # seconds of a number of inputs
_STARTING: Final = 300  # seconds that a target may need besides, on a busy machine: imports, seeds
_LIMITS: Final = ("-timeout=300", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    if options.again:
        target, given = TARGETS[options.again.parent.name], options.again.read_bytes()
        judge(target, given)
        judge_growth(target, Choice.of(given))
        print("it passes")
        return 0
    tools = environment("fuzz", LOCK)
    if tools is None:
        return 1
    names = options.targets or list(TARGETS)
    cores = os.cpu_count() or 1
    each = max(1, options.seconds * min(cores, len(names)) // len(names))
    amount = f"{options.runs} inputs" if options.runs else f"{each} s"
    print(f"{len(names)} targets, {amount} each, {cores} at a time", flush=True)
    with ThreadPoolExecutor(cores) as pool:
        failed = sum(pool.map(lambda name: _fuzz(tools, name, each, options.runs), names))
    print(f"{len(names) - failed} passed, {failed} failed")
    return failed > 0


def _fuzz(tools: Path, name: str, seconds: int, runs: int) -> bool:
    """Fuzz one target; return whether an input was found that fails."""
    base = cache() / "fuzz" / "inputs"
    kept, seeds, found = base / "kept" / name, base / "seeds" / name, base / "found" / name
    if runs:  # from the same inputs, with the same chance
        seconds = _LONGEST
        kept = base / "unkept" / name
        for folder in (kept, seeds):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in (kept, seeds, found):
        folder.mkdir(parents=True, exist_ok=True)
    for data in list(TARGETS[name].seeds())[:_MOST_SEEDS]:
        (seeds / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    command = [str(tools / "bin" / "python"), "-m", "tools.fuzz.worker", name, *_LIMITS]
    command += ["-seed=1", f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
    command += [f"-artifact_prefix={found}/", str(kept), str(seeds)]
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    before = set(found.iterdir())
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + _STARTING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{name}: did not end", flush=True)
        return True
    runs = re.search(r"number_of_executed_units: (\d+)", ended.stderr)
    reached = re.findall(r"cov: (\d+)", ended.stderr)
    print(
        f"{name}: {runs[1] if runs else 0} inputs, {reached[-1] if reached else 0} branches",
        flush=True,
    )
    if ended.returncode == 0:
        return False
    print(ended.stdout[-4_000:] + ended.stderr[-2_000:])
    for file in sorted(set(found.iterdir()) - before):
        print(f"run it again: python -m tools.fuzz --again {file}")
    return True


if __name__ == "__main__":
    sys.exit(main())
