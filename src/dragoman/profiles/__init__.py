"""Profiles of upstreams, by name."""

from dragoman.errors import ConfigError
from dragoman.profiles.catalogue import PROFILES
from dragoman.profiles.profile import Profile


def profile(name: str) -> Profile:
    """Return a profile by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    found = PROFILES.get(name)
    if found is None:
        raise ConfigError(f"no profile `{name}`; there are {', '.join(sorted(PROFILES))}")
    return found
