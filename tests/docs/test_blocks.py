"""Every code block of every page runs, or at least is read by the program that it is for.

`python` blocks run in test_readme.py; pasted.py runs commands, with the simulator as every upstream.
"""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from dragoman.cli.main import COMMANDS
from dragoman.cli.main import main as dragoman
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.settings import Settings
from dragoman.simulator.script import load_script
from tests.docs.conftest import Serving
from tests.docs.pasted import Example, Stage, examples
from tests.docs.test_links import PAGES, ROOT

SHELL = {"sh", "console"}
# Languages whose blocks are checked elsewhere, or not at all, each with the reason.
CHECKED_ELSEWHERE = {
    "python": "test_readme.py runs them",
    "yaml": "test_agents.py compares it with the settings of the gateway; PyYAML is an extra",
    "zsh": "test_completion.py compares it with bash's line",
    "fish": "test_completion.py compares it with bash's line",
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
    environ |= {"STATE_URL": "redis://127.0.0.1:6379/0"} if "STATE_URL" in environ else {}
    loaded = make_settings(data, ConfigEnvironment(environ=environ, folder=ROOT))

    assert () == loaded.warnings
    assert {*data} <= {*Settings.__struct_fields__}


@pytest.mark.parametrize("block", named(blocks("py")))
def test_programs_for_other_packages_are_python(block: Block) -> None:
    # tests/frameworks runs them, if their packages are installed.
    assert compile(block.text, block.page, "exec")


def is_installed(block: Block) -> bool:
    package = re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE)[0]
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize("block", named([one for one in blocks("py") if is_installed(one)]))
def test_programs_for_the_vendors_packages_get_an_answer(block: Block, serving: Serving) -> None:
    text = block.text.replace("http://127.0.0.1:8484", serving.url)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )

    assert "Hello" in done.stdout  # the simulator repeats what it was asked


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
@pytest.mark.parametrize("block", named(blocks("js")))
def test_programs_for_node_are_javascript(block: Block, tmp_path: Path) -> None:
    # tests/agents runs such programs, if their packages are installed.
    (tmp_path / "program.mjs").write_text(block.text)

    subprocess.run(["node", "--check", "program.mjs"], cwd=tmp_path, check=True, timeout=60)


# --- commands -----------------------------------------------------------------------------------------

# Commands that are not run here, each with the reason.
NOT_RUN = {
    "dragoman config check --live": "asks the upstreams of the example, which are on the network",
    "dragoman doctor": "looks at this machine, and asks upstreams on the network",
    "make run": "installs into .venv; test_first_minute.py starts what it starts",
    "uvx --from": "needs uv and a package registry",
    "pipx install": "needs pipx and a package registry",
    "pip install": "needs a package registry",
    "make dist": "needs a package registry; CI runs it",
    "dragoman formats check": "test_native_formats.py runs it",
    "claude": "an agent that is not installed here",
}


def is_run(one: Example) -> bool:
    return not one.typed.startswith(tuple(NOT_RUN))


EXAMPLES = [
    (block, list(found)) for block in blocks(*SHELL) if (found := list(examples(block.text)))
]
EVERY = [(block.page, one) for block, found in EXAMPLES for one in found]


def test_commands_are_shell() -> None:
    program = "\n".join(one.typed for _, one in EVERY)
    done = subprocess.run(
        ["bash", "-n"], input=program, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param(one.typed, id=f"{page} {one.typed[:60]}")
        for page, one in EVERY
        if not is_run(one) and "dragoman " in one.typed
    ],
)
def test_options_of_commands_that_are_not_run_exist(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(typed, comments=True)
    inner = words[words.index("dragoman") + 1 :] if "dragoman" in words else []
    if inner and inner[0] in COMMANDS:
        accept(inner)


def accept(words: list[str]) -> None:
    """Parse a command's arguments without running it."""
    group: click.Command = dragoman
    context = click.Context(dragoman)
    while isinstance(group, click.Group) and words:
        _, group, words = group.resolve_command(context, words)
    group.make_context(group.name, words, parent=context)


def test_no_reason_is_out_of_date() -> None:
    unused = [
        start for start in NOT_RUN if not any(one.typed.startswith(start) for _, one in EVERY)
    ]

    assert [] == unused


@pytest.mark.parametrize(
    ("block", "found"),
    [
        pytest.param(block, found, id=f"{block.page} {at}")
        for at, (block, found) in enumerate(EXAMPLES)
        if any(map(is_run, found))
    ],
)
def test_commands_run(block: Block, found: list[Example], stage: Stage) -> None:
    for one in filter(is_run, found):
        stage.check(one)
