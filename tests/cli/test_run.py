"""`dragoman run`, with programs on PATH that replace the agents; where a process matters, it is one."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.recorder.recording import read_recording
from dragoman.simulator.server import Simulator
from tests.support.forward_proxy import forward_proxy

FAKE = Path(__file__).parent.parent / "support" / "fake_agent.py"
DRAGOMAN = [sys.executable, "-m", "dragoman.cli.main"]
AGENTS = ("claude", "codex", "opencode")
SECONDS = 60.0  # until something must have happened


class Ran(NamedTuple):
    code: int
    out: str
    err: str
    report: dict[str, Any]  # what the agent saw


class Stage:
    """A home, a folder to work in, and agents on PATH."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.report = folder / "report.json"
        self.bin = folder / "bin"
        for one in (self.home, self.work, self.bin):
            one.mkdir()
        self.environ = {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "TMPDIR": str(folder),
            "FAKE_OUT": str(self.report),
        }

    def install(self, *names: str) -> "Stage":
        for name in names:
            program = self.bin / name
            program.write_text(f"#!{sys.executable}\n{FAKE.read_text('utf-8')}", "utf-8")
            program.chmod(0o755)
        return self

    def run(self, *arguments: str, **variables: str) -> Ran:
        """Run the command in this process, which spares the imports; the agent is a process all the same."""
        with (
            pytest.MonkeyPatch.context() as patch,
            mock.patch.dict(os.environ, self.environ | variables, clear=True),
        ):
            patch.chdir(self.work)
            patch.setattr(tempfile, "tempdir", None)  # else TMPDIR is not read again
            done = CliRunner(catch_exceptions=False).invoke(main, ["run", *arguments])
        return Ran(done.exit_code, done.stdout, done.stderr, self.read_report())

    def run_process(self, *arguments: str, **variables: str) -> Ran:
        done = subprocess.run(
            [*DRAGOMAN, "run", *arguments],
            cwd=self.work,
            env=self.environ | variables,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr, self.read_report())

    def read_report(self) -> dict[str, Any]:
        return json.loads(self.report.read_text("utf-8")) if self.report.exists() else {}

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*DRAGOMAN, *arguments],
            cwd=self.work,
            env=self.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def settings(self, text: str) -> None:
        (self.work / "dragoman.toml").write_text(text, "utf-8")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path).install(*AGENTS)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a gateway over the simulator."""
    with serving(Stage(tmp_path_factory.mktemp("gateway")), "--port", "0") as url:
        yield url


@contextmanager
def serving(stage: Stage, *arguments: str, **variables: str) -> Iterator[str]:
    process = stage.start("serve", *arguments, **variables)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3].rstrip(",")
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def is_gone(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return False
    except urllib.error.URLError:
        return True
    return False


# --- a gateway of its own -------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_finds_a_gateway_of_which_only_the_log_remains(agent: str, stage: Stage) -> None:
    before = {*stage.home.parent.iterdir(), stage.report}

    ran = stage.run_process(agent, "--", "--flag", "two words", FAKE_EXIT="7")

    assert (7, 200) == (ran.code, ran.report["status"])
    assert ["--flag", "two words"] == ran.report["arguments"][-2:]
    assert "Hello" in ran.report["answer"]
    assert "the built-in simulator answers" in ran.err
    assert "" == ran.out
    assert is_gone(ran.report["url"])
    log = stage.home / ".local" / "state" / "dragoman" / "run.log"
    assert before == set(stage.home.parent.iterdir())
    assert [] == list(stage.work.iterdir())
    assert [log] == [one for one in stage.home.rglob("*") if one.is_file()]
    assert 0o600 == log.stat().st_mode & 0o777
    assert '"status":200' in log.read_text("utf-8")


def test_lines_go_where_they_are_wanted(stage: Stage) -> None:
    ran = stage.run("claude", "--log", "lines.jsonl")

    assert "log: lines.jsonl" in ran.err
    assert "/v1/messages" in (stage.work / "lines.jsonl").read_text("utf-8")


def test_an_agents_exchanges_are_recorded(stage: Stage) -> None:
    ran = stage.run_process("claude", "--record", "recordings")

    assert 200 == ran.report["status"]
    assert "Traceback" not in ran.err
    (file,) = (stage.work / "recordings").iterdir()
    recording = read_recording(file)
    assert ("anthropic", None) == (recording.opening.dialect, recording.torn_at)
    assert recording.outcome is not None
    assert "Hello" in b"".join(one.data.data for one in recording.written).decode()


def test_a_log_that_cannot_be_written_is_one_line(stage: Stage) -> None:
    ran = stage.run("claude", "--log", "/proc/none/run.log")

    assert (2, {}) == (ran.code, ran.report)
    assert "cannot write /proc/none/run.log" in ran.err.splitlines()[-1]


def test_an_agent_that_is_not_installed_is_one_line_with_the_way_to_get_it(
    tmp_path: Path,
) -> None:
    ran = Stage(tmp_path).run("codex")

    assert (2, "") == (ran.code, ran.out)
    assert [
        "dragoman: `codex` is not on PATH; install it with: npm install -g @openai/codex"
    ] == ran.err.splitlines()


def test_an_agent_that_cannot_be_started_is_one_line(stage: Stage) -> None:
    (stage.bin / "claude").write_text("#!/nowhere/at/all\n")

    ran = stage.run("claude")

    assert 2 == ran.code
    assert "dragoman: cannot start" in ran.err.splitlines()[-1]


def test_wrong_settings_are_reported_before_anything_starts(stage: Stage) -> None:
    stage.settings("[server]\nprot = 1\n")

    ran = stage.run("claude")

    assert (2, {}) == (ran.code, ran.report)
    assert "server.prot" in ran.err


def test_the_first_key_of_the_settings_opens_the_gateway(stage: Stage) -> None:
    stage.settings('[server]\nport = 1\nkeys = ["env:FRONT", "env:OTHER"]\n')

    ran = stage.run("opencode", FRONT="front-secret", OTHER="other-secret")

    assert (0, 200) == (ran.code, ran.report["status"])
    assert "front-secret" == ran.report["headers"]["x-api-key"]
    assert "front-secret" not in ran.report["variables"]["OPENCODE_CONFIG_CONTENT"]


def test_h4_an_agent_learns_how_large_the_model_is(stage: Stage, gateway: str) -> None:
    stage.settings(
        f"""
        [upstreams.local]
        base_url = "{gateway}/v1"
        [[routes]]
        to = ["local/sim/plain"]
        [models.small-one]
        context = 65536
        output = 8192
        """
    )

    ran = stage.run("claude", "--model", "small-one", ANTHROPIC_MODEL="opus")
    variables = ran.report["variables"]

    assert (200, "small-one") == (ran.report["status"], ran.report["asked"]["model"])
    assert {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "65536",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "65536",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }.items() <= variables.items()


def test_an_upstream_and_a_model_from_flags_alone(stage: Stage, gateway: str) -> None:
    flags = ("--upstream", f"{gateway}/v1", "--upstream-dialect", "responses")

    ran = stage.run("codex", *flags, "--model", "sim/plain", "--context", "50000")

    assert (200, "sim/plain") == (ran.report["status"], ran.report["asked"]["model"])
    assert "model_context_window=50000" in ran.report["arguments"]


def test_an_upstream_is_reached_through_a_proxy(stage: Stage, simulator: Simulator) -> None:
    with forward_proxy(hosts={"models.invalid": simulator.port}) as proxy:
        address = ("--upstream", "http://models.invalid/v1", "--model", "sim/plain")
        ran = stage.run("claude", *address, "--proxy", proxy.url)
        targets = proxy.targets

    assert (0, 200) == (ran.code, ran.report["status"]), ran.err
    assert "POST http://models.invalid/v1/chat/completions" in targets


def test_the_models_of_an_upstream_are_asked_for_when_nobody_names_one(
    stage: Stage, gateway: str
) -> None:
    ran = stage.run("claude", "--upstream", f"{gateway}/v1")

    assert (200, "sim/kimi-k2") == (ran.report["status"], ran.report["asked"]["model"])
    assert "model sim/kimi-k2" in ran.err


def test_what_would_lead_the_agent_elsewhere_is_taken_away(stage: Stage) -> None:
    ran = stage.run(
        "claude",
        ANTHROPIC_API_KEY="sk-of-another",
        CLAUDE_CODE_USE_BEDROCK="1",
        HTTP_PROXY="http://127.0.0.1:9",
        NO_PROXY="intern.example",
    )
    variables = ran.report["variables"]

    assert 200 == ran.report["status"]
    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"}.isdisjoint(variables)
    assert "intern.example,127.0.0.1,localhost,::1" == variables["NO_PROXY"]


# --- a gateway that runs already ------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_a_gateway_that_runs_is_used_and_left_running(
    agent: str, stage: Stage, gateway: str
) -> None:
    ran = stage.run(agent, "--gateway", f"{gateway}/v1/", FAKE_EXIT="3")

    assert (3, 200) == (ran.code, ran.report["status"])
    assert ran.report["url"].startswith(f"{gateway}/v1/")
    assert not is_gone(f"{gateway}/health")


def test_a_gateway_that_does_not_answer_is_one_line_and_exit_3(stage: Stage) -> None:
    ran = stage.run("claude", "--gateway", "http://127.0.0.1:9")

    assert (3, {}) == (ran.code, ran.report)
    assert 1 == len(ran.err.splitlines())
    assert "no gateway answers at http://127.0.0.1:9" in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--gateway", "8484"), "`8484` is not an address"),
        (
            ("--gateway", "http://127.0.0.1:9", "--upstream", "http://x"),
            "uses the settings of the running gateway",
        ),
        (("--key-env", "NOT_SET"), "environment variable NOT_SET is not set"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    arguments: tuple[str, ...], says: str, stage: Stage
) -> None:
    ran = stage.run("claude", *arguments)

    assert (2, {}) == (ran.code, ran.report)
    assert 1 == len(ran.err.splitlines())
    assert says in ran.err


def test_a_gateway_that_refuses_the_key_is_one_line(stage: Stage) -> None:
    stage.settings('[server]\nport = 0\nkeys = ["env:FRONT"]\n')
    with serving(stage, FRONT="front-secret") as url:
        refused = stage.run("codex", "--gateway", url)
        let_in = stage.run("codex", "--gateway", url, "--key-env", "MINE", MINE="front-secret")

    assert 2 == refused.code
    assert "name the variable that holds one with --key-env" in refused.err
    assert (0, 200) == (let_in.code, let_in.report["status"])


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_reaches_the_agent_and_everything_ends(name: str, stage: Stage) -> None:
    number = getattr(signal, name)

    process = signalled(stage, number, FAKE_WAIT="SIGTERM SIGHUP")

    assert 40 + number == process.returncode
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_an_agent_that_a_signal_ends_gives_128_and_its_number(stage: Stage) -> None:
    process = signalled(stage, signal.SIGTERM, FAKE_WAIT="")

    assert 128 + signal.SIGTERM == process.returncode


def signalled(stage: Stage, number: int, **variables: str) -> "subprocess.Popen[str]":
    """Run an agent until a signal to `dragoman` has ended everything."""
    process = stage.start("run", "claude", **variables)
    try:
        until(Path(f"{stage.report}.waits").exists)
        process.send_signal(number)
        process.wait(timeout=SECONDS)  # its input stays open: nothing but the signal ends the agent
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        process.communicate()
    return process


def test_ctrl_c_at_a_terminal_reaches_the_agent_once_and_we_wait_for_it(stage: Stage) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover -- another program from here on
        os.chdir(stage.work)
        os.execve(
            DRAGOMAN[0],
            [*DRAGOMAN, "run", "claude"],
            stage.environ | {"FAKE_WAIT": "SIGINT"},
        )
    until(lambda: drained(terminal) and Path(f"{stage.report}.waits").exists())

    os.write(terminal, b"\x03")
    until(lambda: drained(terminal) and Path(f"{stage.report}.heard").exists())
    os.write(terminal, b"go on\n")
    until(lambda: (drained(terminal), ended(pid))[1])
    os.close(terminal)

    assert 41 == ENDED[pid]


ENDED: dict[int, int] = {}


def ended(pid: int) -> bool:
    if pid not in ENDED:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ENDED[pid] = os.waitstatus_to_exitcode(status)
    return pid in ENDED


def drained(terminal: int) -> bool:
    """Read what came, so that no writer waits."""
    while select.select([terminal], [], [], 0)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:  # nobody is at the other end any more
            break
    return True


# --- only shown -----------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_print_shows_lines_for_a_shell_that_lead_to_the_same(
    agent: str, stage: Stage, gateway: str
) -> None:
    shown = stage.run(agent, "--gateway", gateway, "--print", "--", "--flag", "two words")
    script = stage.work / "start.sh"
    # The file that holds the variables against the user's own settings is for us to give.
    settings = stage.work / "settings.json"
    settings.write_text('{"env": {}}')
    tail = f" --settings {settings}" if agent == "claude" else ""
    script.write_text(shown.out.rstrip("\n") + tail + "\n")

    done = subprocess.run(["/bin/sh", str(script)], env=stage.environ, check=False, timeout=SECONDS)
    report = json.loads(stage.report.read_text("utf-8"))

    assert (0, {}) == (shown.code, shown.report)
    assert (0, 200) == (done.returncode, report["status"])
    assert "two words" in report["arguments"]


@pytest.mark.parametrize(
    ("agent", "source", "shown"),
    [
        ("claude", "file:key", '"$(cat key)"'),
        ("codex", "env:FRONT", '"$FRONT"'),
        ("opencode", "file:key", '"$(cat key)"'),
    ],
)
def test_print_hides_the_key(agent: str, source: str, shown: str, stage: Stage) -> None:
    (stage.work / "key").write_text("front-secret")
    stage.settings(f'[server]\nport = 9999\nkeys = ["{source}"]\n')

    ran = stage.run(agent, "--print", FRONT="front-secret")

    assert "http://127.0.0.1:9999" in ran.out
    assert shown in ran.out
    assert "front-secret" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:9999"), ("::1", "http://[::1]:9999")],
)
def test_print_shows_an_address_that_an_agent_can_use(host: str, url: str, stage: Stage) -> None:
    (stage.work / "key").write_text("front-secret")
    stage.settings(f'[server]\nhost = "{host}"\nport = 9999\nkeys = ["file:key"]\n')

    assert url in stage.run("claude", "--print").out


def test_print_needs_a_port_that_is_known(stage: Stage) -> None:
    stage.settings("[server]\nport = 0\n")

    ran = stage.run("claude", "--print")

    assert (2, "") == (ran.code, ran.out)
    assert "`server.port` is 0" in ran.err


def test_a_dead_upstream_is_reported_before_the_agent_starts(stage) -> None:
    ran = stage.run("claude", "--upstream", "http://127.0.0.1:9/v1", "--model", "m")

    assert (3, {}) == (ran.code, ran.report)
    assert (
        "dragoman: no upstream can be reached: default: nothing accepts connections at 127.0.0.1:9; "
        "start the server, or correct --upstream or `base_url`\n"
    ) == ran.err


def test_one_dead_upstream_of_several_is_a_warning(stage, gateway) -> None:
    (stage.work / "dragoman.toml").write_text(
        f'[upstreams.good]\nbase_url = "{gateway}/v1"\n'
        '[upstreams.dead]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[[routes]]\nto = ["good/sim/plain", "dead/x"]\n',
        "utf-8",
    )

    ran = stage.run("claude")

    assert 0 == ran.code
    assert (
        "dragoman: warning: upstream dead: nothing accepts connections at 127.0.0.1:9\n" in ran.err
    )
