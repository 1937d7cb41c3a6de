"""opencode: configuration in a variable, which overrides the user's own files."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from dragoman.agents.agent import KEY_VARIABLE, Agent, LaunchSpec, Session
from dragoman.errors import ConfigError

Json: TypeAlias = dict[str, object]  # a JSON object

_PROVIDER: Final = "dragoman"
_CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
_ALWAYS: Final = {
    # The list of the world's models and new versions would be fetched from others than the gateway.
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


def launch_spec(session: Session, environ: Mapping[str, str]) -> LaunchSpec:
    """Return the configuration: the gateway as a provider, and its models.

    Raises:
        ConfigError: the user's own piece of configuration cannot be read.
    """
    small = session.small or session.model
    models: Json = {small: _model(small), session.model: _main_model(session)}
    content: Json = {
        "model": f"{_PROVIDER}/{session.model}",
        "small_model": f"{_PROVIDER}/{small}",
        "provider": {
            _PROVIDER: {
                "npm": "@ai-sdk/anthropic",
                "name": "Dragoman",
                "options": {"baseURL": f"{session.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
                "models": models,
            }
        },
    }
    whole = _merged(_own(environ), content)
    return LaunchSpec(
        variables={
            KEY_VARIABLE: session.key,
            _CONTENT: msgspec.json.encode(whole).decode(),
            **_ALWAYS,
        }
    )


def _model(name: str) -> Json:
    return {"name": name, "tool_call": True, "reasoning": True}


def _main_model(session: Session) -> Json:
    entry = _model(session.model)
    window = session.window
    if window.context and window.output:  # one without the other is refused
        entry["limit"] = {"context": window.context, "output": window.output}
    return entry


def _own(environ: Mapping[str, str]) -> Json:
    """Return what the user has in the variable already.

    Raises:
        ConfigError: it is not a JSON object.
    """
    try:
        return msgspec.json.decode(environ.get(_CONTENT) or "{}", type=Json)
    except msgspec.DecodeError as error:
        message = f"{_CONTENT} is set, but is not a JSON object to add to: {error}"
        raise ConfigError(message) from error


def _merged(under: Json, over: Json) -> Json:
    """Merge two objects as opencode merges files; values of `over` win."""
    whole = dict(under)
    for name, value in over.items():
        held = whole.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            whole[name] = _merged(held, value)
        else:
            whole[name] = value
    return whole


OPENCODE: Final = Agent(
    name="opencode",
    title="opencode",
    package="opencode-ai",
    dialect="anthropic",
    launch_spec=launch_spec,
)
