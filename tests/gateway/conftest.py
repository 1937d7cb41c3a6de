import pytest

from tests.support.gateway import Stand, stand
from tests.support.talks import Sdks


@pytest.fixture(scope="module")
def gateway() -> Stand:
    with stand() as found:
        yield found


@pytest.fixture(scope="module")
def sdks(gateway: Stand) -> Sdks:
    with Sdks(gateway.url) as clients:
        yield clients
