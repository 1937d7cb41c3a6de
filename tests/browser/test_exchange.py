"""The page of one exchange, in Chromium: selections reach every column down to the byte, and the actions work."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Watched
from tests.browser.servers import Served
from tests.browser.written_exchange import ID, WrittenExchange
from tests.support.recordings import RECORDING

Open = Callable[..., WrittenExchange]
WRITTEN = WrittenExchange()


@pytest.fixture
def opened(page: Page, story: Served) -> Open:
    """Open the page of an exchange; the server's answers about it are those of the written one."""

    def open_written(
        query: str = "", written: WrittenExchange = WRITTEN, **answers: Any
    ) -> WrittenExchange:
        def answer(route: Route) -> None:
            url = urlsplit(route.request.url)
            what = url.path.rsplit("/", 1)[-1]
            if what == "bytes":
                asked = {name: values[0] for name, values in parse_qs(url.query).items()}
                side = written.upstream if asked["side"] == "upstream" else written.client
                raw = bytes(side[int(asked["from"]) : int(asked["to"])])
                route.fulfill(json={"from": int(asked["from"]), "text": raw.decode()})
            elif what == "conversation":
                route.fulfill(json=written.answer["conversation"])
            elif what in answers:
                route.fulfill(json=answers[what])
            else:
                route.fulfill(json=written.answer)

        page.route(f"**/inspector/api/exchanges/{ID}**", answer)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"{story.url}/inspector/exchanges/{ID}{query}")
        expect(page.locator("#column-up .ev").first).to_be_visible()
        return written

    return open_written


def row(page: Page, column: str, number: int) -> Locator:
    """Return the row of a column with a number."""
    exact = re.compile(rf"^{number}$")
    return page.locator(f"#column-{column} li.ev").filter(has=page.locator(".n", has_text=exact))


def selected(page: Page, column: str) -> list[str]:
    """Return the numbers of the selected rows of a column."""
    return sorted(page.locator(f"#column-{column} li.sel .n").all_inner_texts(), key=int)


def marked(page: Page, column: str) -> str:
    """Return the text of a column that the selection covers."""
    rows = page.locator(f"#column-{column} li.sel").all()
    tops = [(box["y"] if (box := one.bounding_box()) else 0, one) for one in rows]
    ordered = [one for _, one in sorted(tops, key=lambda each: each[0])]
    return "".join(text for one in ordered for text in one.locator("mark.on").all_inner_texts())


def linked(written: WrittenExchange, up: int) -> tuple[list[int], list[int]]:
    """Return the events and the rows of the client that belong to an upstream row."""
    [link] = [link for link in written.answer["links"] if link["up"] == [up]]
    return link["ev"], link["client"]


def line(page: Page) -> Locator:
    return page.locator(".selbar")


def sel(page: Page) -> str:
    """Return the selection that the address names."""
    return parse_qs(urlsplit(page.url).query).get("sel", [""])[0]


# --- linking ---------------------------------------------------------------------------------------


def test_a_click_selects_the_block_in_every_column_then_the_event(page: Page, opened: Open) -> None:
    opened()
    row(page, "up", 6).click()
    assert selected(page, "up") == [str(number) for number in range(4, 12)]
    assert selected(page, "ev") == [str(number) for number in range(5, 13)]
    assert selected(page, "client") == [str(number) for number in range(7, 13)]
    expect(line(page)).to_contain_text("Bash, call 1")
    expect(line(page)).to_contain_text("events 5–12")
    expect(page.locator(".card.sel .name")).to_have_text("Bash")
    expect(page.locator(".tl .names li.on")).to_have_text("Bash")
    assert sel(page) == "call:1"

    row(page, "up", 6).click()
    assert (selected(page, "up"), selected(page, "ev"), selected(page, "client")) == (
        ["6"],
        ["6"],
        ["7"],
    )
    sixth = WRITTEN.answer["upstream"]["rows"][5]
    assert sel(page) == f"up:{sixth['from']}-{sixth['to']}"


@pytest.mark.parametrize(
    ("column", "number", "title"),
    [
        ("ev", 3, "Reasoning"),
        ("client", 10, "Bash, call 1"),
        ("ev", 13, "Text"),
        ("client", 15, "Text"),
    ],
)
def test_every_column_leads_to_the_others(
    page: Page, opened: Open, column: str, number: int, title: str
) -> None:
    opened()
    row(page, column, number).click()
    expect(line(page).locator("b")).to_have_text(title)
    assert all(selected(page, name) for name in ("up", "ev", "client"))


def test_a_row_without_a_block_selects_itself(page: Page, opened: Open) -> None:
    opened()
    row(page, "up", 1).click()
    assert selected(page, "up") == ["1"]
    assert selected(page, "client") == []


def test_a_call_covers_only_its_part_of_a_chunk_that_it_shares(page: Page, opened: Open) -> None:
    opened("?sel=call:1")
    assert row(page, "up", 4).locator("mark.on").all_inner_texts() == ["<|tool_calls"]
    page.keyboard.press("Escape")
    row(page, "ev", 4).click()
    assert row(page, "up", 4).locator("mark.on").all_inner_texts() == ["I run it first.\\n"]


def test_a_marker_of_a_card_selects_its_bytes(page: Page, opened: Open) -> None:
    written = opened()
    page.get_by_role("button", name="<|tool_call_begin|>").click()
    start, end = written.marker("<|tool_call_b", "egin|>")
    assert sel(page) == f"up:{start}-{end}"
    assert marked(page, "up") == "<|tool_call_begin|>"
    expect(line(page)).to_contain_text("in chunks 5–6")


def drag(page: Page, start: Locator, end: Locator, *, left: float, right: float) -> None:
    first, last = start.locator(".p").bounding_box(), end.locator(".p").bounding_box()
    assert first is not None
    assert last is not None
    page.mouse.move(first["x"] + left, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + right, last["y"] + last["height"] / 2, steps=4)
    page.mouse.up()


def test_dragging_over_a_payload_selects_exactly_its_bytes(page: Page, opened: Open) -> None:
    written = opened()
    drag(page, row(page, "up", 8), row(page, "up", 8), left=0, right=60)
    expect(line(page)).to_contain_text("in chunk 8")
    start, end = (int(number) for number in sel(page).removeprefix("up:").split("-"))
    covered = bytes(written.upstream[start:end]).decode()
    assert covered.startswith("and\\")  # the escape of the quotation mark is two bytes
    assert json.loads(f'"{covered}"') == marked(page, "up")
    assert selected(page, "ev") == ["8"]


def test_raw_bytes_show_the_envelope_and_every_byte_once(page: Page, opened: Open) -> None:
    written = opened()
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Raw bytes")).to_have_attribute("aria-pressed", "true")
    first = page.locator("#up-0 .p")
    expect(first).to_contain_text('data: {"id"')
    length = len(written.answer["upstream"]["rows"][0])
    lines = [page.locator(f"#up-{index} .p").inner_text() for index in range(length) if index < 3]
    end = written.answer["upstream"]["rows"][0]["to"]
    raw = bytes(written.upstream[:end]).decode().replace("\n", "\\n")
    assert raw.startswith("".join(lines)[: len(raw)])
    drag(page, page.locator("#up-0"), page.locator("#up-1"), left=40, right=40)
    expect(line(page)).to_contain_text("upstream bytes")
    start, end = (int(number) for number in sel(page).removeprefix("up:").split("-"))
    assert bytes(written.upstream[start:end]).decode() == marked(page, "up")
    page.keyboard.press("c")
    expect(page.locator(".toast")).to_contain_text(f"Copied {end - start} bytes")
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == bytes(written.upstream[start:end]).decode()
    )


def test_dragging_over_events_selects_them(page: Page, opened: Open) -> None:
    opened()
    drag(page, row(page, "ev", 8), row(page, "ev", 10), left=10, right=10)
    assert selected(page, "ev") == ["8", "9", "10"]
    assert sel(page) == "ev:8-10"
    assert selected(page, "up") == ["8", "9", "10"]


def test_other_columns_scroll_and_the_clicked_one_does_not(page: Page, opened: Open) -> None:
    opened()
    page.locator("#column-up .foldrow").click()
    page.evaluate("document.getElementById('rows-up').scrollTop = 1500")
    target = row(page, "up", 80)
    target.click()
    target.click()
    assert page.evaluate("document.getElementById('rows-up').scrollTop") == 1500
    events, sent = linked(WRITTEN, 79)
    expect(row(page, "ev", events[0] + 1)).to_be_in_viewport()
    expect(row(page, "client", sent[0] + 1)).to_have_class(re.compile("sel"))


@pytest.mark.parametrize("address", ["call:2", "ev:2-4", "ev:6", "up:0-40", "client:10-400"])
def test_an_address_restores_the_selection(page: Page, opened: Open, address: str) -> None:
    opened(f"?sel={address}")
    expect(line(page)).to_be_visible()
    page.reload()
    expect(line(page)).to_be_visible()
    assert sel(page) == address


@pytest.mark.parametrize(
    "address", ["call:9", "ev:0", "up:9999999-99999999", "client:4", "<script>", "block:1"]
)
def test_an_address_that_names_nothing_selects_nothing(
    page: Page, opened: Open, address: str
) -> None:
    opened(f"?sel={address}")
    expect(line(page)).to_be_hidden()


def test_lanes_of_the_timeline_select(page: Page, opened: Open) -> None:
    opened()
    page.locator(".tl .names li", has_text="Edit").click()
    expect(line(page).locator("b")).to_have_text("Edit, call 2")
    page.locator(".area-box").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(line(page).locator("b")).to_have_text("Reasoning")
    label = page.locator(".tl svg").get_attribute("aria-label") or ""
    assert "Attempt 1 failed with 429" in label
    assert "Stall of 4.2 s from 2.22 s" in label
    assert "Edit call truncated at 9.25 s" in label


def test_labels_of_the_timeline_do_not_cover_each_other(page: Page, opened: Open) -> None:
    overlaps = """() => {
        const boxes = [...document.querySelectorAll(".tl svg text:not(.halo)")].map((one) => one.getBoundingClientRect());
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length;
    }"""
    for first in (2, 60, 400, 1840, 9400):
        written = WrittenExchange(parts=3)
        written.answer["timeline"]["first_ms"] = first
        opened(written=written)
        assert page.locator(".tl svg text", has_text="first event").count() == 1
        assert page.evaluate(overlaps) == 0, first


def test_a_failed_attempt_is_named_however_soon_the_next_one_starts(
    page: Page, opened: Open
) -> None:
    written = WrittenExchange(parts=3)
    attempts = written.answer["timeline"]["lanes"][0]["spans"]
    attempts[1]["from"] = attempts[0]["to"] + 5
    opened(written=written)
    expect(page.locator(".tl svg text.t-error", has_text="429")).to_have_count(1)


# --- keys ------------------------------------------------------------------------------------------


def test_keys_move_and_select(page: Page, opened: Open) -> None:
    opened()
    for key in ("j", "j", "j", "Enter"):
        page.keyboard.press(key)
    expect(line(page).locator("b")).to_have_text("Reasoning")
    page.keyboard.press("Enter")
    assert selected(page, "up") == ["3"]
    page.keyboard.press("l")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert selected(page, "ev") == ["4"]
    page.keyboard.press("Escape")
    expect(line(page)).to_be_hidden()
    page.keyboard.press("x")
    expect(line(page).locator("b")).to_have_text("Bash, call 1")
    page.keyboard.press("x")
    expect(line(page).locator("b")).to_have_text("Edit, call 2")
    page.keyboard.press("X")
    expect(line(page).locator("b")).to_have_text("Bash, call 1")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/inspector/exchanges$"))


# --- parts -----------------------------------------------------------------------------------------


def test_long_runs_fold_and_unfold(page: Page, opened: Open) -> None:
    opened()
    fold = page.locator("#column-up .foldrow")
    expect(fold).to_have_text("⋯ 148 more of the same call")
    fold.click()
    expect(fold).to_have_count(0)
    expect(page.locator("#column-up .gap")).to_have_text("4.2 s without bytes")


def test_cards_warnings_and_attempts_are_in_words(page: Page, opened: Open) -> None:
    opened()
    bash, edit = page.locator(".card").all()
    expect(bash).to_contain_text("Matches the schema that the client declared")
    expect(bash).to_contain_text("reasoning, family kimi_k2")
    expect(edit).to_contain_text("truncated, not run")
    expect(edit).to_contain_text("The output limit of 1,536 tokens cut the arguments.")
    expect(page.get_by_role("link", name="stream-stalled")).to_have_attribute(
        "href", "https://example.org/stream-stalled"
    )
    expect(page.locator(".att").first).to_contain_text("429 failed")


def test_the_request_is_a_diff_that_unfolds(page: Page, opened: Open) -> None:
    opened()
    expect(page.locator(".diff .del")).to_have_count(2)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".diff .ctx2")).to_have_count(4)
    page.get_by_role("button", name="Sent").click()
    expect(page.locator(".whole")).to_contain_text('"max_completion_tokens": 1536')


def test_copy_as_curl_and_make_a_case(page: Page, opened: Open) -> None:
    written = opened(case={"name": "kimi-1", "folder": "cases/kimi-1", "files": []})
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator(".toast")).to_have_text("Copied as curl. The key is a placeholder.")
    assert page.evaluate("navigator.clipboard.readText()") == written.answer["curl"]
    page.get_by_role("button", name="Make a case").click()
    expect(page.locator(".toast")).to_contain_text("Case written to cases/kimi-1.")


def test_a_replay_shows_what_differs(page: Page, opened: Open) -> None:
    difference = {
        "index": 4,
        "recorded": {"text": "section begin"},
        "replayed": {"text": "section started"},
    }
    opened(replay={"events": 168, "differences": [difference], "client_byte": None, "reason": ""})
    page.get_by_role("button", name="Replay with today’s code").click()
    expect(page.locator(".toast")).to_contain_text("Replayed: 1 event differs.")
    page.locator(".toast").get_by_role("button", name="Show").click()
    expect(page.locator(".diff .add b").first).to_have_text("started")
    page.get_by_role("button", name="Event 5").click()
    assert selected(page, "ev") == ["6"]  # the fifth row is a marker, not an event


def test_a_replay_without_a_difference_is_one_sentence(page: Page, opened: Open) -> None:
    opened(replay={"events": 168, "differences": [], "client_byte": None, "reason": ""})
    page.get_by_role("button", name="Replay with today’s code").click()
    expect(page.locator(".toast")).to_have_text("Replayed: no difference in 168 events.")


# --- states ----------------------------------------------------------------------------------------


def test_the_state_of_the_recording_is_named(page: Page, opened: Open) -> None:
    written = WrittenExchange(parts=3)
    written.answer |= {"torn_at": 18204, "masked": True}
    written.answer["row"]["recorded"] = False
    opened(written=written)
    notices = page.locator(".notice").all_inner_texts()
    assert [notice.split(".")[0] for notice in notices] == [
        "The recording ends early",
        "The content is masked",
        "Recording is off",
    ]
    for name in ("Download recording", "Make a case", "Replay with today’s code"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (410, "deleted", "This exchange was deleted"),
        (403, "forbidden", "This key cannot see"),
        (422, "newer_version", "This recording is from a newer version"),
    ],
)
def test_an_exchange_that_cannot_be_shown(
    watched: Watched, story: Served, status: int, code: str, words: str
) -> None:
    page = watched.page()
    watched.expected.append("Failed to load resource")
    problem = {"error": {"code": code, "message": "It has format 3; this gateway reads up to 2."}}
    page.route(
        f"**/inspector/api/exchanges/{ID}?*",
        lambda route: route.fulfill(status=status, json=problem),
    )
    page.goto(f"{story.url}/inspector/exchanges/{ID}")
    expect(page.locator("#main .state b")).to_contain_text(words)


# Prints the address of every answer whose status line has arrived.
_SAY_HEADS = """
const real = window.fetch;
window.fetch = async (...request) => {
  const response = await real(...request);
  console.log("head of", response.url);
  return response;
};
"""


@pytest.fixture
def half_answers() -> Iterator[tuple[str, threading.Event]]:
    """A server that sends half of each answer; the connection closes when the event is set."""
    release = threading.Event()

    class Half(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that the class demands
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"row":')
            self.wfile.flush()
            release.wait(30)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Half) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", release
        release.set()
        server.shutdown()
        thread.join()


def test_an_exchange_whose_answer_is_cut_off_can_be_tried_again(
    watched: Watched, story: Served, half_answers: tuple[str, threading.Event]
) -> None:
    address, release = half_answers
    release.set()
    page = watched.page()
    watched.expected.append("Failed to load resource")
    page.route(
        f"**/inspector/api/exchanges/{ID}?*", lambda route: route.continue_(url=address), times=1
    )
    page.goto(f"{story.url}/inspector/exchanges/{ID}")
    expect(page.locator("#main .state b")).to_contain_text("The gateway does not answer")
    expect(page.get_by_role("button", name="Try now")).to_be_visible()


def test_a_page_that_is_left_while_an_answer_arrives_reports_no_error(
    watched: Watched, story: Served, half_answers: tuple[str, threading.Event]
) -> None:
    address, _ = half_answers
    page = watched.page()
    page.route(
        f"**/inspector/api/exchanges/{ID}?*", lambda route: route.continue_(url=address), times=1
    )
    page.add_init_script(_SAY_HEADS)
    with page.expect_console_message(lambda line: "head of" in line.text and ID in line.text):
        page.goto(f"{story.url}/inspector/exchanges/{ID}")
    page.get_by_role("link", name="Playground").click()
    expect(page).to_have_title(re.compile("Playground"))


VENDOR_CALL: dict[str, Any] = {
    "does": "web_search",
    "block": 0,
    "upstream_id": "srvtoolu_1",
    "queries": ["weather in oslo"],
    "arguments": "",
    "state": "complete",
    "sources": [
        {"title": "Oslo weather", "url": "https://yr.example/oslo"},
        {"title": "met.example", "url": "https://met.example/"},
    ],
    "more_sources": 3,
    "output": "",
    "error": "",
}


def test_a_search_that_the_vendor_ran_has_a_card_with_query_and_sources(
    page: Page, opened: Open
) -> None:
    written = WrittenExchange(parts=3)
    failed = VENDOR_CALL | {"state": "failed", "error": "unavailable", "sources": []}
    long = {"title": "A long title " * 12, "url": "https://yr.example/" + "a/long/path/" * 20}
    written.answer["vendor_calls"] = [
        VENDOR_CALL,
        failed | {"more_sources": 0},
        VENDOR_CALL | {"does": "web_fetch", "sources": [long]},
    ]
    opened(written=written)
    cards = page.get_by_role("article", name="Run by the vendor: web_search")

    expect(cards).to_have_count(2)
    expect(cards.first.locator(".chip")).to_have_text(["run by the vendor"])
    expect(cards.first.locator("dd")).to_have_text(["weather in oslo", "srvtoolu_1", "5"])
    expect(cards.first.get_by_role("list", name="Sources").locator("li")).to_have_text(
        ["Oslo weatherhttps://yr.example/oslo", "met.examplehttps://met.example/", "and 3 more"]
    )
    assert cards.locator("a").count() == 0  # addresses are text
    expect(cards.last.locator(".chip")).to_have_text(["run by the vendor", "failed"])
    expect(cards.last.locator("dd").nth(1)).to_have_text("unavailable")
    expect(page.locator("#h-tc + .hint")).to_have_text("5")  # with two calls of functions
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    cards.first.get_by_role("button", name="web_search").click()
    expect(line(page)).to_contain_text("Reasoning")  # the block with this number


def test_recorded_content_is_text_and_never_markup(page: Page, opened: Open) -> None:
    evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\u202e\u200b\u0007'
    written = WrittenExchange(parts=3, text=evil)
    poisoned = json.loads(json.dumps(written.answer).replace("claude-", json.dumps(evil)[1:-1]))
    poisoned["calls"][0] |= {"name": evil, "arguments": json.dumps({"x": evil}), "client_id": evil}
    poisoned["vendor_calls"] = [
        VENDOR_CALL
        | {"does": evil, "queries": [evil], "error": evil, "arguments": evil, "output": evil}
        | {"sources": [{"title": evil, "url": "javascript:alert(1)"}]}
    ]
    poisoned["warnings"][0] |= {
        "title": evil,
        "text": evil,
        "path": evil,
        "doc": "javascript:alert(1)",
    }
    for column in ("upstream", "client"):
        poisoned[column]["rows"][0]["text"] = evil
        poisoned[column]["rows"][0]["kind"] = evil
    poisoned["timeline"]["lanes"][4]["label"] = evil
    poisoned["attempts"][0]["reason"] = evil
    poisoned["request"]["received"]["text"] = evil
    written.answer = poisoned
    opened(written=written)
    page.get_by_role("button", name="Received").click()
    page.keyboard.press("x")
    page.keyboard.press("r")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
    assert "\u202e" not in page.inner_text("main")
    assert "\\u202e" in page.inner_text("main")


# --- widths and long streams -----------------------------------------------------------------------


def test_no_width_scrolls_horizontally(page: Page, opened: Open) -> None:
    opened("?sel=call:1")
    for width in (360, 390, 768, 860, 861, 1024, 1279, 1280, 1440, 1600):
        page.set_viewport_size({"width": width, "height": 844})
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(over) == 0, width
        columns = page.locator(".linked .col:visible").count()
        assert columns == (1 if width <= 860 else 3), width


def test_columns_are_tabs_on_a_phone(page: Page, opened: Open) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened()
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_count(3)
    page.get_by_role("tab", name="Client got").click()
    expect(page.get_by_role("tabpanel", name="Client got")).to_be_visible()
    expect(page.locator("#column-up")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Meaning")).to_be_focused()
    page.get_by_role("button", name="<|tool_call_begin|>").click()
    expect(page.locator("#column-up")).to_be_visible()
    expect(page.locator("#column-up mark.on").first).to_be_in_viewport()


def test_a_stream_of_20000_events_stays_usable(page: Page, opened: Open) -> None:
    written = opened(written=WrittenExchange(parts=20_000))
    assert page.locator("#column-up li").count() <= 80
    page.locator("#column-up .foldrow").click()
    page.evaluate("document.getElementById('rows-up').scrollTop = 240000")
    expect(row(page, "up", 10_000)).to_be_visible()
    row(page, "up", 10_000).click()
    row(page, "up", 10_000).click()
    events, sent = linked(written, 9_999)
    assert selected(page, "ev") == [str(events[0] + 1)]
    expect(row(page, "client", sent[0] + 1)).to_be_visible()
    took = page.evaluate(
        """async () => {
            const started = performance.now();
            for (let step = 0; step < 20; step += 1) {
                document.getElementById("rows-up").scrollTop = step * 10000;
                await new Promise(requestAnimationFrame);
            }
            return performance.now() - started;
        }"""
    )
    assert took < 4000  # 20 jumps; each draws 60 rows, not 20,000
    assert page.locator("#column-up li").count() <= 80
    assert page.evaluate("document.querySelectorAll('.tl svg *').length") < 300


def test_an_exchange_that_still_streams_grows_at_its_end(page: Page, opened: Open) -> None:
    short, long = WrittenExchange(parts=20), WrittenExchange(parts=40)
    short.answer["row"]["state"] = "streaming"
    row_of_list = json.dumps({**short.answer["row"], "id": ID})
    events = f"event: hello\ndata: {{}}\n\nid: 1\nevent: exchange\ndata: {row_of_list}\n\n"
    page.route(
        "**/inspector/api/live**",
        lambda route: route.fulfill(content_type="text/event-stream", body=events),
    )
    opened(written=short)
    page.locator("#column-up .foldrow").click()
    page.evaluate("document.getElementById('rows-up').scrollTop = 99999")
    before = page.locator("#column-up .colh").inner_text()
    short.answer = long.answer
    expect(page.locator("#column-up .colh")).not_to_have_text(before)
    expect(row(page, "up", len(long.answer["upstream"]["rows"]))).to_be_in_viewport()


# --- over real recordings --------------------------------------------------------------------------


def exchange_with(url: str, problem: str) -> str:
    """Return the id of a recorded exchange that has a problem and links."""
    found = json.load(urlopen(f"{url}/inspector/api/exchanges?problem={problem}"))
    return str(found["rows"][0]["id"])


@pytest.mark.parametrize("width", [360, 1280, 1600])
def test_the_kind_of_a_row_is_not_cut_off(watched: Watched, story: Served, width: int) -> None:
    exchange = exchange_with(story.url, "repaired")
    page = watched.page(width, 900)
    page.goto(f"{story.url}/inspector/exchanges/{exchange}")
    expect(page.locator(".col-up .ev").nth(2)).to_be_visible()

    cut = page.locator(".ev .f").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    )
    assert cut == []


def test_a_recorded_call_leads_to_its_bytes(page: Page, story: Served) -> None:
    exchange = exchange_with(story.url, "repaired")
    page.goto(f"{story.url}/inspector/exchanges/{exchange}")
    page.locator(".card .name").first.click()
    assert all(page.locator(f"#column-{name} li.sel").count() for name in ("up", "ev", "client"))
    expect(line(page).locator("b")).to_contain_text(", call 1")
    markers = page.locator(".found button")
    for number in range(markers.count()):
        markers.nth(number).click()
        expect(line(page)).to_contain_text("upstream bytes")
        text = markers.nth(number).locator("code").inner_text()
        covered = marked(page, "up")
        assert covered
        assert text.startswith(covered[:4])


def test_a_recorded_exchange_replays_and_is_downloaded(page: Page, story: Served) -> None:
    exchange = exchange_with(story.url, "repaired")
    page.goto(f"{story.url}/inspector/exchanges/{exchange}")
    page.get_by_role("button", name="Replay with today’s code").click()
    expect(page.locator(".toast")).to_contain_text("Replayed: no difference")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download recording").click()
    assert download.value.suggested_filename.endswith(".dragoman")


def test_a_recording_that_today_is_translated_otherwise_shows_the_event(
    page: Page, inspect, tmp_path: Path
) -> None:
    changed = RECORDING.read_bytes().replace(b'"text":"I wi"', b'"text":"I wo"')
    assert changed != RECORDING.read_bytes()
    (tmp_path / RECORDING.name).write_bytes(changed)
    served = inspect(tmp_path)
    exchange = json.load(urlopen(f"{served.url}/inspector/api/exchanges"))["rows"][0]["id"]
    page.goto(f"{served.url}/inspector/exchanges/{exchange}")
    page.get_by_role("button", name="Replay with today’s code").click()
    expect(page.locator(".toast")).to_contain_text("Replayed: 1 event differs.")
    page.locator(".toast").get_by_role("button", name="Show").click()
    panel = page.get_by_role("region", name="Replay with today’s code")
    expect(panel).to_contain_text("1 difference in")
    expect(panel.locator(".diff .del b").first).to_have_text("o")
    expect(panel.locator(".diff .add b").first).to_have_text("i")
    panel.get_by_role("button", name=re.compile("^Event ")).click()
    expect(page.locator("#column-ev li.sel .p")).to_have_text("I wo")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()
