"""Programs that tools/agents.py installed; without them no test runs."""

import os

import pytest

from tests.agents.stage import FOLDER_VARIABLE, Stage

collect_ignore_glob = [] if FOLDER_VARIABLE in os.environ else ["test_*.py"]

pytest.register_assert_rewrite("tests.agents.scenarios")


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def pytest_collection_modifyitems(items):
    """Begin with the tests that wait for minutes, so that others run beside them."""
    items.sort(
        key=lambda item: not (getattr(item.cls, "patient", False) and "always_fails" in item.name)
    )
