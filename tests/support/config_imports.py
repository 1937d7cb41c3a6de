"""`dragoman config import` over the files of other gateways in tests/cli/imports."""

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main

FILES = Path(__file__).parents[1] / "cli" / "imports"


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["config", *map(str, arguments)], env=environ)


def convert(file):
    if file.suffix == ".yaml":
        pytest.importorskip("yaml")
    result = run("import", file)
    assert 0 == result.exit_code, result.output
    return result


def settings(file):
    return tomllib.loads(convert(file).stdout)


def lost(file):
    """Return what was not carried over, by its place in the file."""
    lines = re.findall(r"  not carried over: (.*)", convert(file).stderr)
    return dict(line.split(": ", 1) for line in lines)
