"""Codex: flags that override its `config.toml`; all other settings of that file still apply."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dragoman.agents.agent import KEY_VARIABLE, Agent, LaunchSpec, Session

_PROVIDER: Final = "dragoman"
_ALWAYS: Final[dict[str, str | bool]] = {
    "model_provider": _PROVIDER,
    f"model_providers.{_PROVIDER}.name": "Dragoman",
    f"model_providers.{_PROVIDER}.env_key": KEY_VARIABLE,
    f"model_providers.{_PROVIDER}.wire_api": "responses",
    # Usage reports, and questions for updates and plugins, would go to others than the gateway.
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "features.plugins": False,
}


def launch_spec(session: Session, _environ: Mapping[str, str]) -> LaunchSpec:
    """Return the flags, and the variable that holds the key."""
    values: dict[str, str | bool | int] = {
        **_ALWAYS,
        f"model_providers.{_PROVIDER}.base_url": f"{session.url}/v1",
    }
    if session.model:
        values["model"] = session.model
    if session.window.context:
        values["model_context_window"] = session.window.context
    flags = [("-c", f"{name}={_toml(value)}") for name, value in values.items()]
    return LaunchSpec(
        variables={KEY_VARIABLE: session.key},
        arguments=tuple(part for flag in flags for part in flag),
    )


def _toml(value: str | bool | int) -> str:  # noqa: FBT001 -- a value of any kind
    """Return a value as TOML, which is JSON for texts, numbers and booleans."""
    return msgspec.json.encode(value).decode()


CODEX: Final = Agent(
    name="codex",
    title="Codex",
    package="@openai/codex",
    dialect="responses",
    launch_spec=launch_spec,
)
