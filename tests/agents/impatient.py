"""The agents of the hard table, with the same settings directly and through the gateway.

They ask a failing upstream twice more, and wait for a silent one as short as each can be configured to.
"""

import json
from collections.abc import Mapping
from typing import Final

from tests.agents.programs import (
    ClaudeCode,
    Codex,
    Continue,
    GeminiCli,
    Opencode,
    Program,
    QwenCode,
    Start,
)

_RETRIES: Final = 2
_MS: Final = 10_000  # of silence; Claude Code takes no less


class ImpatientClaudeCode(ClaudeCode):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        more = {
            "CLAUDE_CODE_MAX_RETRIES": str(_RETRIES),
            "CLAUDE_ENABLE_BYTE_WATCHDOG": "1",
            "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": str(_MS),
        }
        return Start(start.command, {**start.environ, **more})


class ImpatientCodex(Codex):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        settings = {
            "request_max_retries": _RETRIES,
            "stream_max_retries": _RETRIES,
            "stream_idle_timeout_ms": _MS,
        }
        flags = [
            part
            for name, value in settings.items()
            for part in ("-c", f"model_providers.dragoman.{name}={value}")
        ]
        *command, last = start.command
        return Start([*command, *flags, last], start.environ)


class ImpatientOpencode(Opencode):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        content = json.loads(start.environ["OPENCODE_CONFIG_CONTENT"])
        content["provider"]["dragoman"]["options"]["timeout"] = 2 * _MS
        changed = {"OPENCODE_CONFIG_CONTENT": json.dumps(content)}
        return Start(start.command, {**start.environ, **changed})


class ImpatientQwenCode(QwenCode):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        file = stage.home / ".qwen" / "settings.json"
        settings = json.loads(file.read_text("utf-8"))
        settings["model"]["generationConfig"] |= {"maxRetries": _RETRIES, "timeout": 2 * _MS}
        file.write_text(json.dumps(settings), "utf-8")
        return start


class ImpatientContinue(Continue):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        file = stage.folder / "config.yaml"
        text = file.read_text("utf-8")  # ends with the fields of its one model
        file.write_text(f"{text}    requestOptions:\n      timeout: {2 * _MS}\n", "utf-8")
        return start


class ImpatientGeminiCli(GeminiCli):
    def start(self, stage, url, model, prompt):
        start = super().start(stage, url, model, prompt)
        file = stage.home / ".gemini" / "settings.json"
        settings = json.loads(file.read_text("utf-8"))
        settings["general"] = {"maxAttempts": 1 + _RETRIES}
        file.write_text(json.dumps(settings), "utf-8")
        return start


AGENTS: Final[Mapping[str, Program]] = {
    one.name: one
    for one in (
        ImpatientClaudeCode(),
        ImpatientCodex(),
        ImpatientOpencode("Messages", "@ai-sdk/anthropic"),
        ImpatientOpencode("Chat", "@ai-sdk/openai-compatible"),
        ImpatientOpencode("Responses", "@ai-sdk/openai"),
        ImpatientQwenCode(),
        ImpatientContinue(),
        ImpatientGeminiCli(),
    )
}
