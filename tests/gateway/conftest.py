import pytest

from tests.support import node
from tests.support.gateway import Stand, stand
from tests.support.odd_upstream import OddUpstream, odd_upstream
from tests.support.talks import Sdks

# The root's conftest prints it at the end of a run.
collect_ignore = ["test_node.py"] if node.missing() else []


@pytest.fixture(scope="module")
def gateway() -> Stand:
    with stand() as found:
        yield found


@pytest.fixture(scope="module")
def odd() -> OddUpstream:
    with odd_upstream() as found:
        yield found


@pytest.fixture(scope="module")
def sdks(gateway: Stand) -> Sdks:
    with Sdks(gateway.url) as clients:
        yield clients
