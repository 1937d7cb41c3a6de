"""Addresses of gateways."""

import pytest

from dragoman.agents.gateways import address, is_loopback
from dragoman.errors import ConfigError


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8484",
        "http://127.0.0.1:8484/",
        "http://127.0.0.1:8484/v1",
        "http://127.0.0.1:8484/v1/",
    ],
)
def test_an_address_is_taken_with_and_without_v1(text: str) -> None:
    assert "http://127.0.0.1:8484" == address(text)


@pytest.mark.parametrize(
    "text",
    ["", "8484", "127.0.0.1:8484", "ftp://x", "http://", "http://x:y", "http://x?a", "http://[x"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        address(text)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost", True),
        ("http://[::1]:9", True),
        ("http://10.0.0.1", False),
        ("https://gateway.example", False),
    ],
)
def test_loopback_is_known(url: str, expected: bool) -> None:
    assert expected is is_loopback(url)
