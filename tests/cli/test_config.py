"""`dragoman config`."""

import json
import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main

GOOD = '[upstreams.up]\nbase_url = "https://h/v1"\nkey = "env:UP_KEY"\n[[routes]]\nto = "up/*"\n'


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Run in an empty folder with a clean environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.startswith(("DRAGOMAN_", "XDG_", "OPENROUTER", "UP_KEY")):
            monkeypatch.delenv(name)


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["config", *arguments], env=environ)


def test_a_good_file_is_reported_in_one_line(tmp_path):
    (tmp_path / "dragoman.toml").write_text(GOOD)

    result = run("check", UP_KEY="v")

    said = f"valid: {tmp_path / 'dragoman.toml'}: 1 upstream, 1 route, 0 warnings\n"
    assert (0, said) == (result.exit_code, result.output)


def test_warnings_follow_the_line(tmp_path):
    (tmp_path / "x.toml").write_text(GOOD + '[[routes]]\nto = "up/a"\n')

    result = run("check", "x.toml", UP_KEY="v")

    first, second = result.stdout.splitlines()
    assert result.exit_code == 0
    assert first.endswith("1 upstream, 2 routes, 1 warning")
    assert second.startswith("  warning: routes[2]: never reached")


def test_mistakes_are_all_reported_and_the_file_is_judged_bad(tmp_path):
    (tmp_path / "dragoman.toml").write_text(GOOD + "x = 5\n[server]\nprot = 5\n")

    result = run("check")

    assert result.exit_code == 1
    assert result.stdout == (
        "3 mistakes in dragoman.toml:\n"
        "  server.prot: unknown key; did you mean `port`?\n"
        "  upstreams.up.key: environment variable UP_KEY is not set; export UP_KEY=… or write that "
        f"line into {tmp_path / '.env'}\n"
        "  routes[1].x: unknown key\n"
    )


def test_the_verdict_can_be_json(tmp_path):
    (tmp_path / "dragoman.toml").write_text(GOOD)

    good = run("check", "--json", UP_KEY="v")
    bad = run("check", "--json")

    assert json.loads(good.stdout) == {
        "good": True,
        "file": str(tmp_path / "dragoman.toml"),
        "warnings": [],
    }
    verdict = json.loads(bad.stdout)
    assert (0, 1) == (good.exit_code, bad.exit_code)
    assert verdict["good"] is False
    assert ["upstreams.up.key"] == [one["path"] for one in verdict["mistakes"]]


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_that_is_missing_is_wrong_usage(command):
    named = run(command, "none.toml")
    found = run(command)

    assert (2, 2) == (named.exit_code, found.exit_code)
    assert "none.toml: no such file or directory" in named.stderr
    assert found.stderr == (
        "dragoman: there is no dragoman.toml in this folder or in your configuration folder; "
        "write one with `dragoman config init`\n"
    )


def test_what_is_in_force_is_shown_with_variables_over_the_file(tmp_path):
    (tmp_path / "dragoman.toml").write_text(GOOD)

    result = run("show", DRAGOMAN_PORT="99", UP_KEY="hidden")

    assert result.exit_code == 0
    assert "port = 99\n" in result.stdout
    assert 'key = "env:UP_KEY"  # set\n' in result.stdout
    assert "hidden" not in result.stdout


def test_settings_can_be_shown_without_their_secrets_at_hand(tmp_path):
    (tmp_path / "dragoman.toml").write_text(GOOD)

    text, everything, values = run("show"), run("show", "--defaults"), run("show", "--json")

    assert 'key = "env:UP_KEY"  # not set\n' in text.stdout
    assert "port = 8484  # default\n" in everything.stdout
    upstream = json.loads(values.stdout)["upstreams"]["up"]
    assert upstream["key"] == "env:UP_KEY (not set)"


def test_settings_with_mistakes_cannot_be_shown(tmp_path):
    (tmp_path / "dragoman.toml").write_text("a = 1")

    result = run("show")

    assert (2, "dragoman: dragoman.toml: a: unknown key\n") == (result.exit_code, result.stderr)


# --- init ---


def test_a_first_file_passes_the_check_once_the_key_is_set(tmp_path):
    written = run("init", "--vendor", "openrouter")
    checked = run("check", OPENROUTER_API_KEY="k")

    assert (0, 0) == (written.exit_code, checked.exit_code)
    assert written.stderr == (
        "wrote dragoman.toml\n"
        "next: export OPENROUTER_API_KEY=… (or put it into .env), then `dragoman serve`\n"
    )


def test_a_first_file_holds_what_the_flags_say():
    result = run(
        "init", "--vendor", "vllm", "--model", "qwen", "--dialect", "responses",
        "--base-url", "http://gpu:8000/v1", "--output", "-",
    )  # fmt: skip

    for line in (
        'base_url = "http://gpu:8000/v1"',
        'dialect = "responses"',
        'to = ["vllm/qwen"]',
    ):
        assert f"{line}\n" in result.stdout


def test_a_file_that_exists_is_kept_unless_forced(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("mine")

    kept = run("init", "--vendor", "ollama", "--output", "mine.toml")
    text = path.read_text()
    forced = run("init", "--vendor", "ollama", "--output", "mine.toml", "--force")

    assert (2, "mine") == (kept.exit_code, text)
    assert kept.stderr == (
        "dragoman: mine.toml exists; overwrite it with --force, or choose another file with --output\n"
    )
    assert (0, "wrote mine.toml\n") == (forced.exit_code, forced.stderr)
    assert "ollama" in path.read_text()


def test_without_a_terminal_nothing_is_asked():
    result = run("init")

    assert result.exit_code == 2
    assert result.stderr.startswith(
        "dragoman: --vendor is missing; choose one of openrouter, openai"
    )
    assert result.stderr.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_line():
    result = run("init", "--vendor", "ollama", "--output", "no/such/folder.toml")

    assert result.exit_code == 2
    assert result.stderr == (
        "dragoman: cannot write no/such/folder.toml: No such file or directory\n"
    )


def test_what_the_vendor_cannot_do_is_one_line():
    result = run("init", "--vendor", "mistral", "--dialect", "anthropic")

    assert (2, 1) == (result.exit_code, result.stderr.count("\n"))


def test_on_a_terminal_it_asks_for_vendor_and_model(tmp_path):
    master, slave = pty.openpty()
    program = [sys.executable, "-m", "dragoman.cli.main", "config", "init"]
    with subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path) as asked:
        os.close(slave)
        os.write(master, b"groq\nmy-model\n")
        said = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end of a terminal is gone
                break
            if not piece:
                break
            said += piece
        code = asked.wait(timeout=30)
    os.close(master)

    assert code == 0
    assert b"Vendor [openrouter]: " in said
    assert b"Model [openai/gpt-oss-120b]: " in said
    assert 'to = ["groq/my-model"]' in (tmp_path / "dragoman.toml").read_text()


def test_help_lists_the_vendors():
    result = run("init", "--help")

    assert "  openrouter    OpenRouter, in front of many vendors\n" in result.output
