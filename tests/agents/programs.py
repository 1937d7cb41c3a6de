"""The agents: how each is started headless, and what its tools are called."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from dragoman.agents import AGENTS
from dragoman.agents.agent import Session
from dragoman.simulator.script import ScriptCall
from tests.agents.pages import block
from tests.agents.stage import Stage


class Start(NamedTuple):
    command: list[str]
    environ: Mapping[str, str]


class Program(Protocol):
    """What a test must know of an agent."""

    name: str  # as in the table of cells
    first: int  # which answer of the conversation, as it tells it, the first one is

    def shell(self, command: str) -> ScriptCall: ...

    def write(self, stage: Stage, name: str, content: str) -> ScriptCall: ...

    def start(self, stage: Stage, url: str, model: str, prompt: str) -> Start: ...


LOOP = Path(__file__).parent / "node" / "loop.mjs"
SMALL = "small-matters"  # the model that agents request for small tasks, so that those requests can be separated


class ClaudeCode:
    name = "Claude Code"
    first = 1

    def __init__(self, retries: int | None = 1) -> None:
        """`retries`: of one request; None: as many as the agent makes by default."""
        self._retries = retries

    def shell(self, command):
        return ScriptCall(name="Bash", arguments={"command": command, "description": "Run it"})

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="Write", arguments={"file_path": path, "content": content})

    def start(self, stage, url, model, prompt):
        spec = AGENTS["claude"].launch_spec(Session(url=url, model=model, small=SMALL), {})
        flag, text = spec.file
        file = stage.folder / "settings.json"
        file.write_text(text, "utf-8")
        flags = [
            "--allowedTools",
            "Bash,Read,Write,WebSearch",
            "--output-format",
            "stream-json",
            "--verbose",
        ]
        limit = {} if self._retries is None else {"CLAUDE_CODE_MAX_RETRIES": str(self._retries)}
        return Start(
            [stage.program("claude"), flag, str(file), "-p", prompt, *flags],
            {**spec.variables, **limit, "DISABLE_AUTOUPDATER": "1"},
        )


class Codex:
    name = "Codex"
    first = 1

    def __init__(self, retries: int | None = 1) -> None:
        """`retries`: of one request; None: as many as the agent makes by default."""
        self._retries = retries

    def shell(self, command):
        return ScriptCall(name="exec_command", arguments={"cmd": command})

    def write(self, stage, name, content):
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch"
        return self.shell(f"apply_patch <<'PATCH'\n{patch}\nPATCH")

    def start(self, stage, url, model, prompt):
        spec = AGENTS["codex"].launch_spec(Session(url=url, model=model), {})
        names = () if self._retries is None else ("request_max_retries", "stream_max_retries")
        settings = [f"model_providers.dragoman.{name}={self._retries}" for name in names]
        flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return Start(
            [
                stage.program("codex"),
                "exec",
                *spec.arguments,
                *(part for one in settings for part in ("-c", one)),
                *flags,
                prompt,
            ],
            spec.variables,
        )


class Opencode:
    def __init__(self, dialect: str, package: str) -> None:
        self.name = f"opencode ({dialect})"
        self.first = 1
        self._package = package

    def shell(self, command):
        return ScriptCall(name="bash", arguments={"command": command, "description": "Run it"})

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="write", arguments={"filePath": path, "content": content})

    def start(self, stage, url, model, prompt):
        spec = AGENTS["opencode"].launch_spec(Session(url=url, model=model, small=SMALL), {})
        content = json.loads(spec.variables["OPENCODE_CONFIG_CONTENT"])
        content["provider"]["dragoman"]["npm"] = self._package
        content |= {"permission": {"*": "allow"}, "autoupdate": False}
        models = stage.folder / "models.json"
        models.write_text("{}", "utf-8")
        return Start(
            [stage.program("opencode"), "run", prompt],
            {
                **spec.variables,
                "OPENCODE_CONFIG_CONTENT": json.dumps(content),
                # A list of all models and plugins of others take 40 per cent of the time of a run; test_run.py
                # starts it with both.
                "OPENCODE_MODELS_PATH": str(models),
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_PURE": "1",
            },
        )


class QwenCode:
    name = "Qwen Code"
    first = 2  # it opens with words of its own, and an answer to them

    def shell(self, command):
        return ScriptCall(
            name="run_shell_command", arguments={"command": command, "is_background": False}
        )

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="write_file", arguments={"file_path": path, "content": content})

    def start(self, stage, url, model, prompt):
        settings = stage.home / ".qwen" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(block("Qwen Code", "json", url, model), "utf-8")
        return Start(
            [stage.program("qwen"), "-p", prompt, "--approval-mode", "yolo"],
            # It would ask a proxy for loopback too, and start itself again for more memory.
            {"HTTPS_PROXY": "", "HTTP_PROXY": "", "QWEN_CODE_NO_RELAUNCH": "true"},
        )


class GeminiCli:
    name = "Gemini CLI"
    first = 1

    def shell(self, command):
        return ScriptCall(
            name="run_shell_command", arguments={"command": command, "description": "Run it"}
        )

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="write_file", arguments={"file_path": path, "content": content})

    def start(self, stage, url, model, prompt):
        spec = AGENTS["gemini"].launch_spec(Session(url=url, model=model), {})
        variable, place, text = spec.home_file
        file = stage.home / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        flags = ["--approval-mode", "yolo", "--skip-trust"]
        return Start(
            [stage.program("gemini"), "-p", prompt, *flags],
            {
                **spec.variables,
                variable: str(stage.home),
                # It would ask a proxy for loopback too, and start itself again for more memory.
                "HTTPS_PROXY": "",
                "HTTP_PROXY": "",
                "GEMINI_CLI_NO_RELAUNCH": "true",
            },
        )


class Continue:
    name = "Continue"
    first = 1

    def shell(self, command):
        return ScriptCall(name="Bash", arguments={"command": command})

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="Write", arguments={"filepath": path, "content": content})

    def start(self, stage, url, model, prompt):
        config = stage.folder / "config.yaml"
        config.write_text(block("Continue", "yaml", url, model), "utf-8")
        return Start(
            [stage.program("cn"), "-p", prompt, "--config", str(config), "--auto"],
            {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0"},
        )


class SmallAgent:
    """Our own agent: it has two tools."""

    first = 1

    def shell(self, command):
        return ScriptCall(name="shell", arguments={"command": command})

    def write(self, stage, name, content):
        path = str(stage.work / name)
        return ScriptCall(name="write", arguments={"path": path, "content": content})


class NodeLoop(SmallAgent):
    """A small agent of this project on a vendor's SDK: node/loop.mjs."""

    def __init__(self, name: str, sdk: str) -> None:
        self.name = name
        self._sdk = sdk

    def start(self, stage, url, model, prompt):
        return Start(
            ["node", str(LOOP), self._sdk, url, model, prompt],
            {"DRAGOMAN_AGENTS": str(stage.installed)},
        )
