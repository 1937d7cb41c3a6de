"""Every code block of every page runs, or at least is read by the program that it is for.

`python` blocks run in test_readme.py, and the README's `console` blocks also in test_first_minute.py.
"""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main as dragoman
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.settings import Settings
from dragoman.simulator.script import load_script
from dragoman.testing import Simulator
from tests.docs.test_links import PAGES, ROOT

SHELL = {"sh", "console"}
# Languages whose blocks are checked elsewhere, or not at all, each with the reason.
CHECKED_ELSEWHERE = {
    "python": "test_readme.py runs them",
    "yaml": "test_agents.py compares it with the settings of the gateway; the package has no YAML reader",
    "mermaid": "a drawing",
    "text": "output of a program",
    "": "a drawing",
}
# TOML that is not for Dragoman.
FOREIGN_TOML = ("model_providers", "mcp_servers", "project")


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks(*languages: str) -> list[Block]:
    found = [
        Block(str(page.relative_to(ROOT)), match[1], match[2])
        for page in PAGES
        for match in re.finditer(
            r"^ *```(\S*)\n(.*?)^ *```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
    ]
    return [one for one in found if one.language in languages] if languages else found


def named(found: list[Block]) -> list[object]:
    return [pytest.param(one, id=f"{one.page} {at}") for at, one in enumerate(found)]


def test_every_language_is_checked() -> None:
    languages = {one.language for one in blocks()}

    assert languages <= {*CHECKED_ELSEWHERE, *SHELL, "json", "toml", "py", "js"}


# --- data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", named(blocks("json")))
def test_json_can_be_read(block: Block) -> None:
    assert isinstance(json.loads(block.text), dict)


@pytest.mark.parametrize("block", named(blocks("toml")))
def test_toml_is_read_without_a_warning(block: Block, tmp_path: Path) -> None:
    data = tomllib.loads(block.text)
    if any(name in data for name in FOREIGN_TOML):
        return
    if "replies" in data:
        (tmp_path / "recorded.sse").write_text("data: {}\n\n")
        (tmp_path / "script.toml").write_text(block.text)
        load_script(tmp_path / "script.toml")
        return
    environ = {name: f"value of {name}" for name in re.findall(r"env:(\w+)", block.text)}
    loaded = make_settings(data, ConfigEnvironment(environ=environ, folder=ROOT))

    assert () == loaded.warnings
    assert {*data} <= {*Settings.__struct_fields__}


@pytest.mark.parametrize("block", named(blocks("py")))
def test_programs_for_other_packages_are_python(block: Block) -> None:
    # tests/frameworks runs them, if their packages are installed.
    assert compile(block.text, block.page, "exec")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
@pytest.mark.parametrize("block", named(blocks("js")))
def test_programs_for_node_are_javascript(block: Block, tmp_path: Path) -> None:
    # tests/agents runs such programs, if their packages are installed.
    (tmp_path / "program.mjs").write_text(block.text)

    subprocess.run(["node", "--check", "program.mjs"], cwd=tmp_path, check=True, timeout=60)


# --- commands -----------------------------------------------------------------------------------------

# Commands that are not run here, each with the reason.
NOT_RUN = {
    "make run": "is `dragoman serve`; test_first_minute.py starts it",
    "dragoman serve": "serves until it is stopped; test_first_minute.py starts it",
    "dragoman simulate": "serves until it is stopped; test_readme.py starts it",
    "dragoman run": "starts an agent; tests/cli/test_run.py does it with a stand-in",
    "dragoman probe": "sends dozens of requests; tests/probe does it",
    "dragoman mcp": "serves until it is stopped; tests/mcp_server starts it",
    "dragoman formats check": "test_native_formats.py runs it",
    "dragoman translate": "test_first_minute.py runs it",
    "dragoman check": "test_first_minute.py runs it",
    "echo": "test_first_minute.py runs it",
    "curl -sN http://127.0.0.1:8484/": "test_first_minute.py sends it to the gateway",
    "curl -s http://127.0.0.1:8484/": "test_first_minute.py sends it to the gateway",
    "pip install": "needs a package registry",
    "claude": "an agent that is not installed here",
}
# ... although they are of a kind that is not run.
RUN = ("dragoman simulate --list",)
# The file that `config import` reads; JSON is YAML too, and needs no package.
IMPORTED = '{"model_list": [{"model_name": "m", "litellm_params": {"model": "openrouter/m"}}]}'


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a block; one continues on the next line while a quote is open."""
    console = re.search(r"^\$ ", text, re.MULTILINE) is not None
    lines = iter(text.splitlines())
    for line in lines:
        if console and not line.startswith("$ "):
            continue  # output
        command = line.removeprefix("$ ")
        while command.count("'") % 2:
            command += "\n" + next(lines)
        if command.strip() and not command.startswith("#"):
            yield command


COMMANDS = [
    pytest.param(command, id=f"{block.page} {command.split(chr(10))[0][:60]}")
    for block in blocks(*SHELL)
    for command in commands(block.text)
]


def is_run(command: str) -> bool:
    return command.startswith(RUN) or not command.startswith(tuple(NOT_RUN))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_commands_are_shell() -> None:
    program = "\n".join(str(one.values[0]) for one in COMMANDS)
    done = subprocess.run(
        ["bash", "-n"], input=program, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_commands_exist(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("dragoman.toml", "replies.toml"):
        (tmp_path / name).touch()
    for part in re.split(r" \| ", command):
        words = shlex.split(part.partition(" <")[0], comments=True)
        if words[0] == "claude" and "--" in words:
            words = words[words.index("--") + 1 :]  # the command that the agent is to run
        if words[0] == "dragoman":
            accept(words[1:])


def accept(words: list[str]) -> None:
    """Parse a command's arguments without running it."""
    group: click.Command = dragoman
    context = click.Context(dragoman)
    while isinstance(group, click.Group):
        _, group, words = group.resolve_command(context, words)
    group.make_context(group.name, words, parent=context)


def test_no_reason_is_out_of_date() -> None:
    every = [str(one.values[0]) for one in COMMANDS]

    assert [] == [start for start in NOT_RUN if not any(one.startswith(start) for one in every)]


@pytest.mark.parametrize(
    "block", named([one for one in blocks(*SHELL) if any(map(is_run, commands(one.text)))])
)
def test_commands_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENROUTER_API_KEY", "any")
    (tmp_path / "litellm.yaml").write_text(IMPORTED)
    for command in filter(is_run, commands(block.text)):
        run(command)


def run(command: str) -> None:
    words = shlex.split(command, comments=True)
    if words[0] == "dragoman":
        done = CliRunner().invoke(dragoman, words[1:], input="", catch_exceptions=False)

        assert 0 == done.exit_code, done.output
    elif words[0] == "curl":
        with Simulator() as simulator:
            host = simulator.url.removeprefix("http://")
            there = [re.sub(r"localhost:8485|127\.0\.0\.1:8485", host, word) for word in words]
            if shutil.which("curl") is None:
                pytest.skip("there is no curl")
            out = subprocess.run(there, capture_output=True, check=True, timeout=60).stdout

        assert "error" not in msgspec.json.decode(out)
    else:
        assert "export" == words[0], command
        assert all(re.fullmatch(r"\w+=\S+", word) for word in words[1:])
