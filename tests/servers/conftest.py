"""What the tests stand on: servers that tools/servers.py installed, or no tests at all."""

import os

import pytest

from tests.servers.llama import FOLDER_VARIABLE, Llama, llama_settings, running
from tests.support.gateway import Stand, stand
from tests.support.talks import Sdks

collect_ignore_glob = [] if FOLDER_VARIABLE in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    """Run a server whose model calls tools as soon as it may."""
    with running("calls", tmp_path_factory.mktemp("llama"), 8192) as found:
        yield found


@pytest.fixture(scope="session")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    """Run a server whose model writes until its room is full."""
    with running("noise", tmp_path_factory.mktemp("noisy"), 65536) as found:
        yield found


@pytest.fixture(scope="session")
def gateway(llama: Llama, noisy: Llama) -> Stand:
    with stand(lambda _: llama_settings(llama, noisy)) as found:
        yield found


@pytest.fixture(scope="session")
def sdks(gateway: Stand) -> Sdks:
    with Sdks(gateway.url) as clients:
        yield clients
