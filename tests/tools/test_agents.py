"""Installing the agents: what happens where Node is missing, or the network fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PINS = ROOT / "tests" / "agents" / "node" / "package.json"
PACKAGES = json.loads(PINS.read_text("utf-8"))["dependencies"]
INSTALL = "import sys; from tools.agents import install; sys.exit(install() is None)"

# In the place of npm: it fails as often as a file says, and else puts every package where it belongs.
NPM = f"""#!{sys.executable}
import json, pathlib, sys
count = pathlib.Path(__file__).with_name("failures")
left = int(count.read_text())
count.write_text(str(left - 1))
if left > 0:
    sys.exit("network: connection reset")
for name, version in json.loads(pathlib.Path("package.json").read_text())["dependencies"].items():
    folder = pathlib.Path("node_modules", name)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({{"version": version}}))
"""


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def add(folder: Path, name: str, text: str) -> None:
    program = folder / name
    program.write_text(text, "utf-8")
    program.chmod(0o755)


def run(bin_folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={"PATH": str(bin_folder), "DRAGOMAN_CACHE": str(bin_folder.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_without_node_it_prints_what_was_skipped_and_is_content(bin_folder: Path) -> None:
    ran = run(bin_folder, "-m", "tools.agents")

    assert 0 == ran.returncode
    assert "skipped: there is no `node` on PATH" in ran.stdout
    assert [] == [name for name in PACKAGES if name not in ran.stdout]


def test_an_old_node_is_named(bin_folder: Path) -> None:
    add(bin_folder, "node", "#!/bin/sh\necho v18.20.1\n")
    add(bin_folder, "npm", NPM)

    ran = run(bin_folder, "-m", "tools.agents")

    assert 0 == ran.returncode
    assert "skipped: Node is v18.20.1, 20 or newer is needed" in ran.stdout


@pytest.mark.parametrize(("failures", "code"), [(0, 0), (1, 0), (2, 1)])
def test_an_install_that_fails_is_tried_once_more(
    bin_folder: Path, failures: int, code: int
) -> None:
    add(bin_folder, "npm", NPM)
    (bin_folder / "failures").write_text(str(failures), "utf-8")

    ran = run(bin_folder, "-c", INSTALL)

    assert code == ran.returncode, ran.stderr
    assert (failures > 0) == ("retrying" in ran.stdout)
    assert (failures > 1) == ("connection reset" in ran.stdout)


def test_what_is_installed_is_not_installed_again(bin_folder: Path) -> None:
    add(bin_folder, "npm", NPM)
    (bin_folder / "failures").write_text("0", "utf-8")

    codes = [run(bin_folder, "-c", INSTALL).returncode for _ in range(2)]

    assert [0, 0] == codes
    assert "-1" == (bin_folder / "failures").read_text("utf-8")
