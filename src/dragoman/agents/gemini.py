"""Gemini CLI: environment variables, and a settings file that overrides its other settings files.

With another base URL but without a chosen way to log in, it chooses one that its own check then refuses: the file
chooses the API key.  The file replaces the machine's own system settings while the agent runs.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dragoman.agents.agent import Agent, LaunchSpec, Session

_SETTINGS: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},  # would go to others than the gateway
}
_FILE: Final = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
_ELSEWHERE: Final = (  # would select other servers or other credentials
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
)


def launch_spec(session: Session, _environ: Mapping[str, str]) -> LaunchSpec:
    """Return the variables, and the settings file that one of them names.

    It asks for its own models in small tasks, whichever the user chose: the gateway needs an alias for `gemini-*`.
    """
    variables = {"GOOGLE_GEMINI_BASE_URL": session.url, "GEMINI_API_KEY": session.key}
    if session.model:
        variables["GEMINI_MODEL"] = session.model
    return LaunchSpec(
        variables=variables,
        clashing=_ELSEWHERE,
        named_file=(_FILE, msgspec.json.encode(_SETTINGS).decode()),
    )


GEMINI: Final = Agent(
    name="gemini",
    title="Gemini CLI",
    package="@google/gemini-cli",
    dialect="gemini",
    launch_spec=launch_spec,
    usual=("gemini-3-pro-preview", "gemini-3-flash-preview"),
    origins=("gemini-api", "vertex"),
)
