"""Profiles of upstreams, by name."""

from difflib import get_close_matches

from dragoman.errors import ConfigError
from dragoman.profiles.catalogue import ALIASES, PROFILES
from dragoman.profiles.profile import Profile


def profile(name: str) -> Profile:
    """Return a profile by its name or an alias, in any letter case.

    Raises:
        ConfigError: there is none of that name.
    """
    wanted = name.strip().lower()
    found = PROFILES.get(ALIASES.get(wanted, wanted))
    if found is None:
        near = get_close_matches(wanted, [*PROFILES, *ALIASES], n=3)
        hint = f"did you mean {' or '.join(f'`{one}`' for one in near)}; " if near else ""
        raise ConfigError(f"no profile `{name}`; {hint}there are {', '.join(sorted(PROFILES))}")
    return found
