"""`dragoman inspect`: the page over a folder, on loopback."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main

SAMPLE = Path(__file__).parents[1] / "recorder/recording.dragoman"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "one.dragoman").write_bytes(SAMPLE.read_bytes())
    command = [sys.executable, "-m", "dragoman.cli.main", "inspect", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()
            assert process.wait(20) == 0


def test_the_page_over_a_folder(url: str) -> None:
    page = httpx2.get(url, follow_redirects=True)
    assert page.headers["content-type"].startswith("text/html")
    (row,) = httpx2.get(f"{url}/inspector/api/exchanges").json()["rows"]
    shown = httpx2.get(f"{url}/inspector/api/exchanges/{row['id']}").json()
    assert shown["upstream"]["rows"]
    assert httpx2.get(f"{url}/elsewhere").status_code == 404
    refused = httpx2.get(f"{url}/inspector/api/exchanges", headers={"host": "evil.example"})
    assert refused.status_code == 403


def test_a_folder_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "there is no folder" in result.output
