"""The page on upstreams: its lines are good settings, and its profiles and addresses are known."""

import re
import tomllib
from pathlib import Path

import pytest

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.vendors import VENDORS
from dragoman.profiles.catalogue import PROFILES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "upstreams.md").read_text("utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
ROWS = {*re.findall(r"^\| [^|]+ \| `([\w-]+)` \|", PAGE, re.MULTILINE)} - {"profile"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_lines_are_good_and_name_the_usual_address_and_key(example: str) -> None:
    environ = dict.fromkeys(re.findall(r"env:(\w+)", example), "value")
    (upstream,) = tomllib.loads(example)["upstreams"].values()
    vendor = VENDORS[upstream["profile"]]

    assert (
        ()
        == make_settings(
            tomllib.loads(example), ConfigEnvironment(environ=environ, folder=ROOT)
        ).warnings
    )
    assert vendor.base_url == upstream["base_url"]
    assert ({vendor.key_variable} if vendor.key_variable else set()) == {*environ}


def test_every_profile_of_a_known_vendor_has_a_row() -> None:
    assert ROWS <= {*PROFILES}
    assert {vendor.profile for vendor in VENDORS.values()} - {"generic"} == ROWS
