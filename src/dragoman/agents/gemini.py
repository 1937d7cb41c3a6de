"""Gemini CLI: environment variables, and a home folder with a settings file.

With another base URL but without a chosen way to log in, it chooses one that its own check then refuses: the file
chooses the API key.  Its system settings cannot: it reads only those that belong to root, in folders that no one
else may change.  The user's own settings and history are in another folder, and are not used.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dragoman.agents.agent import Agent, LaunchSpec, Session

_SETTINGS: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},  # would go to others than the gateway
}
_HOME: Final = "GEMINI_CLI_HOME"
_ELSEWHERE: Final = (  # would select other servers or other credentials
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
)


def launch_spec(session: Session, _environ: Mapping[str, str]) -> LaunchSpec:
    """Return the variables, and the settings file in the home folder that one of them names.

    It asks for its own models in small tasks, whichever the user chose: the gateway needs an alias for `gemini-*`.
    """
    variables = {"GOOGLE_GEMINI_BASE_URL": session.url, "GEMINI_API_KEY": session.key}
    if session.model:
        variables["GEMINI_MODEL"] = session.model
    return LaunchSpec(
        variables=variables,
        clashing=_ELSEWHERE,
        home_file=(_HOME, ".gemini/settings.json", msgspec.json.encode(_SETTINGS).decode()),
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
