import pytest

from tests.support.gateway import Stand, stand


@pytest.fixture(scope="module")
def gateway() -> Stand:
    with stand() as found:
        yield found
