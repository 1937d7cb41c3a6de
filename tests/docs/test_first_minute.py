"""The README's first minute: what it says to type is what is printed, and it answers as shown."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.cli.run import command as run_command

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
WRITTEN = "http://127.0.0.1:8484"


class Example(NamedTuple):
    typed: str
    shown: str  # `…` matches any text


def examples() -> list[Example]:
    """Return what follows each `$`; a line belongs to it until its quotes are closed."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.rstrip("\n").split("\n")
            end = 1
            while "\n".join(lines[:end]).count("'") % 2:
                end += 1
            found.append(Example("\n".join(lines[:end]), "\n".join(lines[end:])))
    return found


ASKED = [one for one in examples() if WRITTEN in one.typed]
RUN = [one.typed for one in examples() if one.typed.startswith("dragoman run ")]


class Serving(NamedTuple):
    url: str
    printed: str


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start the gateway as `make run` does, on a free port and far from anybody's settings."""
    folder = tmp_path_factory.mktemp("minute")
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman.cli.main", "serve", "--port", "0"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while " run claude " not in lines[-1] and lines[-1]:
            lines.append(process.stdout.readline())
        yield Serving(lines[0].split()[3].rstrip(","), "".join(lines))
    finally:
        process.kill()
        process.communicate()


def answer(typed: str) -> str:
    """Run a line that calls curl; where there is none, send what it would send."""
    words = shlex.split(typed)
    if shutil.which("curl"):
        return subprocess.run(words, capture_output=True, check=True, timeout=60, text=True).stdout
    [url] = [word for word in words if word.startswith("http")]
    data = words[words.index("-d") + 1].encode()
    with urllib.request.urlopen(url, data, timeout=60) as response:
        return response.read().decode()


def test_make_run_starts_the_gateway() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert re.search(r"^run: .*\n\t@\$\(BIN\)/dragoman serve$", makefile, re.MULTILINE)


def test_each_dialect_has_an_example() -> None:
    paths = [re.search(r"8484(\S+)", one.typed)[1] for one in ASKED]

    assert ["/v1/messages", "/v1/chat/completions", "/v1/responses"] == paths


@pytest.mark.parametrize("example", ASKED, ids=lambda one: one.typed.split()[2])
def test_the_gateway_prints_the_line_and_answers_as_shown(
    example: Example, serving: Serving
) -> None:
    typed = example.typed.replace(WRITTEN, serving.url)
    pattern = ".*".join(map(re.escape, example.shown.split("…")))

    assert typed in serving.printed
    assert re.fullmatch(pattern, answer(typed).rstrip("\n"), re.DOTALL)


def test_the_gateway_prints_how_to_run_an_agent_on_it(serving: Serving) -> None:
    assert f" run claude --gateway {serving.url}\n" in serving.printed


@pytest.mark.parametrize("typed", [*RUN, *re.findall(r"`(dragoman run [^`]+)`", README)])
def test_lines_that_run_an_agent_are_understood(typed: str) -> None:
    words = shlex.split(typed)[2:]

    assert run_command.make_context("run", words).params["name"] in typed


COMMANDS = [
    one.typed for one in examples() if re.search(r"\bdragoman (translate|parse|check)\b", one.typed)
]


@pytest.mark.parametrize("typed", COMMANDS)
def test_lines_that_translate_parse_or_check_work_as_pasted(typed: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        typed,
        shell=True,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (0, b"") == (done.returncode, done.stderr)
    assert done.stdout


def test_first_settings_are_written_as_shown(tmp_path: Path) -> None:
    [typed] = [one.typed for one in examples() if one.typed.startswith("dragoman config init")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        shlex.split(typed), cwd=tmp_path, env={**os.environ, "PATH": path}, check=True, timeout=60
    )

    assert (tmp_path / "dragoman.toml").is_file()
