"""`dragoman probe` in front of people: it warns, asks, and shows how far it is."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from tests.support.gateway import stand


def on_a_terminal(*arguments: str, answer: bytes, folder: str) -> tuple[int, str]:
    """Run the command on its own terminal; return its exit code and all that was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman.cli.main", "probe", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "XDG_CONFIG_HOME": folder, "COLUMNS": "160"},
    )
    os.close(theirs)
    guard = threading.Timer(60, process.kill)
    guard.start()
    shown = b""
    try:
        while piece := _read(ours):
            shown += piece
            if answer and b"Continue?" in shown:
                os.write(ours, answer)
                answer = b""
        return process.wait(60), shown.decode()
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 2)], ids=["yes", "no"])
def test_it_prints_what_it_may_cost_before_it_starts(tmp_path, answer, code):
    with stand() as found:
        place = (f"{found.simulator.url}/v1", "--model", "sim/plain", "--only", "stop,images")
        before = len(found.simulator.exchanges)
        got, shown = on_a_terminal(*place, answer=answer, folder=str(tmp_path))
        asked = len(found.simulator.exchanges) - before

    assert code == got, shown
    assert "output tokens in total" in shown.partition("Continue?")[0]
    assert bool(asked) == (code == 0)
    if code == 0:
        assert re.search(r"[0-3]/3\b", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))  # the bar
        assert "images" in shown
    else:
        assert "no request was sent" in shown
