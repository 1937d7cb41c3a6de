"""`dragoman check`, and the edge that all commands share."""

import json
import os
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from dragoman.checker.checker import rules
from dragoman.cli import main as cli
from dragoman.cli.main import COMMANDS, main
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError, MalformedError
from tests.unit.checker import test_anthropic as anthropic
from tests.unit.checker import test_chat as chat
from tests.unit.checker import test_gemini as gemini
from tests.unit.checker import test_responses as responses

PROGRAM = [sys.executable, "-m", "dragoman.cli.main"]
LEGAL = {
    "anthropic": anthropic.render("anthropic", anthropic.CALLS),
    "chat": chat.render("chat", chat.CALLS),
    "responses": responses.render("responses", responses.CALLS),
}
ILLEGAL = anthropic.render("anthropic", [*anthropic.TEXT[:2], *anthropic.TEXT[3:], anthropic.PING])


def run(*arguments, stream=b""):
    return CliRunner().invoke(main, ["check", *arguments], input=stream)


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("anthropic", "legal: 14 frames, 3 blocks, 2 calls, ended with finish\n"),
        ("chat", "legal: 11 frames, 3 blocks, 2 calls, ended with finish\n"),
        ("responses", "legal: 28 frames, 4 blocks, 2 calls, ended with finish\n"),
    ],
)
def test_legal_stream_is_reported_in_one_line(name, summary):
    result = run("--dialect", name, stream=LEGAL[name])

    assert (0, summary) == (result.exit_code, result.output)


def test_counts_of_one_are_reported_in_the_singular():
    stream = anthropic.render("anthropic", [anthropic.ERROR])

    result = run("-d", "anthropic", stream=stream)

    assert result.output == "legal: 1 frame, 0 blocks, 0 calls, ended with failure\n"


def test_gemini_stream_may_be_a_list():
    result = run("--dialect", "gemini", stream=gemini.listed(gemini.TEXT))

    assert result.output == "legal: 3 frames, 1 block, 0 calls, ended with finish\n"


def test_illegal_stream_is_reported_with_its_first_place():
    result = run("--dialect", "anthropic", stream=ILLEGAL)
    at = ILLEGAL.index(b"event: ping")

    assert result.exit_code == 1
    assert result.output == (
        f"illegal: frame 7, byte {at}: nothing-after-end: `ping` comes while the message has ended\n"
        "7 frames, 1 block, 0 calls, ended with finish\n"
    )


def test_all_shows_every_place():
    stream = b"data: 1\n\n" * 2

    first = run("--dialect", "chat", stream=stream)
    every = run("--dialect", "chat", "--all", stream=stream)

    assert first.output.count("illegal:") == 1
    assert "; 2 more (--all shows them)" in first.output
    assert every.output.count("illegal:") == 3
    assert "more" not in every.output


def test_all_prints_how_many_are_not_listed():
    result = run("--dialect", "chat", "--all", stream=b"data: 1\n\n" * 120)

    assert result.output.count("illegal:") == 100
    assert result.output.endswith("; 21 more\n")


def test_path_of_a_field_is_reported():
    stream = anthropic.render("anthropic", [anthropic.start(id=""), *anthropic.TEXT[1:]])

    assert "(at `$.message.id`)" in run("--dialect", "anthropic", stream=stream).output


def test_json_is_one_object_with_all_that_was_found():
    legal = run("--dialect", "chat", "--json", stream=LEGAL["chat"])
    illegal = run("--dialect", "anthropic", "--json", stream=ILLEGAL)

    assert json.loads(legal.output) == {
        "legal": True,
        "ended": "finish",
        "frames": 11,
        "blocks": 3,
        "calls": 2,
        "violations": [],
        "unlisted": 0,
    }
    assert illegal.exit_code == 1
    assert [one["rule"] for one in json.loads(illegal.output)["violations"]] == [
        "nothing-after-end",
    ]


def test_stream_is_read_from_a_file(tmp_path):
    path = tmp_path / "recorded.sse"
    path.write_bytes(LEGAL["responses"])

    assert run("--dialect", "responses", str(path)).exit_code == 0


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_rules_of_a_dialect_are_listed(name):
    plain = run("--dialect", name, "--rules")
    as_json = run("--dialect", name, "--rules", "--json")

    assert [line.split()[0] for line in plain.output.splitlines()] == list(rules(name))
    assert rules(name) == json.loads(as_json.output)


@pytest.mark.parametrize(
    "arguments", [[], ["--dialect", "smoke"], ["--dialect", "chat", "no-such-file"], ["--no-such"]]
)
def test_wrong_usage_is_exit_code_2(arguments):
    assert run(*arguments).exit_code == 2


def test_help_shows_examples_and_exit_codes():
    result = run("--help")

    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert "Exit codes:" in result.output


# --- the edge that all commands share ---------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_loads_and_has_help(name):
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_list_of_commands_comes_from_the_table_and_loads_none():
    code = (
        "import sys\n"
        "from dragoman.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith('dragoman.cli.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    for name, entry in COMMANDS.items():
        assert f"{name} ".encode() in done.stdout
        assert entry.summary.encode() in done.stdout
    assert done.stderr.strip() == b"['dragoman.cli.main']"


def test_version_is_reported():
    result = CliRunner().invoke(main, ["--version"])

    assert result.output.startswith("dragoman ")


def test_unknown_command_is_exit_code_2():
    assert CliRunner().invoke(main, ["juggle"]).exit_code == 2


@pytest.mark.parametrize(
    ("raised", "code", "printed"),
    [
        (MalformedError("not valid JSON", path="$.a"), 1, "dragoman: not valid JSON (at `$.a`)\n"),
        (ConfigError("no dialect `x`"), 2, "dragoman: no dialect `x`\n"),
        (KeyboardInterrupt(), cli.INTERRUPTED, ""),
    ],
)
def test_error_is_one_line_and_an_exit_code(raised, code, printed, monkeypatch):
    @click.command()
    def command():
        raise raised

    monkeypatch.setitem(sys.modules, "failing", type("failing", (), {"command": command}))
    monkeypatch.setitem(COMMANDS, "fail", cli.Entry("failing:command", "Fail."))

    result = CliRunner().invoke(main, ["fail"])

    assert (code, printed) == (result.exit_code, result.stderr)


def test_limit_that_is_passed_is_one_line():
    stream = b"data: " + b"x" * (33 * 1024 * 1024) + b"\n\n"

    result = run("--dialect", "chat", stream=stream)

    assert result.exit_code == 1
    assert (
        "dragoman: an event of the stream has more than 33554432 bytes (32 MiB); raise the limit "
        "`max_sse_event_bytes` in `[server.limits]` of the gateway or `Limits` of the library\n"
    ) == result.stderr


def test_reader_that_leaves_ends_the_program_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, "check", "--dialect", "chat", "--rules"],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (cli.PIPE_CLOSED, b"")


def test_interrupt_ends_the_program_quietly():
    with subprocess.Popen(
        [*PROGRAM, "check", "--dialect", "chat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        # More than a pipe holds: once it is written, the program is known to be reading.
        program.stdin.write(b": waiting\n\n" * 30_000)
        program.stdin.flush()
        program.send_signal(signal.SIGINT)
        stderr = program.stderr.read()

    assert (program.returncode, stderr) == (cli.INTERRUPTED, b"")
