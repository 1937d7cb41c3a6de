"""`dragoman run`: a coding agent on any model."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs

from dragoman.agents import AGENTS
from dragoman.cli.options import load_settings, record_option, upstream_options
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.agents.agent import Agent
    from dragoman.agents.gateways import AgentGateway
    from dragoman.gateway.config.load import Flags
    from dragoman.gateway.config.settings import Secret, Settings

_HELP: Final = """Run a coding agent on any model: claude, codex, gemini or opencode.

Starts a gateway on a free port of this machine, runs the agent in this terminal with the gateway's address
and the size of its model, and stops the gateway when the agent ends.  The agent's own files are not
changed.

Upstreams come from a settings file or from flags, as for `dragoman serve`; without either the built-in
simulator answers.  With --gateway a running gateway is used and none is started.

Arguments after `--` are passed to the agent.

\b
Exit codes: the agent's own (128 plus the number of the signal that ended it), or
  2  wrong usage or settings, or the agent is not installed
  3  no gateway answers at --gateway, or no upstream can be reached

\b
Examples:
  dragoman run claude
  dragoman run claude --upstream http://127.0.0.1:8000/v1 --model qwen3-coder-30b --context 131072
  dragoman run codex --upstream https://openrouter.ai/api/v1 --model moonshotai/kimi-k2-thinking
  dragoman run gemini --upstream https://api.anthropic.com/v1 --model claude-sonnet-4-5
  dragoman run opencode --gateway http://127.0.0.1:8484 -- run "What does this project do?"
  dragoman run claude --print
"""


@click.command("run", help=_HELP, short_help="Run a coding agent on any model.")
@click.argument("name", metavar="AGENT", type=click.Choice(list(AGENTS)))
@click.argument("arguments", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--gateway", metavar="URL", help="Use this running gateway instead of starting one.")
@click.option(
    "--key-env", metavar="VAR", help="The environment variable that holds the gateway's key."
)
@upstream_options
@click.option("--model", default="", help="The model that the agent requests.")
@click.option(
    "--small-model",
    default="",
    help="The model for small tasks, such as titles.  [default: --model]",
)
@click.option(
    "--context",
    type=click.IntRange(0),
    default=0,
    help="The model's context window, in tokens.  [default: from the settings or the gateway]",
)
@click.option(
    "--output",
    type=click.IntRange(0),
    default=0,
    help="The longest response, in tokens.  [default: from the settings or the gateway]",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The gateway's log file.  [default: dragoman/run.log in $XDG_STATE_HOME or ~/.local/state]",
)
@record_option
@click.option(
    "--print",
    "shown",
    is_flag=True,
    help="Print the shell commands that start the agent the same way, and exit.",
)
def command(  # noqa: PLR0913 -- one for each flag
    name: str,
    arguments: tuple[str, ...],
    *,
    gateway: str | None,
    key_env: str | None,
    path: Path | None,
    flags: "Flags",
    model: str,
    small_model: str,
    context: int,
    output: int,
    log: Path | None,
    record: Path | None,
    shown: bool,
) -> None:
    from dragoman.agents.agent import Window
    from dragoman.agents.gateways import ModelOptions, key_from
    from dragoman.agents.launch import described, launch, without_proxy
    from dragoman.gateway.config.load import NO_FLAGS

    agent = AGENTS[name]
    program = agent.program if shown else _find(agent)
    key = None if key_env is None else key_from(key_env, os.environ)
    flags = structs.replace(
        flags,
        # With --upstream every name that the agent requests is served by this model.
        model=(model or None) if flags.upstream else None,
        record=None if record is None else str(record.absolute()),
    )
    if gateway is not None and (path or log or flags != NO_FLAGS):
        raise ConfigError(
            "--gateway uses the settings of the running gateway; remove --config, --log, --upstream…, "
            "--format, --record, --proxy and --tls-ca"
        )
    options = ModelOptions(
        model=model, small=small_model, window=Window(context=context, output=output)
    )
    with _gateway(gateway, path=path, flags=flags, key=key, log=log, checked=not shown) as found:
        session = found.session(agent, options)
        if shown:
            if not found.serve_url:
                raise ConfigError(
                    "--print: `server.port` is 0, so the gateway's port is known only once it runs; set "
                    "a port, or name a running gateway with --gateway"
                )
            session = structs.replace(session, url=found.serve_url)
            click.echo(described(agent, arguments, agent.launch_spec(session, {}), found.key))
            return
        asks = f", model {session.model}" if session.model else ""
        click.echo(f"dragoman: {agent.title} on {found.url}{asks}", err=True)
        environ = os.environ | without_proxy(session, os.environ)
        code = launch(program, arguments, agent.launch_spec(session, environ), environ)
    click.get_current_context().exit(code)


def _find(agent: "Agent") -> str:
    program = shutil.which(agent.program)
    if program is None:
        raise ConfigError(f"`{agent.program}` is not on PATH; install it with: {agent.install}")
    return program


@contextmanager
def _gateway(  # noqa: PLR0913 -- what the flags say
    gateway: str | None,
    *,
    path: Path | None,
    flags: "Flags",
    key: "Secret | None",
    log: Path | None,
    checked: bool,
) -> "Iterator[AgentGateway]":
    """Yield the running gateway that was named, or run one inside this block.

    With `checked` the upstreams are asked first: an agent would hide their failures behind its own screen.
    """
    from dragoman.agents.gateways import log_path, open_log, own_gateway, running_gateway
    from dragoman.cli.serve import simulated

    if gateway is not None:
        yield running_gateway(gateway, key)
        return
    loaded = load_settings(path, flags)
    companion = None if loaded.settings.upstreams else simulated
    if companion is not None:
        click.echo(
            "dragoman: no upstream is set: the built-in simulator answers, not a real model; "
            "set one with --upstream or `dragoman config init`",
            err=True,
        )
    elif checked:
        _check_upstreams(loaded.settings)
    log = log or log_path(os.environ)
    with (
        open_log(log) as lines,
        own_gateway(loaded.settings, key=key, log=lines, companion=companion) as found,
    ):
        click.echo(f"dragoman: gateway log: {log}", err=True)
        yield found


def _check_upstreams(settings: "Settings") -> None:
    """Warn about upstreams that cannot be used.

    Raises:
        UnreachableError: none can be reached.
    """
    import asyncio

    from dragoman.agents.gateways import UnreachableError
    from dragoman.cli.live_check import find_unusable

    unusable = asyncio.run(find_unusable(settings))
    if len(unusable) == len(settings.upstreams) and all(one.unreachable for one in unusable):
        reasons = "; ".join(one.message for one in unusable)
        raise UnreachableError(
            f"no upstream can be reached: {reasons}; start the server, or correct --upstream or `base_url`"
        )
    for one in unusable:
        click.echo(f"dragoman: warning: upstream {one.message}", err=True)
