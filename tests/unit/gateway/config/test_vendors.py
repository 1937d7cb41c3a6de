"""Vendors by their names and by their addresses."""

import pytest

from dragoman.gateway.config.vendors import ALIASES, VENDORS, find_vendor, profile_for, vendor_at
from dragoman.profiles.catalogue import PROFILES


@pytest.mark.parametrize("name", VENDORS)
def test_a_vendor_is_found_by_its_name_and_has_a_profile(name: str) -> None:
    vendor = VENDORS[name]

    assert vendor is find_vendor(f" {name.upper()} ")
    assert vendor.profile in PROFILES


def test_every_other_name_means_a_vendor() -> None:
    assert set(ALIASES.values()) <= set(VENDORS)
    assert find_vendor("no-such-vendor") is None


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.openai.com./v1", "openai"),
        ("https://OPENROUTER.AI/api/v1", "openrouter"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("https://aiplatform.googleapis.com/v1/publishers/google", "vertex"),
        ("https://europe-west1-aiplatform.googleapis.com/v1/projects/p", "vertex"),
        ("https://notopenrouter.ai/v1", None),
        ("https://openrouter.ai.example/v1", None),
        ("http://[::1/v1", None),
        ("http://host:99999/v1", None),
    ],
)
def test_an_address_shows_its_vendor(url: str, name: str | None) -> None:
    vendor = vendor_at(url)

    assert name == next((key for key, one in VENDORS.items() if one is vendor), None)
    assert (vendor.profile if vendor else "generic") == profile_for(url)


def test_a_vendor_is_another_upstream_in_another_dialect() -> None:
    base = "https://generativelanguage.googleapis.com/v1beta"

    assert "gemini-api" == profile_for(base, "gemini")
    assert "gemini" == profile_for(f"{base}/openai", "chat")
    assert "openai" == profile_for("https://api.openai.com/v1", "chat")
