"""proxy.py as a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.servers.process import served

FOLDER_VARIABLE: Final = "DRAGOMAN_PROXY_PY"


@contextmanager
def running(credentials: str, folder: Path) -> Iterator[str]:
    """Run the proxy, and give its address."""
    with served(FOLDER_VARIABLE, "proxy_py_program.py", credentials, folder=folder, more={}) as url:
        yield url
