"""`dragoman run` with the programs themselves: the agent works, and nothing of the gateway stays behind."""

import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.agents.programs import ClaudeCode, Codex, Opencode, Program
from tests.agents.scenarios import assert_done
from tests.agents.stage import Ran, Stage
from tests.agents.talk import DONE, PROMPT, Says, Talk, serving, talk_of
from tests.support.received import received

DRAGOMAN = [sys.executable, "-m", "dragoman.cli.main"]
MODEL = "kimi-k2"


class Started(NamedTuple):
    """How `dragoman run` starts an agent that works without being asked."""

    program: Program
    arguments: tuple[str, ...]


STARTED = {
    "claude": Started(ClaudeCode(), ("-p", PROMPT, "--allowedTools", "Bash,Write")),
    "codex": Started(
        Codex(),
        (
            "exec",
            "-c",
            "model_providers.dragoman.request_max_retries=1",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            PROMPT,
        ),
    ),
    "opencode": Started(Opencode("Messages", "@ai-sdk/anthropic"), ("run", "--auto", PROMPT)),
}


def run(
    name: str,
    stage: Stage,
    says: list[Says],
    *,
    quirks: str = "",
    more: tuple[str, ...] = (),
    environ: Mapping[str, str] = {},
) -> Talk:
    """Run an agent with its own gateway, on a model that follows a script."""
    with serving(MODEL, says) as both:
        flags = ["--upstream", f"{both.simulator.url}/v1", "--model", f"{MODEL}{quirks}"]
        command = [*DRAGOMAN, "run", name, *flags, "--", *STARTED[name].arguments, *more]
        ran = stage.run(command, {"CLAUDE_CODE_MAX_RETRIES": "1", **environ})
        return talk_of(both, MODEL, ran)


def gateway_of(ran: Ran) -> str:
    """Return where the gateway of a run was."""
    return re.search(r"^dragoman: .* on (http://127\.0\.0\.1:\d+)", ran.err, re.MULTILINE)[1]


@pytest.mark.parametrize("name", STARTED)
def test_run_lets_an_agent_use_its_tools_and_ends_with_it(stage: Stage, name: str) -> None:
    program = STARTED[name].program
    shell = program.shell("echo from the shell > shell.txt; cat shell.txt")
    write = program.write(stage, "written.txt", "from the model\n")

    done = run(name, stage, [Says("I will.", calls=(shell, write)), Says(DONE)])

    assert_done(done)
    assert "from the shell\n" == (stage.work / "shell.txt").read_text("utf-8")
    assert "from the model\n" == (stage.work / "written.txt").read_text("utf-8")
    # One model stands for every name here, so that titles are asked of it too.
    (history,) = filter(lambda one: one.results, map(received, done.asked))
    assert "from the shell" in history.results[0][1]
    assert history.ids == [call_id for call_id, _ in history.results]
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(gateway_of(done.ran), timeout=30)


@pytest.mark.parametrize("name", STARTED)
def test_run_hands_back_the_exit_code_of_an_agent_that_failed(stage: Stage, name: str) -> None:
    done = run(name, stage, [Says(DONE)], quirks="+error:400")

    assert 1 == done.ran.code
    assert 1 <= len(done.asked)
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(gateway_of(done.ran), timeout=30)


@pytest.mark.parametrize(("name", "more", "asks_others"), [
    ("claude", (), False),
    ("codex", (), False),
    # Without this one nobody would see that the proxy is asked at all.
    ("codex", ("-c", "features.plugins=true"), True),
])  # fmt: skip
def test_run_keeps_an_agent_from_asking_anybody_but_the_gateway(
    stage: Stage, name: str, more: tuple[str, ...], *, asks_others: bool
) -> None:
    # What it asks at its start, in the background, has time to arrive.
    call = STARTED[name].program.shell("sleep 5")

    with proxy() as (url, wanted):
        says = [Says(calls=(call,)), Says(DONE)]
        done = run(name, stage, says, more=more, environ={"HTTPS_PROXY": url})

    assert_done(done)
    assert asks_others == bool(wanted), wanted


@contextmanager
def proxy() -> Iterator[tuple[str, list[bytes]]]:
    """Run a proxy that refuses everybody, and remembers what was wanted."""
    wanted: list[bytes] = []

    def listen(at: socket.socket) -> None:
        while True:
            try:
                connection, _ = at.accept()
            except OSError:
                return
            with connection:
                wanted.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as at:
        thread = threading.Thread(target=listen, args=(at,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{at.getsockname()[1]}", wanted
        at.shutdown(socket.SHUT_RDWR)
        thread.join(30)
