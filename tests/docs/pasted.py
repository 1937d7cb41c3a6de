"""Runs the commands of pages and `--help` texts as a reader pastes them, with the simulator as every upstream."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from dragoman.cli.main import main as dragoman

SECONDS = 60.0
AGENTS = ("claude", "codex", "gemini", "opencode")
# Addresses of upstreams; the simulator answers at all of them.
UPSTREAMS = re.compile(
    r"https://(?:openrouter\.ai/api|api\.anthropic\.com|api\.moonshot\.ai)/v1"
    r"|(?:http://)?(?:127\.0\.0\.1|gpu|localhost):(?:8000|8485)/v1"
)
KEYS = ("OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "MOONSHOT_API_KEY", "OPENAI_API_KEY")
# Commands that serve until they are stopped, with the option that makes them use a free port.
SERVING = {
    "dragoman serve": " --port 0",
    "dragoman simulate": " --port 0",
    "dragoman inspect": " --port 0",
    "dragoman replay --serve": " --port 0",
    "dragoman mcp --http": " --http 0",
}
# It follows a gateway until it is stopped: only its options are parsed.
FOLLOWS = "dragoman tail"
SETTINGS = "dragoman.toml"
RECORDED = Path(__file__).parents[1] / "corpus/anthropic/worked_thinking_text_tool/stream.sse"
RECORDING = Path(__file__).parents[1] / "recorder/recording.dragoman"
# Files that examples name; they are written when a command does.
FILES = {
    SETTINGS: """
[upstreams.local]
base_url = "http://127.0.0.1:8000/v1"
dialect = "chat"
models = ["sim/plain"]

[[routes]]
match.model = "*"
to = ["local/*"]
""",
    # JSON is YAML too, and needs no package.
    "litellm.yaml": """{"model_list": [{"model_name": "m", "litellm_params": {"model": "openrouter/m"}}]}""",
    "config.json": """{"Providers": [{"name": "openrouter", "models": ["m"],
 "api_base_url": "https://openrouter.ai/api/v1/chat/completions"}],
 "Router": {"default": "openrouter,m"}}""",
    "replies.toml": '[[replies]]\ntext = "Hi."\n',
    "tools.json": '[{"name": "ls", "input_schema": {"type": "object"}}]',
    "answer.txt": "<tool_call>\n<function=ls>\n</function>\n</tool_call>",
    "request.json": """{"model": "m", "stream": true, "max_tokens": 99,
 "messages": [{"role": "user", "content": "Hi"}]}""",
    "recorded.sse": RECORDED.read_text("utf-8"),
    "recording.dragoman": RECORDING.read_text("utf-8"),
    "traffic.har": """{"log": {"entries": [{"startedDateTime": "2026-01-02T03:04:05Z", "time": 1,
 "request": {"method": "POST", "url": "https://api.example/v1/messages", "headers": [],
  "postData": {"text": "{\\"model\\": \\"m\\", \\"max_tokens\\": 9, \\"messages\\": []}"}},
 "response": {"status": 200, "headers": [], "content": {"text": "{}"}}}]}}""",
    "answer.json": """{"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
 "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
 "usage": {"input_tokens": 1, "output_tokens": 1}}""",
}
_READS_SETTINGS = re.compile("dragoman (config (check|show)|probe local)")
_LISTENS = re.compile(r"http://127\.0\.0\.1:\d+")


class Example(NamedTuple):
    typed: str
    shown: str = ""  # the output; `…` matches any text, and no output is not compared


def examples(text: str) -> Iterator[Example]:
    """Yield the commands of a text; one continues while a quote is open, or after `\\` or `|`."""
    console = re.search(r"^\$ ", text, re.MULTILINE) is not None
    lines = deque(text.splitlines())
    while lines:
        typed = lines.popleft().removeprefix("$ ")
        while typed.count("'") % 2 or typed.endswith(("\\", "|")):
            typed += "\n" + lines.popleft()
        shown = []
        while console and lines and not lines[0].startswith("$ "):
            shown.append(lines.popleft())
        if typed.strip() and not typed.startswith("#"):
            yield Example(typed, "\n".join(shown))


class Stage:
    """A folder with the files that examples name, agents on PATH that only report their start, and addresses."""

    def __init__(self, folder: Path, simulator: str, gateway: str) -> None:
        self.folder = folder
        self._simulator = simulator
        self._gateway = gateway
        programs = folder / "programs"
        programs.mkdir()
        (folder / "recordings").mkdir()
        for name in AGENTS:
            (programs / name).write_text('#!/bin/sh\necho "started ${0##*/}"\n')
            (programs / name).chmod(0o755)
        self._environ = {
            "PATH": os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **dict.fromkeys(KEYS, "any"),
        }

    def check(self, example: Example) -> None:
        """Run a command, and compare its output with the output that is shown."""
        printed = self.run(example.typed)
        pattern = ".*".join(map(re.escape, example.shown.split("…")))

        assert not example.shown or re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL), printed

    def run(self, command: str) -> str:
        """Run a command and return what it printed; a server is stopped when it listens.

        Raises:
            AssertionError: the exit code is not 0.
        """
        self._write_files(command)
        command = UPSTREAMS.sub(f"{self._simulator}/v1", command)
        for path in self.folder.glob("*.toml"):  # also those that an earlier command wrote
            path.write_text(UPSTREAMS.sub(f"{self._simulator}/v1", path.read_text("utf-8")))
        command = command.replace("http://127.0.0.1:8484", self._gateway)
        if shutil.which("jq") is None:
            command = re.sub(r" \| jq (\.\w+|'[^']*')$", "", command)
        for start, free_port in SERVING.items():
            if is_serving(command, start):
                return self._serve(command.partition("  #")[0] + free_port)
        if command.startswith("dragoman probe") and not re.search("--(list|only)", command):
            command = command.partition("  #")[0] + " --yes --only reach,tools-auto"
        if command.startswith(FOLLOWS):
            command = command.partition("  #")[0] + " --help"
        words = shlex.split(command, comments=True)
        if words[0] == "dragoman" and words[1] not in ("run", "mcp") and not {"|", "<"} & {*words}:
            return self._invoke(words[1:])
        return self._shell(command)

    def _write_files(self, command: str) -> None:
        """Write the files that a command names, or reads without naming them."""
        for name, text in FILES.items():
            named = re.search(rf"(?<!--output )(?<!\S)(?:~/|@)?(\S*\b{re.escape(name)})", command)
            path = self.folder / (named[1] if named else name)
            if (
                named or (name == SETTINGS and _READS_SETTINGS.match(command))
            ) and not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(UPSTREAMS.sub(f"{self._simulator}/v1", text))

    def _invoke(self, words: list[str]) -> str:
        """Run one command in this process, which saves the time of starting another."""
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(
                dragoman,
                [re.sub("^~", str(self.folder), word) for word in words],
                env={**self._environ, "XDG_CONFIG_HOME": None, "DRAGOMAN_CONFIG": None},
                catch_exceptions=False,
            )
        finally:
            os.chdir(before)
        assert 0 == done.exit_code, done.output
        return done.output

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            text=True,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def _serve(self, command: str) -> str:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            printed = ""
            while not _LISTENS.search(printed) and (line := process.stdout.readline()):
                printed += line
            process.terminate()
            printed += process.communicate()[0]
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
        assert _LISTENS.search(printed), printed
        assert 0 == process.returncode, printed
        return printed


def is_serving(command: str, start: str) -> bool:
    """Return whether a command is one of `SERVING`."""
    program, _, flag = start.partition(" --")
    if not command.startswith(program) or "--list" in command:
        return False
    return not flag or f"--{flag}" in command
