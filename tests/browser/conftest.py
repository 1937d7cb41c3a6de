"""A browser, pages that notice every error, and servers to look at."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.servers import Served, inspect_folder
from tests.browser.story import record_story

VARIABLE = "DRAGOMAN_CHROMIUM"
expect.set_options(timeout=20_000)
collect_ignore_glob = [] if VARIABLE in os.environ else ["test_*.py"]

# Reports what the content-security policy blocked.
_WATCH_POLICY = """
addEventListener("securitypolicyviolation", (event) => console.error("CSP", event.violatedDirective, event.blockedURI));
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Chromium has no sandbox for root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=os.environ[VARIABLE], args=options)
        yield found
        found.close()


class Watched:
    """Contexts whose pages report errors; `expected` are parts of messages that do not fail the test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []
        self.expected: list[str] = []

    def page(self, width: int = 1440, height: int = 900, **options: object) -> Page:
        size = {"width": width, "height": height}
        context = self._browser.new_context(viewport=size, **options)
        context.add_init_script(_WATCH_POLICY)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    @property
    def unexpected(self) -> list[str]:
        return [one for one in self.errors if not any(part in one for part in self.expected)]


@pytest.fixture
def watched(browser: Browser, inspect) -> Iterator[Watched]:
    """Pages; they are closed before the servers of the test stop."""
    found = Watched(browser)
    yield found
    found.close()
    assert found.unexpected == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """A page of 1440 x 900; any error in it fails the test."""
    return watched.page()


@pytest.fixture
def phone(watched: Watched) -> Page:
    return watched.page(390, 844, has_touch=True)


@pytest.fixture
def inspect() -> Iterator[Callable[[Path], Served]]:
    """Starts `dragoman inspect` over a folder."""
    servers: list[Served] = []

    def start(folder: Path, port: int = 0) -> Served:
        servers.append(inspect_folder(folder, port))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings of an agent's run, and of exchanges that went wrong."""
    folder = tmp_path_factory.mktemp("recordings")
    record_story(folder)
    return folder


@pytest.fixture(scope="session")
def story(recordings: Path) -> Iterator[Served]:
    """`dragoman inspect` over `recordings`; tests that use it change nothing in the folder."""
    found = inspect_folder(recordings)
    yield found
    found.stop()
