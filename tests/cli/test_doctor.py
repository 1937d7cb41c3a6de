"""`dragoman doctor`, on machines with and without mistakes."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.cli.main import main
from dragoman.testing import Simulator
from tests.support.gateway import stand


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without settings, agents or proxies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "DRAGOMAN_CONFIG", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert "Traceback" not in result.output
    return result


def findings(*arguments: str) -> list[dict[str, str]]:
    return list(json.loads(doctor("--json", *arguments).stdout)["findings"])


def found(area: str, *arguments: str) -> list[tuple[str, str]]:
    return [(one["status"], one["found"]) for one in findings(*arguments) if one["area"] == area]


def agent(name: str, script: str) -> None:
    path = Path("bin", name)
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


def test_a_machine_without_settings_is_well(free_port: int) -> None:
    result = doctor("--port", str(free_port))

    assert (0, "nothing is wrong") == (result.exit_code, result.stdout.splitlines()[-1])
    shown = " ".join(result.stdout.split())
    assert "the built-in simulator answers" in shown
    assert "write one with `dragoman config init`" in shown
    assert "npm install -g @anthropic-ai/claude-code" in shown
    assert f"127.0.0.1:{free_port} is free" in shown


def test_every_finding_that_is_not_well_has_an_advice(free_port: int, monkeypatch) -> None:
    agent("claude", "echo '2.0.1 (Claude Code)'")
    agent("codex", "echo broken >&2; exit 3")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("SSL_CERT_FILE", "/does/not/exist")
    Path("dragoman.toml").write_text('[upstreams.up]\nbase_url = "http://127.0.0.1:9/v1"\n')

    all_found = findings("--port", str(free_port))

    assert [] == [one for one in all_found if one["status"] != "ok" and not one["advice"]]
    assert {"ok", "note", "warning", "problem"} == {one["status"] for one in all_found}
    assert "secret" not in json.dumps(all_found)
    assert "http://***@proxy.example:3128" in json.dumps(all_found)


def test_agents_are_found_with_their_versions(free_port: int) -> None:
    agent("claude", "echo '2.0.1 (Claude Code)'")
    agent("codex", "echo broken >&2; exit 3")

    shown = found("agent", "--offline", "--port", str(free_port))

    claude, codex, gemini, opencode = shown
    assert "ok" == claude[0]
    assert claude[1].startswith("Claude Code: 2.0.1 (Claude Code) (")
    assert "warning" == codex[0]
    assert "`--version` ends with 3: broken" in codex[1]
    assert ("note", "Gemini CLI is not on PATH") == gemini
    assert ("note", "opencode is not on PATH") == opencode


def test_a_dragoman_on_the_port_is_recognised() -> None:
    with stand() as running:
        port = running.url.rpartition(":")[2]

        ((status, who),) = found("port", "--offline", "--port", port)

    assert "note" == status
    assert who.startswith("dragoman ")
    assert who.endswith(f" listens on 127.0.0.1:{port}")


def test_another_program_on_the_port_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ((status, shown),) = found("port", "--offline", "--port", str(port))

    assert ("warning", f"127.0.0.1:{port} is in use by a program that is not dragoman") == (
        status,
        shown,
    )


def test_upstreams_are_asked_and_decide_the_exit_code(free_port: int) -> None:
    port = ("--port", str(free_port))
    with Simulator() as simulator:
        good = doctor("--upstream", f"{simulator.url}/v1", "--json", *port)
    bad = doctor("--upstream", "http://127.0.0.1:9/v1", *port)
    offline = doctor("--upstream", "http://127.0.0.1:9/v1", "--offline", *port)

    assert (0, 3, 0) == (good.exit_code, bad.exit_code, offline.exit_code)
    assert {"upstream", "clock"} <= {one["area"] for one in json.loads(good.stdout)["findings"]}


def test_mistakes_in_the_settings_are_found_one_by_one(free_port: int) -> None:
    Path("dragoman.toml").write_text('[upstreams.up]\nbase_url = "https://openrouter.ai/api/v1"\n')

    result = doctor("--port", str(free_port), "--json")
    shown = json.loads(result.stdout)["findings"]

    assert 1 == result.exit_code
    mistake = next(one for one in shown if one["area"] == "settings")
    assert "problem" == mistake["status"]
    assert "dragoman.toml: upstreams.up.key: OpenRouter needs a key" == mistake["found"]
    assert "OPENROUTER_API_KEY" in mistake["advice"]


def test_a_state_folder_that_cannot_be_made_is_a_problem(free_port: int, monkeypatch) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("file").absolute()))

    ((status, shown),) = found("folder", "--offline", "--port", str(free_port))

    assert "problem" == status
    assert "is not a folder" in shown


def test_the_command_runs_as_a_process(free_port: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "doctor", "--offline", "--port", str(free_port)],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
        text=True,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "nothing is wrong" in done.stdout
