"""What `make audit` makes of pip-audit's output."""

import json

from tools.audit import LOCKS, ROOT, Report, read_report

KNOWN = {"name": "click", "version": "8.5.1", "vulns": []}
SKIPPED = {"name": "idna", "skip_reason": "Dependency not found"}
BAD = {
    "name": "rich",
    "version": "13.0",
    "vulns": [{"id": "X-1", "fix_versions": ["13.1"]}, {"id": "X-2", "fix_versions": []}],
}


def printed(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_packages_that_were_skipped_do_not_count_as_checked() -> None:
    assert Report(0, 2, ()) == read_report(printed(SKIPPED, SKIPPED))
    assert Report(1, 1, ()) == read_report(printed(KNOWN, SKIPPED))


def test_every_vulnerability_is_a_line_with_the_version_that_fixes_it() -> None:
    report = read_report(printed(KNOWN, BAD))

    assert report is not None
    assert ("rich 13.0: X-1, fixed in 13.1", "rich 13.0: X-2, fixed in no version") == report.found


def test_failure_of_pip_audit_is_no_report() -> None:
    assert read_report("") is None
    assert read_report("[]") is None


def test_every_lock_file_is_audited() -> None:
    assert sorted((ROOT / "requirements").glob("*.txt")) == sorted(LOCKS)
