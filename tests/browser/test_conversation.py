"""One conversation: turns, calls beside results, folded turns, the cache, and what was started beside it."""

import json
import re
import tarfile

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Served
from tests.browser.story import BREAK, CACHED_PRICE, FALLBACK, FRESH_PRICE, TITLE, TURNS


@pytest.fixture(scope="module")
def address(story: Served) -> str:
    rows = httpx2.get(f"{story.url}/inspector/api/conversations").json()["rows"]
    (found,) = [row for row in rows if row["title"] == TITLE]
    return f"{story.url}/inspector/conversations/{found['id']}"


@pytest.fixture
def opened(page: Page, address: str) -> Page:
    page.goto(address)
    page.wait_for_selector(f"#turn-{TURNS}")
    return page


def test_the_head_sums_up_the_run(opened: Page) -> None:
    expect(opened.get_by_role("heading", level=1)).to_have_text(TITLE)
    facts = opened.locator(".facts")
    expect(facts).to_contain_text("Claude Code")
    expect(facts).to_contain_text(re.compile(r"Turns9 \+ 2 side requests"))
    expect(facts).to_contain_text(re.compile(r"Tool calls9 9 repaired · 1 repeated"))
    assert opened.title() == f"{TITLE} · Dragoman inspector"


def test_good_turns_are_folded_until_they_are_opened(opened: Page) -> None:
    folded = opened.locator(".foldturn")
    expect(folded).to_contain_text("Turns 1–4")
    expect(folded).to_contain_text("no problems")
    folded.click()
    expect(opened.locator(".turn article")).to_have_count(TURNS)
    expect(opened.locator("#turn-1")).to_be_focused()


def test_calls_are_beside_their_results(opened: Page) -> None:
    pair = opened.locator("#turn-5 .pair").first
    expect(pair.locator(".nm")).to_have_text(re.compile("^Readrepaired$"))
    expect(pair.locator("pre").first).to_contain_text("file_path: src/dates.py")
    expect(pair.locator("pre").last).to_contain_text("def parse_iso")
    expect(opened.locator("#turn-7 .pair .chip.warn")).to_have_text(
        "repeated, same result as turn 1"
    )


def test_the_marker_shows_the_first_differing_byte(opened: Page) -> None:
    marker = opened.locator(f"#turn-{BREAK} .brk")
    expect(marker).to_contain_text("The prompt cache broke here:")
    expect(marker).to_contain_text(f"Turn {BREAK} differs from turn {BREAK - 1} at byte")
    expect(marker.locator("code").first).to_have_text("$.system[0].text")
    assert marker.locator(".first").all_text_contents() == ["6", "7"]
    assert marker.locator(".rest").all_text_contents() == [":49", ":06"]
    expect(marker).to_contain_text("This looks like a timestamp.")
    link = marker.get_by_role("link", name="How prompt caches work")
    expect(link).to_have_attribute("href", re.compile("^https:.*inspector\\.md#conversations$"))
    expect(opened.locator(f"#turn-{FALLBACK} .brk")).to_have_count(0)
    expect(opened.locator(f"#turn-{FALLBACK}")).to_contain_text("Cache not used: moonshot answered")


def test_the_lost_tokens_and_their_cost_are_those_of_the_upstream(
    opened: Page, story: Served
) -> None:
    rows = httpx2.get(f"{story.url}/inspector/api/exchanges?upstream=openrouter&model=kimi*").json()
    found = {row["id"]: row for row in rows["rows"]}
    turns = httpx2.get(opened.url.replace("/inspector/", "/inspector/api/")).json()["turns"]
    before, broken = (found[turns[turn - 1]["exchange"]] for turn in (BREAK - 1, BREAK))
    lost = min(before["tokens_in"], broken["tokens_in"]) - broken["tokens_cached"]
    marker = opened.locator(f"#turn-{BREAK} .brk")
    expect(marker).to_contain_text(f"{lost:,} tokens were read again")
    expect(opened.locator(".cachep svg")).to_contain_text(f"−{lost:,}")
    expect(opened.locator(".bar-of-turn title").nth(BREAK - 1)).to_have_text(
        f"Turn {BREAK}: {broken['tokens_in']:,} in, {broken['tokens_cached']:,} from cache, {lost:,} read again"
    )
    cost = float(marker.locator(".t .r").inner_text().removeprefix("+$"))
    assert cost == pytest.approx(lost * (FRESH_PRICE - CACHED_PRICE) / 1e6, rel=0.02)


def test_a_bar_of_the_picture_leads_to_its_turn(opened: Page) -> None:
    picture = opened.locator(".cachep svg")
    expect(picture).to_have_attribute(
        "aria-label", re.compile(rf"Turn {BREAK} lost [\d,]+ cached tokens\.")
    )
    opened.locator(".bar-of-turn").nth(BREAK - 1).click()
    expect(opened.locator(f"#turn-{BREAK}")).to_be_focused()
    assert f"turn={BREAK}" in opened.url


def test_side_requests_are_beside_the_turn_that_started_them(opened: Page) -> None:
    side = opened.locator("#turn-5 .side")
    expect(side).to_contain_text("Write a title for this session")
    expect(side).to_contain_text("Find every caller of parse_iso")
    link = side.get_by_role("link").first
    link.click()
    opened.wait_for_url(re.compile("/inspector/(exchanges|conversations)/"))


def test_keys_move_from_turn_to_turn(opened: Page) -> None:
    opened.keyboard.press("x")
    expect(opened.locator(f"#turn-{BREAK}")).to_be_focused()
    opened.keyboard.press("]")
    expect(opened.locator(f"#turn-{BREAK + 1}")).to_be_focused()
    opened.keyboard.press("[")
    opened.keyboard.press("k")
    expect(opened.locator(f"#turn-{BREAK - 1}")).to_be_focused()
    opened.keyboard.press("Enter")
    opened.wait_for_url(re.compile("/inspector/exchanges/"))
    opened.go_back()
    expect(opened.locator(f"#turn-{BREAK - 1}")).to_be_visible()


def test_a_turn_in_the_address_is_unfolded(page: Page, address: str) -> None:
    page.goto(f"{address}?turn=2")
    expect(page.locator("#turn-2")).to_be_focused()


def test_the_rail_lists_and_searches_conversations(opened: Page) -> None:
    rail = opened.get_by_role("navigation", name="Conversations")
    expect(rail.locator("[aria-current]")).to_contain_text(TITLE)
    expect(rail.locator("[aria-current]")).to_contain_text("cache broke")
    opened.keyboard.press("/")
    opened.keyboard.type("uploader")
    expect(rail.locator(".ses")).to_have_count(1)
    rail.locator(".ses").click()
    expect(opened.get_by_role("heading", level=1)).to_have_text("Add retries to the uploader")


def test_on_a_phone_the_list_comes_first(phone: Page, story: Served) -> None:
    phone.goto(f"{story.url}/inspector/conversations")
    phone.get_by_role("link", name=TITLE).click()
    expect(phone.get_by_role("heading", level=1)).to_have_text(TITLE)
    turn = phone.locator("#turn-5")
    call, result = turn.locator(".pair").first.locator(":scope > div").all()
    assert call.bounding_box()["y"] < result.bounding_box()["y"]
    assert call.bounding_box()["x"] == result.bounding_box()["x"]
    phone.locator(".crumb a").click()
    expect(phone.locator(".ses").first).to_be_visible()


def test_all_recordings_of_a_conversation_are_downloaded(opened: Page, story: Served) -> None:
    conversation = opened.url.rpartition("/")[2]
    found = httpx2.get(f"{story.url}/inspector/api/conversations/{conversation}").json()
    with opened.expect_download() as download:
        opened.get_by_role("link", name="Download all recordings").click()
    with tarfile.open(download.value.path()) as archive:
        ids = {
            json.loads(archive.extractfile(name).readline())["id"] for name in archive.getnames()
        }
    assert {turn["exchange"] for turn in found["turns"]} < ids
    assert len(ids) == TURNS + found["side_requests"]
