"""A file of settings, and what its variables hold."""

from pathlib import Path

EXAMPLE = """
[server]
port = 8484
keys = ["env:DRAGOMAN_KEY"]

[upstreams.openrouter]
base_url = "https://openrouter.ai/api/v1"
dialect  = "chat"
key      = "env:OPENROUTER_API_KEY"

[upstreams.local]
base_url = "http://127.0.0.1:8000/v1/"
dialect  = "chat"
profile  = "vllm"

[[routes]]
match    = { model = "claude-*haiku*" }
to       = "local/qwen3-coder-30b"

[[routes]]
match    = { model = "claude-*" }
to       = ["openrouter/moonshotai/kimi-k2-thinking", "local/glm-4.7"]
"""
ENVIRON = {"DRAGOMAN_KEY": "d", "OPENROUTER_API_KEY": "o"}


def write(folder: Path, text: str, name: str = "dragoman.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
