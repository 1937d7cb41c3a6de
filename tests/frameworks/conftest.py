import os

import pytest

from tests.frameworks.running import FOLDER_VARIABLE, LOADED, FrameworkStage

collect_ignore_glob = [] if FOLDER_VARIABLE in os.environ else ["test_*.py"]

pytest.register_assert_rewrite("tests.agents.scenarios")


@pytest.fixture
def stage(tmp_path):
    return FrameworkStage(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _loaded_programs_end():
    yield
    for program in LOADED.values():
        program.close()
