"""The page on the probe says what there is."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from dragoman.cli.probe import command
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.probe.checks import CHECKS
from dragoman.probe.run import chosen, cost

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "probe.md").read_text("utf-8")


def test_the_table_is_the_list_of_checks():
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?\?) \| (.*?) ?\|$", PAGE, re.MULTILINE)

    expected = [
        (one.name, one.asks, "" if len(one.dialects) > 2 else ", ".join(one.dialects))
        for one in CHECKS.values()
    ]
    assert expected == rows


def test_the_cost_is_the_one_on_the_page():
    names = ("chat", "anthropic", "responses")
    chat, *others = (cost(chosen((), one), one).requests for one in names)

    expected = f"About {chat} requests in Chat and {others[0]} or {others[1]} in the other dialects"
    assert expected in PAGE


def test_every_command_on_the_page_is_one():
    [block] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)

        assert ["dragoman", "probe"] == words[:2]
        command.make_context("probe", words[2:])


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_is_good(example):
    around = ConfigEnvironment(environ={}, folder=ROOT)

    assert () == make_settings(tomllib.loads(example), around).warnings
