"""The profiles that come with the package."""

from typing import Final

from dragoman.profiles.profile import Profile

_ALL: Final = (
    Profile(name="generic", says="any server that calls itself OpenAI-compatible"),
    Profile(name="openai", says="OpenAI's own API"),
    Profile(name="anthropic", says="Anthropic's own API"),
)

PROFILES: Final[dict[str, Profile]] = {profile.name: profile for profile in _ALL}
