"""Install the wheel into an empty environment, and run every command of the installed program.

    python -m tools.installation

The environment has an empty home folder and no cache, and gets no variable of this shell except those by which pip
reaches its registry.  From `pip install` to the first tool call may take `MAX_SECONDS`.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click
from tools.dist import LOCK, ROOT, build
from tools.venvs import environment

from dragoman.cli.main import main as dragoman

MAX_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 120.0  # after which a command hangs
_REGISTRY_VARIABLES: Final = ("PIP_", "SSL_CERT_")
_PROXY_VARIABLES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

_KIMI: Final = (
    "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|>'
)
_REQUEST: Final = json.dumps(
    {
        "model": "claude-sonnet-4-5",
        "max_tokens": 512,
        "messages": [{"role": "user", "content": "Which files are here?"}],
        "tools": [
            {
                "name": "bash",
                "input_schema": {
                    "type": "object",
                    "required": ["command"],
                    "properties": {"command": {"type": "string"}},
                },
            }
        ],
    }
)
_RECORDING: Final = shlex.quote(str(ROOT / "tests" / "recorder" / "recording.dragoman"))
_CHAT_STREAM: Final = (
    'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"Hello."},'
    '"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def main() -> int:
    if missing := set(every_command()) ^ set(RUNS):
        print(f"RUNS and the program's commands differ: {', '.join(sorted(missing))}")
        return 1
    tools = environment("dist", LOCK)
    if tools is None:
        return 1
    with tempfile.TemporaryDirectory(prefix="dragoman-install-") as name:
        folder = Path(name)
        with phase("build the wheel"):
            wheel = build(tools, folder / "dist")
        installed, seconds = install(folder / "first", wheel)
        if seconds > MAX_SECONDS:
            print("this took too long; once more, because the registry may have been slow")
            installed, seconds = install(folder / "second", wheel)
        if seconds > MAX_SECONDS:
            print(f"the first tool call took more than {MAX_SECONDS:.0f} s twice")
            return 1
        for words, run in RUNS.items():
            with phase(f"dragoman {words}"):
                installed.run(f"{words} --help", expected="Usage: dragoman")
                run(installed)
    print(f"\n{len(RUNS)} commands run from the installed wheel")
    return 0


def install(folder: Path, wheel: Path) -> "tuple[Installation, float]":
    """Install the wheel into an empty environment; also return the seconds until the first tool call."""
    with phase("create an empty environment"):
        installed = Installation(folder, wheel)
    begun = time.monotonic()
    with phase(f"pip install {wheel.name}"):
        installed.pip(str(wheel))
    with ExitStack() as stack:
        with phase("dragoman serve, until it listens"):
            url = stack.enter_context(installed.started("serve --port 0"))
        with phase("the first tool call"):
            first_tool_call(url)
        seconds = time.monotonic() - begun
    print(f"{seconds:6.1f} s  from `pip install` to the first tool call\n", flush=True)
    return installed, seconds


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Print how long a block took."""
    begun = time.monotonic()
    try:
        yield
    except BaseException:
        print(f"{time.monotonic() - begun:6.1f} s  {name}: FAILED", flush=True)
        raise
    print(f"{time.monotonic() - begun:6.1f} s  {name}", flush=True)


class Installation:
    """An environment of one wheel, in which commands run."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.wheel = wheel
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.bin = folder / "venv" / "bin"
        venv.create(folder / "venv", with_pip=True)
        self.variables = clean_variables(os.environ)
        self.variables |= {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin"}

    def pip(self, what: str) -> None:
        words = ["-m", "pip", "install", "--quiet", "--no-cache-dir", what]
        done = self._completed([str(self.bin / "python"), *words], "", 600.0)
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}pip cannot install {what}")

    def run(self, words: str, given: str = "", *, expected: str = "", code: int = 0) -> str:
        """Run a command to its end and return what it printed.

        Exits if the exit code is another, or if `expected` is missing in the output.
        """
        command = [str(self.bin / "dragoman"), *shlex.split(words)]
        done = self._completed(command, given, _COMMAND_SECONDS)
        output = done.stdout + done.stderr
        if done.returncode != code or expected not in output:
            sys.exit(f"dragoman {words} exits with {done.returncode} and prints:\n{output}")
        return done.stdout

    @contextmanager
    def started(self, words: str) -> Iterator[str]:
        """Start a server; yields the address in the first line that it prints, and stops it."""
        with self.opened(words) as process:
            first = process.stdout.readline()
            address = next((one for one in first.split() if one.startswith("http://")), "")
            if not address:
                sys.exit(f"dragoman {words} prints {first!r}")
            yield address.rstrip(",")
            process.terminate()
            if process.wait(_COMMAND_SECONDS):
                sys.exit(f"dragoman {words} exits with {process.returncode} after SIGTERM")

    @contextmanager
    def opened(self, words: str) -> Iterator["subprocess.Popen[str]"]:
        with subprocess.Popen(
            [str(self.bin / "dragoman"), *shlex.split(words)],
            cwd=self.home,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _completed(
        self, command: list[str], given: str, seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            input=given,
            cwd=self.home,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def clean_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which pip reaches its registry."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_REGISTRY_VARIABLES) or name.lower() in _PROXY_VARIABLES
    }


def post(url: str, body: str) -> Any:
    request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return json.load(response)


def first_tool_call(url: str) -> None:
    answer = post(f"{url}/v1/messages", _REQUEST)
    kinds = [block["type"] for block in answer["content"]]
    if answer["stop_reason"] != "tool_use" or "tool_use" not in kinds:
        sys.exit(f"there is no tool call in {answer}")


# --- a real run of each command ------------------------------------------------------------------------

Run = Callable[[Installation], object]


def prints(words: str, expected: str, given: str = "") -> Run:
    return lambda installed: installed.run(words, given, expected=expected)


def _check(installed: Installation) -> None:
    stream = installed.run("translate --from chat --to anthropic", _CHAT_STREAM)
    installed.run("check --dialect anthropic", stream)
    installed.run("check --dialect anthropic", stream.replace("message_start", "message"), code=1)


def _mcp(installed: Installation) -> None:
    installed.run("mcp", code=2, expected="dragoman[mcp]")
    installed.pip("dragoman[mcp]")  # as the message above says
    with installed.opened("mcp") as server:
        client = {"name": "installation", "version": "1"}
        _ask(
            server,
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        _notify(server, "notifications/initialized")
        call = {"name": "parse_tool_calls", "arguments": {"text": _KIMI, "format": "kimi_k2"}}
        answer = _ask(server, "tools/call", call)
        if answer["structuredContent"]["tool_calls"][0]["name"] != "bash":
            sys.exit(f"the MCP server answers {answer}")


def _ask(server: "subprocess.Popen[str]", method: str, parameters: dict[str, Any]) -> Any:
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": parameters}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == method and "result" in answer:
            return answer["result"]
        if answer.get("id") == method:
            break
    return sys.exit(f"the MCP server does not answer {method}")


def _notify(server: "subprocess.Popen[str]", method: str) -> None:
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method}) + "\n")


def _run(installed: Installation) -> None:
    """Run a program in the place of Claude Code, which sends one request to the gateway."""
    agent = installed.bin / "claude"
    text = (ROOT / "tests" / "support" / "fake_agent.py").read_text("utf-8")
    agent.write_text(f"#!{installed.bin / 'python'}\n{text}", "utf-8")
    agent.chmod(0o755)
    written = installed.home / "agent.json"
    installed.variables["FAKE_OUT"] = str(written)
    installed.run("run claude")
    if json.loads(written.read_text("utf-8"))["status"] != 200:
        sys.exit(f"the agent received {written.read_text('utf-8')}")
    agent.unlink()


def _simulate(installed: Installation) -> None:
    with installed.started("simulate --port 0") as url:
        first_tool_call(url)


def _serve(installed: Installation) -> None:
    with installed.started("serve --port 0 --workers 2") as url:
        first_tool_call(url)


def _inspect(installed: Installation) -> None:
    folder = shlex.quote(str(ROOT / "tests" / "recorder"))
    with (
        installed.started(f"inspect --port 0 {folder}") as url,
        urllib.request.urlopen(f"{url}/api/exchanges", timeout=60) as page,
    ):
        assert json.load(page)["total"] == 1


def _config_init(installed: Installation) -> None:
    installed.run("config init --vendor openrouter")
    installed.variables["OPENROUTER_API_KEY"] = "any"


def _config_import(installed: Installation) -> None:
    file = installed.home / "router.json"
    provider = {"name": "local", "api_base_url": "http://127.0.0.1:8000/v1/chat/completions"}
    provider |= {"api_key": "any", "models": ["qwen3-coder-30b"]}
    router = {"Providers": [provider], "Router": {"default": "local,qwen3-coder-30b"}}
    file.write_text(json.dumps(router), "utf-8")
    installed.run(f"config import {file.name}", expected="qwen3-coder-30b")


# In this order: `config init` writes the settings that the commands after it read.
RUNS: Final[dict[str, Run]] = {
    "parse": prints("parse --model kimi-k2", '"name":"bash"', _KIMI),
    "translate": prints("translate --from anthropic --to chat --request", '"tools"', _REQUEST),
    "check": _check,
    "formats": prints("formats", "kimi_k2"),
    "formats check": prints("formats check kimi_k2", "passed"),
    "models": prints("models", "kimi-k2"),
    "simulate": _simulate,
    "serve": _serve,
    "run": _run,
    "probe": prints("probe --yes", " ok"),
    "show": prints(f"show {_RECORDING}", "request"),
    "replay": prints(f"replay {_RECORDING}", "data:"),
    "diff": prints(f"diff {_RECORDING}", ""),
    "case": prints(f"case --pytest --out cases {_RECORDING}", "test_"),
    "import": prints("import --help", "HAR"),
    "inspect": _inspect,
    "tail": prints("tail --help", "gateway"),
    "doctor": prints("doctor --offline", "versions"),
    "config": prints("config --help", "Usage"),
    "mcp": _mcp,
    "config init": _config_init,
    "config check": prints("config check", ""),
    "config show": prints("config show", "openrouter"),
    "config import": _config_import,
}


def every_command() -> list[str]:
    """Return the names of all commands, and of the commands below them."""
    context = click.Context(dragoman)
    found = []
    for name in dragoman.list_commands(context):
        found.append(name)
        command = dragoman.get_command(context, name)
        if isinstance(command, click.Group):
            found += [f"{name} {below}" for below in command.list_commands(context)]
    return found


if __name__ == "__main__":
    sys.exit(main())
