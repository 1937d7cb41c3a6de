"""`dragoman case`: a recording as a test."""

import subprocess
import sys
from pathlib import Path

from dragoman.recorder.recording import read_recording
from tests.support.commands import run
from tests.support.corpus import Case, drive
from tests.support.recordings import RECORDING


def test_the_pytest_file_passes_until_a_byte_differs(tmp_path: Path) -> None:
    ran = run("case", "--pytest", "--out", str(tmp_path), "--name", "it", str(RECORDING))
    assert (0, 2) == (ran.code, len(ran.out.splitlines()))
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    passed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert passed.returncode == 0, passed.stdout
    copy = tmp_path / "it.dragoman"
    data = copy.read_bytes()
    at = data.index(b"I wi", data.index(b'"line":"read"'))
    copy.write_bytes(data[:at] + b"#" + data[at + 1 :])
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert failed.returncode == 1
    assert b"and is now" in failed.stdout


def test_the_corpus_case_is_one_of_ours(tmp_path: Path) -> None:
    source = read_recording(RECORDING).attempts[0].reply
    assert source is not None
    assert source.translation is not None
    folder = tmp_path / source.translation.source
    assert run("case", "--out", str(folder), "--name", "it", str(RECORDING)).code == 0
    case = Case(folder / "it")
    assert case.title.startswith("# NEW: ")
    from dragoman.turn.answer import merged

    assert case.events == merged(drive(case.reader(), [case.stream]))
    assert case.events


def test_a_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    assert run("case", "--out", str(tmp_path), "--name", "../x", str(RECORDING)).code == 2
