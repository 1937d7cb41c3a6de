"""The list of exchanges: rows, filters, keyboard, Back, live rows."""

import json
import re
import tarfile
import time
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watched
from tests.browser.servers import Served, copies, copy_recording
from tests.browser.story import BREAK, TURNS
from tests.support.serving import serving, simulating
from tests.support.simulator import question
from tests.support.waiting import until

ROWS = ".list .virtual .row:not([hidden])"


def open_list(page: Page, served: Served, query: str = "") -> None:
    page.goto(f"{served.url}/inspector/exchanges{query}")
    page.wait_for_selector(f"{ROWS} .cover[href]")


def ids(page: Page) -> list[str]:
    """Return the ids of the rows, from top to bottom."""
    rows = page.locator(f"{ROWS} .cover[href]")
    found = rows.evaluate_all(
        "all => all.map((one) => [one.getBoundingClientRect().top, one.dataset.id])"
    )
    return [name for _, name in sorted(found)]


def selected(page: Page) -> str | None:
    return page.locator(f"{ROWS}[aria-selected=true] .cover").get_attribute("data-id")


@pytest.fixture
def growing(tmp_path: Path, recordings: Path) -> Path:
    """A folder that a test may add recordings to."""
    copies(recordings, tmp_path, 60)
    return tmp_path


def add(folder: Path, recordings: Path, exchange: str) -> None:
    source = min(recordings.glob("*.dragoman"), key=lambda file: file.stat().st_size)
    copy_recording(source, folder, exchange=exchange, at=time.time())


def test_rows_show_what_happened(page: Page, story: Served) -> None:
    open_list(page, story)

    row = page.locator(ROWS).filter(has_text="moonshot")
    expect(row).to_have_count(1)
    expect(row.locator(".c-status")).to_contain_text("200 tool_use")
    expect(row.locator(".c-client")).to_have_text("Claude Code")
    expect(row.locator(".c-dialect")).to_have_text("Messages → Chat")
    expect(row.locator(".c-model")).to_have_text("kimi-k2-thinking")
    expect(row.locator(".probs")).to_contain_text("fallback")
    assert page.locator(ROWS).first.get_attribute("aria-rowindex") == "2"
    expect(page.locator(".count")).to_have_text("27 exchanges")
    expect(page.locator(".stat")).to_have_count(5)
    expect(page.locator("#live")).to_contain_text("Live")


def test_a_chip_marks_the_exchange_that_broke_the_prompt_cache(page: Page, story: Served) -> None:
    open_list(page, story)

    chip = page.locator(f"{ROWS} .probs .chip.warn").filter(has_text="cache broke")
    expect(chip).to_have_count(1)  # it appears when the exchanges have been grouped
    page.goto(f"{story.url}/inspector/exchanges?problem=cache")
    expect(page.locator(ROWS)).to_have_count(1)
    page.locator(f"{ROWS} .cover").click()
    expect(page.locator(".facts")).to_contain_text(f"turn {BREAK} of {TURNS}")


def test_a_picker_filters_by_keyboard_and_the_address_keeps_it(page: Page, story: Served) -> None:
    open_list(page, story)

    page.keyboard.press("f")
    expect(page.locator(".option").first).to_be_visible()
    page.keyboard.type("glm*")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")

    expect(page.locator(".count")).to_have_text(re.compile(r"^\d of 27 exchanges$"))
    assert "model=glm*" in page.url
    expect(page.locator(".pick.on .v")).to_have_text("glm*")
    expect(page.locator(".pick").first).to_be_focused()
    names = page.locator(f"{ROWS} .c-model").all_text_contents()
    assert set(names) == {"glm-4.6"}
    page.reload()
    expect(page.locator(".count")).to_have_text(re.compile(r"of 27 exchanges"))


def test_values_of_one_picker_are_alternatives_and_pickers_combine(
    page: Page, story: Served
) -> None:
    open_list(page, story)

    page.get_by_role("button", name="Status").click()
    page.get_by_role("option", name="failed").click()
    page.keyboard.press("Escape")
    expect(page.locator(".count")).to_have_text("3 of 27 exchanges")
    page.get_by_role("button", name="Upstream").click()
    page.get_by_role("option", name="deepseek").click()
    expect(page.locator(".count")).to_have_text("1 of 27 exchanges")
    page.get_by_role("option", name="openrouter").click()
    expect(page.locator(".count")).to_have_text("2 of 27 exchanges")


def test_the_exchanges_of_one_client_are_found(page: Page, story: Served) -> None:
    open_list(page, story)

    page.get_by_role("button", name="Client").click()
    page.get_by_role("option", name="Codex").click()

    expect(page.locator(".count")).to_have_text(re.compile(r"^\d of 27 exchanges$"))
    assert "client=Codex" in page.url
    assert set(page.locator(f"{ROWS} .c-client").all_text_contents()) == {"Codex"}


def test_nothing_matches_and_the_filters_can_be_cleared(page: Page, story: Served) -> None:
    page.goto(f"{story.url}/inspector/exchanges?status=failed&model=no-such*")

    expect(page.locator(".state b")).to_have_text("No exchange matches")
    expect(page.locator(".state p")).to_have_text(
        "27 exchanges are hidden by status: failed and model: no-such*."
    )
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(".count")).to_have_text("27 exchanges")
    assert page.url == f"{story.url}/inspector/exchanges"


def test_the_text_is_searched(page: Page, story: Served) -> None:
    open_list(page, story)

    page.keyboard.press("/")
    page.keyboard.type("hermes-4")
    expect(page.locator(".count")).to_have_text("1 of 27 exchanges")
    page.wait_for_url("**/exchanges?text=hermes-4")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert selected(page) is not None


def test_the_content_of_recordings_is_searched(page: Page, story: Served) -> None:
    open_list(page, story)

    page.keyboard.press("/")
    page.keyboard.type("a1b2c3 PARSE offsets")  # a tool's result, which is in no row of the list
    expect(page.locator(".count")).to_have_text(f"{TURNS - 5} of 27 exchanges")
    assert set(page.locator(f"{ROWS} .c-client").all_text_contents()) == {"Claude Code"}
    page.get_by_label("Search").fill("nobody wrote this")
    expect(page.locator(".state b")).to_have_text("No exchange matches")


def test_text_that_arrived_in_pieces_is_found(page: Page, story: Served) -> None:
    api = f"{story.url}/inspector/api/exchanges"
    exchange = httpx2.get(f"{api}?model=claude-sonnet*").json()["rows"][0]["id"]
    rows = httpx2.get(f"{api}/{exchange}").json()["meaning"]["rows"]
    texts = [row["text"] for row in rows if row["kind"] == "text"]
    phrase = "".join(texts[:6]).strip()
    assert len(phrase) > len(texts[0]) > 0
    open_list(page, story)

    page.get_by_label("Search").fill(phrase)
    expect(page.locator(".count")).to_have_text(re.compile(r"^[1-9]\d* of 27 exchanges$"))
    expect(page.locator(f"{ROWS} [data-id={exchange}]")).to_be_visible()


def test_a_search_shows_how_far_it_has_come(page: Page, story: Served) -> None:
    asked: list[str] = []

    def unfinished(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        if found.get("search"):
            asked.append(route.request.url)
            found["search"] = {"searched": min(9 * len(asked), 27), "of": 27}
        route.fulfill(response=answer, json=found)

    page.route("**/api/exchanges?*", unfinished)
    page.goto(f"{story.url}/inspector/exchanges?text=offset")
    expect(page.locator(".count")).to_have_text(re.compile(r"^\d+ of 27 exchanges$"))
    assert len(asked) == 3
    assert len(set(asked)) == 1


def test_the_filtered_list_is_downloaded_as_one_archive(page: Page, story: Served) -> None:
    open_list(page, story, "?model=glm*")
    shown = set(ids(page))
    link = page.get_by_role("link", name="Download these recordings")
    with page.expect_download() as download:
        link.click()

    assert download.value.suggested_filename == "recordings.tar"
    with tarfile.open(download.value.path()) as archive:
        files = archive.getnames()
        texts = [archive.extractfile(name).read() for name in files]
    assert len(files) == len(shown) > 1
    assert all(name.endswith(".dragoman") for name in files)
    assert {json.loads(text.split(b"\n")[0])["id"] for text in texts} == shown
    page.goto(f"{story.url}/inspector/exchanges?model=no-such*")
    expect(page.locator(".state b")).to_have_text("No exchange matches")
    expect(link).to_be_hidden()


def test_a_figure_filters_by_time(page: Page, story: Served) -> None:
    open_list(page, story)

    page.locator(".stat svg").first.click(position={"x": 5, "y": 10})
    page.wait_for_url(re.compile(r"since=\d+&until=\d+"))
    expect(page.locator(".pick.on .k")).to_have_text("Time")


def test_keys_move_through_the_rows_and_back_restores_them(page: Page, story: Served) -> None:
    open_list(page, story)
    order = ids(page)

    for key in ("j", "j", "ArrowDown", "k"):
        page.keyboard.press(key)
    assert selected(page) == order[1]
    assert f"sel={order[1]}" in page.url
    expect(page.locator(f"{ROWS}[aria-selected=true] .cover")).to_be_focused()
    page.keyboard.press("x")
    assert page.locator(f"{ROWS}[aria-selected=true] .probs .chip").count() > 0
    chosen = selected(page)
    page.evaluate("scrollTo(0, 120)")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/inspector/exchanges/{chosen}")
    page.go_back()

    page.wait_for_selector(f"{ROWS} .cover[href]")
    assert selected(page) == chosen
    assert page.evaluate("scrollY") == 120
    page.keyboard.press("Escape")
    assert "sel=" not in page.url


def test_prefix_keys_theme_and_help(page: Page, story: Served) -> None:
    open_list(page, story)

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.get_by_label("Single keys are shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") is None
    page.locator("#help").click()
    page.get_by_label("Single keys are shortcuts").check()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_focused()
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.wait_for_selector(f"{ROWS} .cover[href]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    # A page that was just loaded may lose keys until something has the focus.
    page.locator("main").press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/inspector/playground")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Playground")


def test_new_exchanges_enter_at_the_top_while_nothing_is_read(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    served = inspect(growing)
    open_list(page, served)

    add(growing, recordings, "req_new1")
    expect(page.locator(".count")).to_have_text("61 exchanges")
    assert ids(page)[0] == "req_new1"


def test_new_exchanges_wait_while_a_row_is_read(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    served = inspect(growing)
    open_list(page, served)
    page.keyboard.press("j")
    before = ids(page)

    for number in range(3):
        add(growing, recordings, f"req_new{number}")
    expect(page.locator(".newpill")).to_have_text("↑ 3 new")
    assert ids(page) == before
    page.keyboard.press("n")
    expect(page.locator(".newpill")).to_be_hidden()
    expect(page.locator(f"{ROWS} [data-id=req_new2]")).to_be_visible()
    assert ids(page)[3] == before[0]


# A headless browser hides no tab: this makes the page believe that its own is.
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_shows_new_exchanges_only_when_it_is_looked_at_again(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    served = inspect(growing)
    open_list(page, served)
    before = ids(page)

    page.evaluate(HIDE, True)
    with page.expect_event("console", lambda line: line.text == "live: 3") as seen:
        page.evaluate(
            """() => {
                let count = 0;
                const source = new EventSource("/inspector/api/live");
                source.addEventListener("exchange", () => console.info(`live: ${(count += 1)}`));
            }"""
        )
        for number in range(3):
            add(growing, recordings, f"req_hidden{number}")
    assert seen.value
    page.wait_for_timeout(1000)  # four times the pause between two deliveries
    assert before == ids(page)
    expect(page.locator(".count")).to_have_text("60 exchanges")

    page.evaluate(HIDE, False)
    expect(page.locator(".count")).to_have_text("63 exchanges")
    assert {f"req_hidden{number}" for number in range(3)} == set(ids(page)[:3])


# Stands for the browser's event stream: `flood` sends rows to the page, and `taken` counts those that it decodes.
FLOOD = """
window.taken = 0;
const parse = JSON.parse;
JSON.parse = (text, ...more) => {
    if (typeof text === "string" && text.includes("req_flood")) window.taken += 1;
    return parse(text, ...more);
};
window.EventSource = class extends EventTarget {
    constructor() {
        super();
        window.flood = (row, count) => {
            for (let number = 0; number < count; number += 1) {
                const data = JSON.stringify({ ...row, id: `req_flood${number}` });
                this.dispatchEvent(new MessageEvent("exchange", { data }));
            }
        };
        setTimeout(() => this.dispatchEvent(new MessageEvent("hello")));
    }
    close() {}
};
"""


def test_a_hidden_tab_keeps_few_rows_and_loads_the_newest_when_it_is_shown(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    served = inspect(growing)
    page.add_init_script(FLOOD)
    open_list(page, served)
    row = httpx2.get(f"{served.url}/inspector/api/exchanges?limit=1").json()["rows"][0]

    page.evaluate(HIDE, True)
    page.evaluate("(row) => flood(row, 20_000)", row)
    assert 1001 == page.evaluate("taken")
    add(growing, recordings, "req_meanwhile")
    until(lambda: "req_meanwhile" in httpx2.get(f"{served.url}/inspector/api/exchanges").text)
    expect(page.locator(".count")).to_have_text("60 exchanges")

    page.evaluate(HIDE, False)
    expect(page.locator(".count")).to_have_text("61 exchanges")
    assert "req_meanwhile" == ids(page)[0]
    page.evaluate("(row) => flood(row, 1)", row)
    assert 1002 == page.evaluate("taken")


def test_only_matching_exchanges_are_counted_as_new(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    served = inspect(growing)
    open_list(page, served, "?text=copy00000")

    add(growing, recordings, "req_other")
    add(growing, recordings, "req_copy00000x")
    expect(page.locator(".count")).to_have_text("11 of 62 exchanges")


def test_the_page_outlives_its_server(
    watched: Watched, inspect, growing: Path, recordings: Path
) -> None:
    watched.expected = [
        "ERR_CONNECTION_REFUSED",
        "ERR_INCOMPLETE_CHUNKED_ENCODING",
        "ERR_CONNECTION_RESET",
    ]
    page = watched.page()
    page.clock.install()
    served = inspect(growing)
    open_list(page, served)

    served.stop()
    expect(page.locator(".lost")).to_contain_text("The gateway does not answer.")
    page.clock.pause_at(time.time() + 1)  # otherwise the page may reconnect before the click
    expect(page.locator(".lost")).to_contain_text("You see what arrived until")
    expect(page.locator("#live")).to_contain_text("Reconnecting")
    assert len(ids(page)) > 20
    add(growing, recordings, "req_missed")
    inspect(growing, served.port)
    page.get_by_role("button", name="Try now").click()
    page.clock.resume()
    expect(page.locator("#live")).to_contain_text("Live")
    expect(page.locator(".lost")).to_have_count(0)
    expect(page.locator(".count")).to_have_text("61 exchanges")


def test_a_process_that_has_not_seen_a_new_row_is_asked_again(
    page: Page, inspect, growing: Path, recordings: Path
) -> None:
    """Events and lists may come from two workers.  The second one looks at the folder once a second."""
    served = inspect(growing)
    open_list(page, served)
    listed = f"{served.url}/inspector/api/exchanges"
    earlier = httpx2.get(listed, params={"limit": 50, "newest": "req_new"}).json()
    assert earlier["behind"]
    asked: list[str] = []

    def late(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) <= 2:
            route.fulfill(json=earlier)
        else:
            route.continue_()

    page.route(re.compile(r"/api/exchanges\?.*newest="), late)
    add(growing, recordings, "req_new")
    expect(page.locator(".count")).to_have_text("61 exchanges")
    page.wait_for_timeout(1500)
    assert len(asked) == 3
    assert all("newest=req_new" in one for one in asked)


def test_the_list_grows_with_the_exchanges_of_all_workers(page: Page, tmp_path: Path) -> None:
    """Each worker serves some requests; the page's events come from one of them."""
    with simulating() as simulator:
        flags = ("--upstream", f"{simulator.url}/v1", "--record", str(tmp_path / "recordings"))
        with serving(tmp_path, "--workers", "2", *flags) as served:
            until(lambda: len(served.notices("started")) == 2)
            page.goto(f"{served.url}/inspector/exchanges")
            expect(page.locator(".state b")).to_have_text("No exchanges yet")
            for number in range(10):  # each on its own connection, so that both workers get some
                asked = question("anthropic", "plain")
                answer = httpx2.post(f"{served.url}/v1/messages", json=asked)
                assert answer.status_code == 200
                expect(page.locator(".count")).to_have_text(
                    f"{number + 1} exchange{'s' if number else ''}"
                )
            expect(page.locator(ROWS)).to_have_count(10)
            expect(page.locator(f"{ROWS} .c-status").filter(has_text="200 end_turn")).to_have_count(
                10
            )
            page.goto("about:blank")
            served.send_signal("SIGTERM")
            assert 0 == served.end()


def test_an_empty_folder_shows_how_to_begin(
    page: Page, inspect, tmp_path: Path, recordings: Path
) -> None:
    served = inspect(tmp_path)
    page.goto(f"{served.url}/inspector")

    expect(page.locator(".state b")).to_have_text("No exchanges yet")
    expect(page.locator(".state pre")).to_contain_text("curl -s 127.0.0.1:")
    add(tmp_path, recordings, "req_first")
    expect(page.locator(f"{ROWS} [data-id=req_first]")).to_be_visible()
    expect(page.locator(".state")).to_have_count(0)


def test_cards_and_the_dialog_of_filters_on_a_phone(phone: Page, story: Served) -> None:
    open_list(phone, story)

    heights = phone.locator(ROWS).evaluate_all(
        "all => [...new Set(all.map((one) => one.offsetHeight))].sort()"
    )
    assert set(heights) == {56, 80}
    expect(phone.locator(".row.head")).to_be_hidden()
    phone.locator(".more").click()
    sheet = phone.get_by_role("dialog", name="Filters")
    status = sheet.get_by_role("group", name="Status")
    status.get_by_role("button", name=re.compile("^failed")).click()
    expect(sheet.locator("footer")).to_contain_text("3 of 27 exchanges")
    sheet.get_by_role("button", name="Show").click()
    expect(phone.locator(ROWS)).to_have_count(3)
    expect(phone.locator(".more .chip")).to_have_text("1")
    expect(phone.locator(".more")).to_be_focused()
