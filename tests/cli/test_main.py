"""Every `--help` is complete, and a user's mistake is one line that says what to do next."""

import os

import pytest
from click.testing import CliRunner

from dragoman.cli.main import COMMANDS, main
from tests.support.recordings import RECORDING

GROUPS = {"config": ("check", "import", "init", "show"), "formats": ("check",)}
PAGES = [
    (),
    *((name,) for name in COMMANDS),
    *((name, below) for name, group in GROUPS.items() for below in group),
]


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Run in an empty folder, without settings of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    for name in list(os.environ):
        if name.startswith(("DRAGOMAN_", "XDG_")):
            monkeypatch.delenv(name)
    (tmp_path / "not.json").write_text("{")
    (tmp_path / "not.toml").write_text("x = = 1\n")
    (tmp_path / "odd.toml").write_text("[server]\nprot = 1\n")
    (tmp_path / "script.toml").write_text("[[replies]]\nunknown = 1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "one.dragoman").symlink_to(RECORDING)


def run(*arguments):
    return CliRunner().invoke(main, list(arguments), prog_name="dragoman", input="")


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_help_has_a_description_examples_and_exit_codes(page):
    result = run(*page, "--help")

    assert 0 == result.exit_code
    assert f"Usage: {' '.join(['dragoman', *page])} [OPTIONS]" in result.stdout
    examples = result.stdout.partition("Examples:\n")[2].partition("\n\n")[0]
    assert f"dragoman {' '.join(page)}".rstrip() in examples
    assert "Exit codes:" in result.stdout or page == ("config",)
    assert "\\b" not in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    command = main.get_command(None, name)
    unexplained = [
        parameter.name
        for one in [command, *getattr(command, "commands", {}).values()]
        for parameter in one.params
        if parameter.param_type_name == "option" and not parameter.help
    ]

    assert [] == unexplained


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_each_commands_own_summary(name):
    assert COMMANDS[name].summary == main.get_command(None, name).short_help


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ("prase", 2, "Did you mean 'parse'?"),
        ("nothing-like-it", 2, "Try 'dragoman --help'"),
        ("check", 2, "Missing option '--dialect'"),
        ("check --dialect chat absent.sse", 2, "No such file"),
        ("check --dialect chat", 1, ""),
        ("config check", 2, "write one with `dragoman config init`"),
        ("config check --config odd.toml", 2, "without --config: dragoman config check odd.toml"),
        ("config check not.toml", 1, ""),
        ("config init", 2, "--vendor is missing; choose one of openrouter"),
        ("config init --vendor opnerouter", 2, "did you mean `openrouter`?"),
        ("config show odd.toml", 2, "did you mean `port`?"),
        ("formats --nope", 2, "Try 'dragoman formats --help'"),
        ("mcp --upstream nope", 2, "`https://nope`"),
        ("models --config absent.toml", 2, "cannot read"),
        (
            "models --upstream http://127.0.0.1:1/v1",
            3,
            "nothing accepts connections at 127.0.0.1:1",
        ),
        ("parse answer.txt", 2, "to read a file, write: dragoman parse [OPTIONS] < answer.txt"),
        ("parse --tools not.json", 1, "--tools not.json is not a JSON list of tools"),
        ("parse --format xyzzy", 2, "no tool-call format `xyzzy`; known formats: "),
        ("parse --format kimi_k4", 2, "did you mean `kimi_k3` or `kimi_k2`?"),
        ("probe", 2, "pass --yes to start"),
        ("probe --yes --only nope", 2, "no check `nope`; there are reach"),
        ("probe local", 2, "a URL starts with `http://` or `https://`"),
        ("probe http://127.0.0.1:1/v1 --yes", 3, "at most"),
        ("run", 2, "Missing argument 'AGENT'"),
        ("run claude", 2, "install it with: npm install -g @anthropic-ai/claude-code"),
        ("run claude --print --gateway nope", 2, "http://127.0.0.1:8484"),
        ("run claude --print --gateway http://127.0.0.1:1", 3, "with `dragoman serve`"),
        ("run claude --print --key-env NOPE", 2, "environment variable NOPE is not set"),
        ("serve --config odd.toml", 2, "did you mean `port`?"),
        ("serve --upstream nope", 2, "`https://nope`"),
        ("serve --port 99999", 2, "Try 'dragoman serve --help'"),
        ("simulate --script absent.toml", 2, "cannot read absent.toml"),
        ("simulate --script script.toml", 2, "`unknown`"),
        ("simulate --host 300.1.1.1", 2, "cannot listen on 300.1.1.1"),
        ("translate", 2, "Missing option '--from'"),
        ("translate --from chat --to anthropic answer.sse", 2, "[OPTIONS] < answer.sse"),
        ("import --out captures not.json", 1, "not.json: not a HAR file"),
        ("tail --url http://127.0.0.1:9", 3, "start `dragoman serve`"),
        ("tail --url http://127.0.0.1:http", 2, "nonnumeric port"),
        ("tail --url http://[1", 2, "Invalid IPv6 URL"),
        ("diff empty", 1, "empty: there is no recording"),
        ("show --mask not.json/copy one.dragoman", 1, "not.json/copy: Not a directory"),
        ("case --out not.json/cases --pytest one.dragoman", 1, "not.json/cases: Not a directory"),
        ("replay --serve --host 300.1.1.1 one.dragoman", 2, "cannot listen on 300.1.1.1"),
        ("serve --host 0.0.0.0", 2, "(--insecure)"),
        ("serve --format kimi_k2", 2, "there is no upstream, only the built-in simulator"),
        ("translate --from chat --to anthropic --tools not.json", 1, "--tools not.json"),
        ("translate --from chat --to anthropic --request", 1, "not valid JSON"),
        ("translate --from chat --to anthropic --profile nope", 2, "'vllm'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_has_its_exit_code_and_a_hint(arguments, code, hint):
    result = run(*arguments.split())

    assert code == result.exit_code, result.output
    assert hint in result.stderr
    assert isinstance(result.exception, SystemExit)  # not a traceback
    assert "Traceback" not in result.output
