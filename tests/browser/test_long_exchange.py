"""A long answer in Chromium: its first part at once, and rows in pages while the user scrolls."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from dragoman.inspector.recordings import MOST_BYTES
from tests.browser.servers import Served, inspect_folder
from tests.support.long_recordings import write_long

CHUNKS = 12_000
ADDRESS = "/inspector/exchanges/req_long"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_long(tmp_path_factory.mktemp("long"), chunks=CHUNKS)


@pytest.fixture(scope="module")
def long(path: Path) -> Iterator[Served]:
    served = inspect_folder(path.parent)
    yield served
    served.stop()


def rows(page: Page) -> list[str]:
    """Return the pages of rows that are asked for from now on."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/rows?" in request.url:
            asked.append(request.url.partition("?")[2])

    page.on("request", note)
    return asked


def row(page: Page, column: str, number: int) -> Locator:
    exact = re.compile(rf"^{number}$")
    return page.locator(f"#column-{column} li.ev").filter(has=page.locator(".n", has_text=exact))


def open_whole(page: Page, served: Served, query: str = "") -> None:
    page.goto(f"{served.url}{ADDRESS}{query}")
    expect(page.locator(".card .name")).to_have_text("bash")
    expect(page.locator(".notice")).to_have_count(0)


def test_the_first_part_is_shown_while_the_rest_is_read(
    page: Page, long: Served, path: Path
) -> None:
    path.touch()  # so that it is read again
    held: list[Route] = []
    page.route(re.compile(r"/api/exchanges/req_long$"), lambda route: held.append(route))  # noqa: PLW0108 -- playwright marks handlers
    page.goto(f"{long.url}{ADDRESS}")

    expect(page.locator(".notice")).to_contain_text("The recording is large.")
    expect(page.locator("#column-up .p").first).to_be_visible()
    expect(page.locator("#column-up .foldrow").first).to_contain_text("more of the same text")
    row(page, "up", 3).click()
    expect(page.locator(".selbar")).to_contain_text("client bytes")
    expect(page.locator(".card")).to_have_count(0)
    expect(page.get_by_text("The recording is being read.").first).to_be_visible()
    (whole,) = held
    whole.continue_()
    expect(page.locator(".notice")).to_have_count(0)
    expect(page.locator(".card .name")).to_have_text("bash")
    expect(page.locator("#column-up .colh")).to_contain_text("12,0")
    expect(page.locator(".selbar")).to_contain_text("client bytes")


def test_rows_come_in_pages_while_the_user_scrolls(page: Page, long: Served) -> None:
    asked = rows(page)
    open_whole(page, long)
    page.wait_for_timeout(300)
    assert len(asked) <= 3  # what is below the folded text, of each column
    asked.clear()

    page.locator("#column-up .foldrow").first.click()
    for number in (5_500, 11_500):
        page.evaluate(f"document.getElementById('rows-up').scrollTop = {number} * 24")
        text = row(page, "up", number + 5).locator(".p")
        expect(text).to_have_text(re.compile(r"^part \d+ $"), use_inner_text=False)
        assert abs(int((text.text_content() or "").split()[1]) - number) < 10
    assert len(asked) <= 4
    assert all(one.startswith("column=upstream") for one in asked)
    assert page.locator("#column-up li").count() <= 80


def test_a_row_behind_the_first_page_leads_to_the_other_columns(page: Page, long: Served) -> None:
    open_whole(page, long)
    page.locator("#column-up .foldrow").first.click()
    page.evaluate("document.getElementById('rows-up').scrollTop = 9000 * 24")
    target = row(page, "up", 9005)
    expect(target.locator(".p")).to_have_text(re.compile("^part "))
    text = target.locator(".p").inner_text().strip()
    target.click()
    target.click()

    for column in ("ev", "client"):
        chosen = page.locator(f"#column-{column} li.sel .p")
        expect(chosen).to_have_count(1)
        expect(chosen).to_have_text(text)
        expect(chosen).to_be_in_viewport()
    address = page.url
    page.reload()
    expect(page.locator(".card .name")).to_have_text("bash")
    expect(page.locator("#column-ev li.sel .p")).to_have_text(text)
    assert page.url == address


def test_raw_bytes_are_shown_at_any_place(page: Page, long: Served) -> None:
    open_whole(page, long, "?show=raw")
    page.evaluate("document.getElementById('rows-client').scrollTop = 1e7")
    last = page.locator("#column-client li.ev .p").filter(has_text="message_stop")
    expect(last.first).to_be_visible()
    expect(page.locator("#column-client li.ev:visible .p").first).not_to_be_empty()


def test_keys_reach_the_call_behind_the_text(page: Page, long: Served) -> None:
    open_whole(page, long)
    page.keyboard.press("x")
    expect(page.locator(".selbar b")).to_have_text("bash, call 1")
    expect(page.locator("#column-up li.sel .p").first).to_be_in_viewport()
    expect(page.locator("#column-up li.sel .p").first).not_to_be_empty()


def test_the_whole_answer_costs_little_more_than_its_first_page(page: Page, long: Served) -> None:
    sizes: dict[str, int] = {}
    page.on(
        "response",
        lambda answer: (
            sizes.__setitem__(answer.url.partition("?")[2], len(answer.body()))
            if re.search(r"/exchanges/req_long($|\?)", answer.url)
            else None
        ),
    )
    open_whole(page, long)
    first, whole = sizes["part=first"], sizes[""]
    assert whole < 3 * first  # 12,000 rows of three columns cost little more than the first page
    assert page.locator("li").count() < 300


def test_of_a_very_large_recording_the_beginning_is_shown_and_the_file_offered(
    page: Page, inspect, tmp_path: Path
) -> None:
    path = write_long(tmp_path, chunks=4000, chars=5000, per_read=1)
    size = path.stat().st_size
    assert size > MOST_BYTES * 1.2
    page.set_default_timeout(120_000)
    page.goto(f"{inspect(tmp_path).url}{ADDRESS}")

    notice = page.locator(".notice").filter(has_text="The recording is very large.")
    expect(notice).to_be_visible(timeout=120_000)
    shown_to = int(re.search(r"byte ([\d,]+)\.", notice.inner_text())[1].replace(",", ""))
    assert MOST_BYTES - 64 * 1024 < shown_to <= MOST_BYTES
    expect(notice).to_contain_text("Download it to see the rest.")
    expect(row(page, "up", 1)).to_be_visible()
    expect(page.locator(".head1 .st")).to_contain_text("200")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download recording").click()
    assert download.value.path().stat().st_size == size
