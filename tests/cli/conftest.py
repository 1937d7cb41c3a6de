import os

import pytest

from dragoman.simulator.server import Simulator
from tests.support.gateway import stand


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    with stand() as found:
        yield found.simulator


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> None:
    """Run in an empty folder, in which no user's settings are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def alone(tmp_path, monkeypatch) -> None:
    """Run in an empty folder, without settings and keys of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.startswith(("DRAGOMAN_", "XDG_")) or name.endswith(("_API_KEY", "_API_BASE")):
            monkeypatch.delenv(name)
