"""The check of an installed wheel: which commands it runs, and what its environment contains."""

import re
import time
from pathlib import Path

import pytest

from tools import dist, installation

ROOT = Path(__file__).parents[2]


def test_every_command_is_run_once_installed() -> None:
    assert sorted(installation.every_command()) == sorted(installation.RUNS)


def test_an_empty_environment_gets_only_what_pip_needs_to_reach_its_registry() -> None:
    environ = {
        "HOME": "/home/x",
        "OPENAI_API_KEY": "secret",
        "PYTHONPATH": "src",
        "DRAGOMAN_CONFIG": "x.toml",
        "PIP_CERT": "ca.pem",
        "HTTPS_PROXY": "http://proxy",
    }

    assert {"PIP_CERT", "HTTPS_PROXY"} == set(installation.clean_variables(environ))


def test_a_phase_is_printed_with_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with installation.phase("wait"):
        time.sleep(0.06)

    assert re.fullmatch(r" +0\.[1-9] s  wait\n", capsys.readouterr().out)


def test_a_phase_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), installation.phase("wait"):
        raise SystemExit

    assert "wait: FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "relative"),
    [
        ('<a href="https://x.example/a">', []),
        ('<a href="#start">', []),
        (
            '<a href="docs/gateway.md"> <img src="docs/picture.svg">',
            ["docs/gateway.md", "docs/picture.svg"],
        ),
    ],
)
def test_relative_addresses_of_a_page_are_found(page: str, relative: list[str]) -> None:
    assert relative == dist._RELATIVE.findall(page)
