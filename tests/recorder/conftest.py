import fcntl
from pathlib import Path

import pytest

from tests.support.recordings import record_all


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Recordings of all families and faults; the processes of a run share them."""
    if worker_id == "master":
        found = tmp_path_factory.mktemp("recordings")
        record_all(found)
        return found
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / "recordings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shared / "recordings"
        if not found.exists():
            record_all(shared / "recordings.part")
            (shared / "recordings.part").rename(found)
    return found
