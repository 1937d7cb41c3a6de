"""An accessibility check of every view, in both themes, and the order in which the focus moves."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched
from tests.browser.servers import Served
from tests.browser.test_layout import views, wait_until_shown

__all__ = ["views"]

PASS = (Path(__file__).parent / "accessibility.js").read_text("utf-8")


def problems(page: Page) -> list[str]:
    return list(page.evaluate(PASS))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_passes(
    watched: Watched, story: Served, views: list[str], scheme: str, width: int
) -> None:
    page = watched.page(width, color_scheme=scheme)
    for view in views:
        page.goto(story.url + view)
        wait_until_shown(page)
        assert problems(page) == [], view


def test_open_menus_and_dialogs_pass(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    page.keyboard.press("f")
    expect(page.locator(".option").first).to_be_visible()
    assert problems(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert problems(page) == []


def test_the_pass_finds_what_is_wrong(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    page.evaluate("""
      const button = document.createElement("button");
      button.id = "main";
      const pale = document.createElement("p");
      pale.textContent = "pale";
      pale.style.color = "rgb(200, 200, 200)";
      document.querySelector("main").append(button, pale);
    """)

    found = "\n".join(problems(page))
    for part in ("has no name", "the id main occurs twice", "is a target of", "contrast 1."):
        assert part in found


def test_the_focus_moves_in_order(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    stops = []
    for _ in range(18):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "document.activeElement.innerText.trim().split(/\\s/)[0] || document.activeElement.getAttribute('aria-label') || document.activeElement.type"
            )
        )
    assert stops[:8] == [
        "Skip",
        "Dragoman",
        "Exchanges",
        "Conversations",
        "Playground",
        "Keyboard shortcuts",
        "Switch theme",
        "Exchanges",
    ]
    assert stops[12:] == ["search", "Model", "Route", "Upstream", "Status", "Problem"]


def test_motion_and_counts_respect_the_reader(watched: Watched, story: Served) -> None:
    page = watched.page(reduced_motion="reduce")
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#live .dot')).animationName")
        == "none"
    )
    expect(page.locator(".filters [aria-live=polite]")).to_have_text("27 exchanges")
    page.goto(f"{story.url}/inspector/exchanges?status=failed")
    expect(page.locator(".filters [aria-live=polite]")).to_have_text("3 of 27 exchanges")


def test_the_skip_link_leads_to_the_content(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    wait_until_shown(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_message_stays_while_it_is_hovered(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges")
    page.wait_for_selector(".row .cover[href]")
    page.keyboard.press("X")  # there is no problem above the first row
    toast = page.get_by_role("status").filter(has_text="No further problem above.")
    toast.hover()
    page.wait_for_timeout(6000)
    expect(toast).to_be_visible()
    page.mouse.move(600, 5)
    expect(toast).to_have_count(0, timeout=10_000)


def test_chips_and_the_selected_row_are_seen_in_forced_colours(
    watched: Watched, story: Served
) -> None:
    page = watched.page(forced_colors="active")
    page.goto(f"{story.url}/inspector/exchanges")
    page.wait_for_selector(".row .cover[href]")
    page.keyboard.press("j")
    for shown in (".row .chip", ".row[aria-selected=true]"):
        width = page.locator(shown).first.evaluate("one => getComputedStyle(one).borderTopWidth")
        assert width == "1px", shown
