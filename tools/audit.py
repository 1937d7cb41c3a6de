"""Look for known vulnerabilities in the packages of the lock files, with pip-audit.

    python -m tools.audit

Exit code 1: one was found.  pip-audit asks the package index, or OSV, over the network; where neither answers, the
program prints that nothing was checked and exits with 0, because that says nothing about the packages.
pip-audit is installed outside the tree, from requirements/audit.txt.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.venvs import environment

ROOT: Final = Path(__file__).parent.parent
LOCKS: Final = tuple(ROOT / "requirements" / f"{name}.txt" for name in ("run", "dev", "dist", "fuzz", "audit"))  # fmt: skip
LOCK: Final = ROOT / "requirements" / "audit.txt"
SERVICES: Final = ("pypi", "osv")
_SECONDS: Final = 240  # for one file
_NETWORK_SECONDS: Final = "15"


class Report(NamedTuple):
    """What is known about the packages of one lock file."""

    checked: int  # packages
    unknown: int  # packages about which the service knows nothing
    found: tuple[str, ...]  # a line for each vulnerability


def main() -> int:
    tools = environment("audit", LOCK)
    if tools is None:
        return 1
    for service in SERVICES:
        if reports := _audit(tools / "bin" / "pip-audit", service):
            break
    else:
        print("NOT CHECKED: no data about vulnerabilities could be had here")
        return 0
    found = sorted({one for report in reports.values() for one in report.found})
    for name, report in reports.items():
        print(
            f"{name}: {report.checked} packages checked, {len(report.found)} known vulnerabilities;"
            f" {report.unknown} not checked"
        )
    print("\n".join(found), end="\n" if found else "")
    return len(found) > 0


def _audit(program: Path, service: str) -> dict[str, Report]:
    """Return a report for each lock file; nothing if the service does not answer."""
    reports: dict[str, Report] = {}
    for lock in LOCKS:
        options = ["--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off"]
        options += [f"--vulnerability-service={service}", f"--timeout={_NETWORK_SECONDS}"]
        try:
            ran = subprocess.run(
                [str(program), *options, "--requirement", str(lock)],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {}
        report = read_report(ran.stdout)
        if report is None or not report.checked:
            print(f"{service}: no data about the packages of {lock.name}", flush=True)
            return {}
        reports[lock.name] = report
    return reports


def read_report(output: str) -> Report | None:
    """Return what pip-audit has printed; None: it failed.

    It also prints `No known vulnerabilities found` if it skipped all packages; here these are not checked.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    known = [one for one in packages if "skip_reason" not in one]
    found = [
        f"{one['name']} {one['version']}: {each['id']}, fixed in {', '.join(each['fix_versions']) or 'no version'}"
        for one in known
        for each in one["vulns"]
    ]
    return Report(len(known), len(packages) - len(known), tuple(found))


if __name__ == "__main__":
    sys.exit(main())
