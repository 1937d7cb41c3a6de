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
