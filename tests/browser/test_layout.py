"""Every view at every width, in both themes: nothing scrolls sideways."""

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched
from tests.browser.servers import Served

WIDTHS = (360, 390, 768, 1024, 1280, 1440, 1600)


@pytest.fixture(scope="module")
def views(story: Served) -> list[str]:
    """The address of every view."""
    api = f"{story.url}/inspector/api"
    exchange = next(
        row
        for row in httpx2.get(f"{api}/exchanges").json()["rows"]
        if row["upstream"] == "moonshot"
    )
    conversation = httpx2.get(f"{api}/conversations").json()["rows"][0]
    return [
        "/inspector/exchanges",
        f"/inspector/exchanges/{exchange['id']}",
        "/inspector/conversations",
        f"/inspector/conversations/{conversation['id']}",
        "/inspector/playground",
    ]


def wait_until_shown(page: Page) -> None:
    expect(page.locator("main h1")).to_have_count(1)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.wait_for_timeout(100)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_scrolls_sideways(
    watched: Watched, story: Served, views: list[str], scheme: str
) -> None:
    page = watched.page(color_scheme=scheme)
    for view in views:
        page.goto(story.url + view)
        wait_until_shown(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(60)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{view} is {wide} wide at {width}"


@pytest.mark.parametrize("window", [(1440, 900), (1280, 800), (1024, 768)], ids=str)
def test_every_view_can_be_used_at_200_percent(
    watched: Watched, story: Served, views: list[str], window: tuple[int, int]
) -> None:
    """At this zoom a browser lays a page out in half of the window's width, with two device pixels for each."""
    width, height = window[0] // 2, window[1] // 2
    page = watched.page(width, height, device_scale_factor=2)
    for view in views:
        page.goto(story.url + view)
        wait_until_shown(page)
        assert 2 == page.evaluate("devicePixelRatio")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is {wide} wide at {width}"
        outside = page.locator("main button:visible, main a:visible, nav a:visible").evaluate_all(
            """(all) => all.filter((one) => {
                const box = one.getBoundingClientRect();
                const scrolls = one.closest("pre, table, .scroll, [role=grid], svg, .cols");
                return box.width > 0 && !scrolls && (box.right > innerWidth + 0.5 || box.left < -0.5);
            }).map((one) => one.outerHTML.slice(0, 120))"""
        )
        assert [] == outside, view


def test_text_alone_at_200_percent_is_not_cut_off(
    watched: Watched, story: Served, views: list[str]
) -> None:
    """Browsers and operating systems can enlarge text without the rest."""
    page = watched.page(1440, 900)
    for view in views:
        page.goto(story.url + view)
        wait_until_shown(page)
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        page.wait_for_timeout(100)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 1440, f"{view} is {wide} wide"


def test_no_cell_of_the_list_is_cut_off(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    expect(page.locator(".chip", has_text="cache broke")).to_have_count(1)  # beside two others
    for width in (861, 900, 979, 980, 1024, 1279, 1280, 1399, 1400, 1439, 1440, 1560, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(60)
        right = page.evaluate(
            """() => Math.max(...[...document.querySelectorAll(".list .row:not([hidden]) > *")]
                .map((cell) => cell.getBoundingClientRect().right))"""
        )
        assert right <= width - 12, f"a cell ends at {right} of {width}"
        cut = page.evaluate(
            """() => [...document.querySelectorAll(".list .row:not([hidden]) .probs")]
                .filter((cell) => cell.lastElementChild?.getBoundingClientRect().right > cell.getBoundingClientRect().right + 0.5)
                .map((cell) => cell.textContent)"""
        )
        assert [] == cut, f"chips are cut off at {width}"


def test_no_fact_is_cut_off_on_a_phone(watched: Watched, story: Served, views: list[str]) -> None:
    page = watched.page(360, 800)
    for view in views:
        page.goto(story.url + view)
        wait_until_shown(page)
        cut = page.locator(".facts dd").evaluate_all(
            "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
        )
        assert [] == cut, view
