"""Profiles of upstreams, by name."""

from difflib import get_close_matches
from functools import lru_cache

from msgspec import structs

from dragoman.errors import ConfigError
from dragoman.profiles.catalogue import (
    ALIASES,
    DIFFERING_MODELS,
    FAMILIES_WANTING_REASONING,
    PROFILES,
    SEARCHING_MODELS,
    VENDOR_DIALECTS,
    VENDOR_MODELS,
)
from dragoman.profiles.profile import Profile


def profile(name: str) -> Profile:
    """Return a profile by its name or an alias, in any letter case.

    Args:
        name: The name or alias; docs/upstreams.md lists them.

    Raises:
        ConfigError: no profile has this name.
    """
    wanted = name.strip().lower()
    found = PROFILES.get(ALIASES.get(wanted, wanted))
    if found is None:
        near = get_close_matches(wanted, [*PROFILES, *ALIASES], n=3)
        hint = f"did you mean {' or '.join(f'`{one}`' for one in near)}; " if near else ""
        raise ConfigError(f"no profile `{name}`; {hint}there are {', '.join(sorted(PROFILES))}")
    return found


@lru_cache(maxsize=256)
def for_model(profile: Profile, name: str, family: str | None, dialect: str) -> Profile:
    """Return the profile with what it leaves to the model, for the upstream's API of `dialect`.

    `name` is the model's bare name, and `family` the key of its family.
    """
    if profile.replay_reasoning == "auto":
        replay = FAMILIES_WANTING_REASONING.get(family or "", "never")
        profile = structs.replace(profile, replay_reasoning=replay)
    if profile.vendor_tools and dialect not in VENDOR_DIALECTS.get(profile.origin, (dialect,)):
        profile = structs.replace(profile, vendor_tools=False)
    own = VENDOR_MODELS.get(dialect)
    if profile.vendor_models and own is not None and own.match(name):
        profile = structs.replace(profile, vendor_tools=True)
    if profile.requires_call_signatures and dialect in DIFFERING_MODELS:
        differing = next(facts for names, facts in DIFFERING_MODELS[dialect] if names.match(name))
        profile = structs.replace(profile, **differing)
    searching = SEARCHING_MODELS.get(profile.chat_search)
    if searching is not None:
        found = next((search for names, search in searching if names.search(name)), "")
        profile = structs.replace(profile, chat_search=found)
    return profile
