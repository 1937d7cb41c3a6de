"""Shell completion works as the page on the command line and `dragoman --help` describe it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dragoman.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
LINES = dict(re.findall(r"```(sh|zsh|fish)\n(.*_DRAGOMAN_COMPLETE.*)\n```", PAGE))


def completed(*words: str) -> list[str]:
    """Return the completions of the last word."""
    *before, incomplete = words
    found = ShellComplete(main, {}, "dragoman", "_DRAGOMAN_COMPLETE").get_completions(
        before, incomplete
    )
    return [one.value for one in found]


def test_commands_options_and_values_are_completed() -> None:
    assert list(COMMANDS) == completed("")
    assert ["serve", "show", "simulate"] == completed("s")
    assert ["--version", "--help"] == completed("--")
    assert ["--upstream", "--upstream-dialect", "--upstream-key-env"] == completed("run", "--up")
    assert ["chat", "anthropic", "responses", "gemini"] == completed("translate", "--from", "")
    assert ["claude", "codex"] == completed("run", "c")


def test_completing_the_name_of_a_command_imports_none() -> None:
    program = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from dragoman.cli.main import main\n"
        "assert ShellComplete(main, {}, 'dragoman', '').get_completions([], 's')\n"
        "print([one for one in sys.modules if one.startswith('dragoman.')])\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert "dragoman.cli.main" in out
    assert "dragoman.cli.serve" not in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_line_for_bash_works() -> None:
    program = f"""{LINES["sh"]}
COMP_WORDS=(dragoman translate --to re)
COMP_CWORD=3
_dragoman_completion dragoman
echo "${{COMPREPLY[@]}}"
complete -p dragoman
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    out = subprocess.run(
        ["bash", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "responses\ncomplete -o nosort -F _dragoman_completion dragoman\n" == out


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef dragoman"), ("fish", "function")])
def test_lines_for_other_shells_load_what_the_program_prints(shell: str, begins: str) -> None:
    variable = f"{shell}_source"
    printed = CliRunner().invoke(
        main, [], prog_name="dragoman", env={"_DRAGOMAN_COMPLETE": variable}
    )

    assert f"_DRAGOMAN_COMPLETE={variable} dragoman" in LINES[shell]
    assert printed.output.strip().startswith(begins)


def test_help_has_the_lines_of_the_page() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output

    assert ["bash", "zsh", "fish"] == [
        shell
        for shell, line in zip(("bash", "zsh", "fish"), LINES.values(), strict=True)
        if f"  {shell:7}{line}\n" in shown
    ]


def test_page_lists_every_command() -> None:
    rows = re.findall(r"^\| `dragoman ([\w-]+)` \| (.+) \|$", PAGE, re.MULTILINE)

    assert [(name, entry.summary) for name, entry in COMMANDS.items()] == rows
