"""Other gateways that take Messages and speak Chat to an upstream: how each is installed and started.

Each comes from PyPI or npm by its package's name, in the version named here, into a folder outside the tree
(`$DRAGOMAN_CACHE`, or `~/.cache/dragoman`), and runs as its documentation says, in one process, with logs off or
at their lowest level.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tools.bench.processes import Cores, Server, end
from tools.strangers import ROOT
from tools.venvs import cache, environment, locked

_INSTALL_SECONDS: Final = 900
_START_SECONDS: Final = 180.0
_MODELS: Final = ("kimi-k2", "qwen3-coder-30b")
_LITELLM_KEY: Final = (
    "sk-0123456789abcdef0123456789abcdef"  # it refuses to start without a long one
)


class Start(NamedTuple):
    """How to start a peer."""

    command: list[str]
    variables: Mapping[str, str] = {}
    headers: str = ""  # that its clients send
    model: str = ""  # that its clients name


class Peer(NamedTuple):
    """A gateway of another project."""

    name: str
    registry: str  # PyPI or npm
    package: str
    version: str
    # Takes the folder of its installation, an empty folder, a port, and the upstream's base URL.
    start: Callable[[Path, Path, int, str], Start]
    note: str = ""


# --- the gateways ---------------------------------------------------------------------------------------


def _litellm(folder: Path, work: Path, port: int, upstream: str) -> Start:
    parameters = {"model": "openai/*", "api_base": upstream, "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "*", "litellm_params": parameters}],
        "litellm_settings": {
            "telemetry": False,
            "num_retries": 0,
            "request_timeout": 60,
            # Otherwise it asks an OpenAI upstream for Responses.
            "use_chat_completions_url_for_anthropic_messages": True,
        },
        "general_settings": {"master_key": _LITELLM_KEY},
    }
    config = _written(work / "config.yaml", settings)  # JSON is YAML
    command = [str(folder / "bin" / "litellm"), "--config", config, "--host", "127.0.0.1"]
    return Start(
        [*command, "--port", str(port), "--telemetry", "False"],
        # Otherwise it fetches a price list.
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
        headers=f"authorization: Bearer {_LITELLM_KEY}\r\n",
    )


def _rosetta(folder: Path, work: Path, port: int, upstream: str) -> Start:
    settings = {
        "providers": {"openai_chat": {"api_key": "none", "base_url": upstream}},
        "models": dict.fromkeys(_MODELS, "openai_chat"),
        "server": {"host": "127.0.0.1", "port": port, "open_on_no_keys": True},
    }
    config = _written(work / "config.jsonc", settings)
    program = str(folder / "bin" / "llm-rosetta-gateway")
    return Start([program, "--config", config, "--no-banner", "--log-level", "error"])


def _claude_code_proxy(folder: Path, work: Path, port: int, upstream: str) -> Start:
    del work
    program = str(folder / "bin" / "uvicorn")
    return Start(
        [program, "server.fastapi:app", "--port", str(port), "--log-level", "error"],
        {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": upstream,
            "OPENAI_BASE_URL": upstream,
            "BIG_MODEL": _MODELS[0],
        },
        model="claude-sonnet-4-5",  # it maps the names of Claude's models alone
    )


def _claude_code_router(folder: Path, work: Path, port: int, upstream: str) -> Start:
    provider = {
        "name": "bench",
        "api_base_url": f"{upstream}/chat/completions",
        "api_key": "none",
        "models": list(_MODELS),
    }
    settings = {
        "PORT": port,
        "HOST": "127.0.0.1",
        "LOG": False,
        "NON_INTERACTIVE_MODE": True,
        "API_TIMEOUT_MS": 60_000,
        "Providers": [provider],
        "Router": {"default": f"bench,{_MODELS[0]}"},
    }
    _written(work / ".claude-code-router" / "config.json", settings)
    program = folder / "node_modules" / "@musistudio" / "claude-code-router" / "dist" / "cli.js"
    return Start(["node", str(program), "start"])


def _portkey(folder: Path, work: Path, port: int, upstream: str) -> Start:
    del work
    program = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    return Start(
        ["node", str(program), f"--port={port}", "--headless"],
        headers="x-portkey-provider: openai\r\n"
        f"x-portkey-custom-host: {upstream}\r\n"
        "authorization: Bearer none\r\n",
    )


PEERS: Final = (
    Peer("LiteLLM", "PyPI", "litellm[proxy]", "", _litellm, "version as tests/servers pins it"),
    Peer("llm-rosetta", "PyPI", "llm-rosetta[gateway]", "0.13.0", _rosetta),
    Peer(
        "claude-code-proxy", "PyPI", "claude-code-proxy", "0.1.5", _claude_code_proxy, "on LiteLLM"
    ),
    Peer(
        "claude-code-router",
        "npm",
        "@musistudio/claude-code-router",
        "2.0.0",
        _claude_code_router,
        "version 3 needs Node 22",
    ),
    Peer("Portkey", "npm", "@portkey-ai/gateway", "1.15.2", _portkey),
)
# Looked for, and not measured; each with the reason.
MISSING: Final = {
    "Bifrost": "the npm package @maximhq/bifrost downloads its program from another site",
    "any-llm": "any-llm-sdk on PyPI has no gateway, and otari on PyPI is only its client",
    "anthropic-proxy": "the npm registry does not have it",
    "local-openai2anthropic": "PyPI does not have it",
    "lm-proxy": "takes Chat requests, not Messages",
    "ccproxy-api": "uses accounts of Claude and Codex, not a Chat server",
}


def _written(path: Path, settings: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings), encoding="utf-8")
    return str(path)


# --- installation ---------------------------------------------------------------------------------------


def install(peer: Peer) -> Path | str:
    """Return the folder of a peer, installed if needed, or why that is not possible."""
    if peer.name == "LiteLLM":
        folder = environment("servers", ROOT / "tests" / "servers" / "litellm.txt")
        return folder or "cannot be installed"
    if peer.registry == "npm" and not shutil.which("npm"):
        return "needs Node and npm"
    base = cache() / "peers"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f"{peer.name}-{peer.version}"
    log = base / f"{folder.name}.log"
    with locked(base / f"{peer.name}.lock"), log.open("ab") as out:
        if (folder / ".ready").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {peer.package} {peer.version} into {folder} (once)", flush=True)
        for command in _commands(peer, folder):
            try:
                subprocess.run(
                    command, stdout=out, stderr=out, check=True, timeout=_INSTALL_SECONDS
                )
            except (OSError, subprocess.SubprocessError) as error:
                return f"cannot be installed: {error}; the log is {log}"
        (folder / ".ready").touch()
    return folder


def _commands(peer: Peer, folder: Path) -> Iterator[list[str]]:
    if peer.registry == "npm":
        yield ["mkdir", "-p", str(folder)]
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
        yield ["npm", "install", *options, f"{peer.package}@{peer.version}"]
        return
    yield [sys.executable, "-m", "venv", str(folder)]
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    yield [*pip, "--only-binary=:all:", f"{peer.package}=={peer.version}"]


def version_of(peer: Peer, folder: Path) -> str:
    """Return the installed version."""
    if peer.version:
        return peer.version
    package = peer.package.partition("[")[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    ran = subprocess.run(
        [str(folder / "bin" / "python"), "-c", code], capture_output=True, text=True, check=False
    )
    return ran.stdout.strip()


# --- processes ------------------------------------------------------------------------------------------


@contextmanager
def running(peer: Peer, folder: Path, work: Path, upstream: str, cores: Cores) -> Iterator[Server]:
    """Run a peer on the measured core.

    Raises:
        RuntimeError: it does not serve in time.
    """
    work.mkdir(parents=True)
    port = _free_port()
    start = peer.start(folder, work, port, upstream)
    variables = {"PATH": os.environ["PATH"], "HOME": str(work), **start.variables}
    with (
        (work / "log").open("wb") as log,
        subprocess.Popen(
            start.command,
            cwd=work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        ) as child,
    ):
        try:
            cores.pin(child.pid, measured=True)
            _wait(child, port, work / "log")
            yield Server(child.pid, port, headers=start.headers, model=start.model)
        finally:
            end(child)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(child: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until the port accepts connections."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            break
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    tail = log.read_text("utf-8", "replace")[-300:]
    raise RuntimeError(f"it does not start: {tail}")
