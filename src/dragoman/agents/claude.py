"""Claude Code: everything is set with environment variables.

Its own `settings.json` may set variables too, and those override the environment.  The variables are
therefore also given in a settings file on the command line, which overrides both.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dragoman.agents.agent import Agent, LaunchSpec, Session, Window

_ALWAYS: Final = {
    # A line that differs from conversation to conversation spoils an upstream's cache of prefixes.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    # Telemetry, error reports, surveys and updates would go to others than the gateway.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_MAIN: Final = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
)
_SMALL: Final = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",  # its older name
)
_ELSEWHERE: Final = (  # would select other servers or other credentials
    "ANTHROPIC_API_KEY",  # is sent beside the token, and must be confirmed at the terminal
    "ANTHROPIC_UNIX_SOCKET",
    "CLAUDE_CODE_API_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
)
_OTHER_MODELS: Final = ("CLAUDE_CODE_SUBAGENT_MODEL",)  # overrides the choice of a model


def launch_spec(session: Session, _environ: Mapping[str, str]) -> LaunchSpec:
    """Return the variables, and the settings file with which they override the user's settings."""
    variables = {
        "ANTHROPIC_BASE_URL": session.url,
        "ANTHROPIC_AUTH_TOKEN": session.key,
        **_ALWAYS,
        **_limits(session.window),
    }
    clashing = _ELSEWHERE + (_OTHER_MODELS if session.model else ())
    if session.model:
        variables |= dict.fromkeys(_MAIN, session.model)
        variables |= dict.fromkeys(_SMALL, session.small or session.model)
    settings = {"env": variables | dict.fromkeys(clashing, "")}
    return LaunchSpec(
        variables=variables,
        clashing=clashing,
        file=("--settings", msgspec.json.encode(settings).decode()),
    )


def _limits(window: Window) -> dict[str, str]:
    """Return what it must know of a model that is not its vendor's: it assumes 200,000 and 32,000 tokens."""
    limits = {}
    if window.context:
        # The first is for models whose name is not `claude-…`; the second can only lower the window, and
        # not below 100,000 tokens.
        limits["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(window.context)
        limits["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(window.context)
    if window.output:
        limits["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(window.output)
    return limits


CLAUDE: Final = Agent(
    name="claude",
    title="Claude Code",
    package="@anthropic-ai/claude-code",
    dialect="anthropic",
    launch_spec=launch_spec,
    usual=("claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5"),
    origins=("anthropic",),
)
