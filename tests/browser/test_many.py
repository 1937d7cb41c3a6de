"""Ten thousand exchanges: the list paints as fast as with a hundred, and loads only what is looked at."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Served, copies, inspect_folder

MANY = 10_000
FEW = 100
LOADS = 7
MOST_ELEMENTS = 80
# The time from the start of the navigation to the paint of the first rows.
_WATCH_PAINT = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".row .cover[href]")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => document.documentElement.dataset.painted = performance.now()));
}).observe(document, { childList: true, subtree: true, attributes: true });
"""


def paint_time(page: Page, served: Served) -> float:
    page.goto(f"{served.url}/inspector/exchanges")
    return float(page.locator("html[data-painted]").get_attribute("data-painted") or 0)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, recordings: Path) -> Iterator[list[Served]]:
    """Servers over many and over few exchanges; both have read their folders."""
    found = []
    for count in (MANY, FEW):
        folder = tmp_path_factory.mktemp("copies")
        copies(recordings, folder, count)
        found.append(inspect_folder(folder))
        answer = httpx2.get(f"{found[-1].url}/inspector/api/exchanges", timeout=60)
        assert answer.json()["total"] == count
    yield found
    for one in found:
        one.stop()


def test_ten_thousand_exchanges_paint_like_a_hundred(
    page: Page, servers: list[Served], record_property
) -> None:
    page.add_init_script(_WATCH_PAINT)
    many, few = servers
    times = [(paint_time(page, many), paint_time(page, few)) for _ in range(LOADS)]

    ratio = median(one for one, _ in times) / median(other for _, other in times)
    record_property("paint_ratio", round(ratio, 2))
    record_property("paint_ms", [round(one) for one, _ in times])
    assert ratio < 2.5
    assert median(one for one, _ in times) < 1000


def test_only_what_is_looked_at_is_loaded(page: Page, servers: list[Served]) -> None:
    many, _ = servers
    asked: list[str] = []
    page.on(
        "request", lambda request: "/api/exchanges?" in request.url and asked.append(request.url)
    )
    page.goto(f"{many.url}/inspector/exchanges")
    expect(page.locator(".count")).to_have_text("10,000 exchanges")
    assert page.evaluate("document.querySelector('.virtual').offsetHeight") == MANY * 32

    page.evaluate("scrollTo(0, 5000 * 32)")
    expect(page.locator(".cover[data-id=req_copy005000]")).to_be_visible()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(".cover[data-id=req_copy009999]")).to_be_visible()
    for top in range(0, 3000, 300):
        page.evaluate(f"scrollTo(0, {top})")
        page.wait_for_timeout(20)
        assert page.locator(".virtual > *").count() <= MOST_ELEMENTS

    assert (
        len(asked) <= 6
    )  # the first rows, the middle, the end, and the pages after the first rows
    assert page.locator(".row:not([hidden]).loading").count() == 0
