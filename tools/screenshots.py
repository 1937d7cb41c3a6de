"""Take the pictures of the inspector in docs/images, in light and dark.

    python -m tools.screenshots

The exchanges are those of tests/browser/story.py, recorded by a real gateway over the simulator.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.servers import Served, inspect_folder
from tests.browser.story import BREAK, FALLBACK, TITLE, record_story
from tools.browser import find_chromium
from tools.strangers import ROOT

IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 1280
PHONE: Final = {"width": 390, "height": 760}
PASTED: Final = (
    "I look at the tests first.<|tool_calls_section_begin|><|tool_call_begin|>functions.Bash:0"
    '<|tool_call_argument_begin|>{"command": "pytest -q tests/test_dates.py"}<|tool_call_end|>'
    "<|tool_calls_section_end|>"
)


def show_list(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/inspector/exchanges")
    page.wait_for_selector(".row .cover[href]")


def show_exchange(page: Page, served: Served) -> None:
    rows = httpx2.get(f"{served.url}/inspector/api/exchanges?upstream=moonshot").json()["rows"]
    page.goto(f"{served.url}/inspector/exchanges/{rows[0]['id']}?sel=call:1")
    page.wait_for_selector(".linked .ev")


def show_conversation(page: Page, served: Served) -> None:
    rows = httpx2.get(f"{served.url}/inspector/api/conversations").json()["rows"]
    found = next(row for row in rows if row["title"] == TITLE)
    page.goto(f"{served.url}/inspector/conversations/{found['id']}")
    page.wait_for_selector(f"#turn-{FALLBACK}")
    page.locator(f"#turn-{BREAK}").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 0)")


def show_playground(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/inspector/playground?family=kimi_k2&size=12")
    page.locator("textarea").first.fill(PASTED)


# Each view with the height of its picture, which keeps a file below 150 KB.
VIEWS: Final[dict[str, tuple[int, Callable[[Page, Served], None]]]] = {
    "list": (590, show_list),
    "exchange": (660, show_exchange),
    "conversation": (720, show_conversation),
    "playground": (720, show_playground),
}


def take(browser: Browser, served: Served, name: str, size: dict[str, int], scheme: str) -> None:
    """Write the picture of a view."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    VIEWS[name][1](page, served)
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)
    phone = "-phone" if size is PHONE else ""
    file = IMAGES / f"inspector-{name}{phone}-{scheme}.png"
    page.screenshot(path=file)
    context.close()
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KB")


def main() -> int:
    program = find_chromium()
    if program is None:
        print("Chromium is missing; `make test-browser` installs it where it may")
        return 1
    IMAGES.mkdir(exist_ok=True)
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        record_story(Path(folder))
        served = inspect_folder(Path(folder))
        browser = playwright.chromium.launch(executable_path=program, args=options)
        for scheme in ("light", "dark"):
            for name, (height, _) in VIEWS.items():
                take(browser, served, name, {"width": WIDTH, "height": height}, scheme)
            take(browser, served, "list", PHONE, scheme)
        browser.close()
        served.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
