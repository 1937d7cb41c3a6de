"""The playground, in Chromium, over the real parser: live, at every chunk size, by file and at all widths."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.servers import Served

HERMES = 'Look: <tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call>'
Open = Callable[..., Page]


@pytest.fixture
def playground(page: Page, story: Served) -> Open:
    def open_playground(query: str = "") -> Page:
        page.goto(f"{story.url}/inspector/playground{query}")
        expect(result(page)).to_contain_text("complete")
        return page

    return open_playground


def panel(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def result(page: Page) -> Locator:
    return panel(page, "Result")


def field(page: Page) -> Locator:
    return page.get_by_label("Stream or text")


def test_the_example_becomes_a_call(playground: Open) -> None:
    page = playground()
    expect(result(page).locator(".name")).to_have_text("Bash")
    expect(result(page)).to_contain_text("Matches the tool schema")
    expect(result(page)).to_contain_text("1 call, 27 bytes of text")
    expect(panel(page, "Input")).to_contain_text("224 bytes, 19 chunks; each line marks a cut")
    expect(
        page.get_by_role("heading", name="Every chunk size gives the same result")
    ).to_be_visible()
    assert page.locator(".paste .cut").count() == 18
    assert page.locator(".paste pre").inner_text().rstrip("\n") == field(page).input_value()


def test_the_parse_follows_what_is_typed(playground: Open) -> None:
    page = playground()
    field(page).fill(HERMES)
    expect(result(page).locator(".name")).to_have_text("ls")
    expect(page.get_by_role("combobox", name="Family")).to_contain_text("hermes (detected)")
    field(page).fill("no call")
    expect(result(page)).to_contain_text("0 calls, 7 bytes of text")
    assert "no call" not in page.url


def test_the_slider_cuts_the_input(playground: Open) -> None:
    page = playground("?size=64")
    expect(panel(page, "Input")).to_contain_text("4 chunks")
    page.get_by_label("Chunk size in bytes").fill("1")
    expect(panel(page, "Input")).to_contain_text("224 chunks")
    assert parse_qs(urlsplit(page.url).query)["size"] == ["1"]


def test_events_select_their_bytes(playground: Open) -> None:
    page = playground()
    rows = page.locator(".evt")
    rows.filter(has_text="ytest -q tes").click()
    expect(page.locator(".evt.sel")).to_have_count(7)
    hot = "".join(page.locator(".paste .hot").all_inner_texts())
    assert json.loads(hot) == {"command": "pytest -q tests/test_dates.py", "timeout": 120000}
    rows.filter(has_text="ytest -q tes").click()
    assert page.locator(".paste .hot").all_inner_texts() == ["ytest -q tes"]
    page.keyboard.press("Escape")
    expect(page.locator(".evt.sel")).to_have_count(0)


def test_the_result_is_shown_in_every_dialect(playground: Open) -> None:
    page = playground()
    page.get_by_role("button", name="Messages").click()
    expect(result(page).locator("pre")).to_contain_text('"tool_use"')
    page.get_by_role("button", name="Responses").click()
    expect(result(page).locator("pre")).to_contain_text('"function_call"')


def test_arguments_are_checked_against_the_schema(playground: Open) -> None:
    page = playground()
    schema = page.get_by_role("textbox", name="Tool schema")
    schema.fill(schema.input_value().replace('"integer"', '"boolean"'))
    expect(result(page)).to_contain_text("timeout must be boolean")
    schema.fill("{")
    expect(page.get_by_role("alert").filter(has_text="This is not JSON")).to_be_visible()


def test_a_stream_is_parsed(playground: Open) -> None:
    page = playground()
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": HERMES}}]}
    page.get_by_role("combobox", name="Input").select_option("stream")
    page.get_by_role("textbox", name="Tool schema").fill("")
    field(page).fill(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
    expect(result(page).locator(".name")).to_have_text("ls")
    expect(page.get_by_role("combobox", name="Channel")).to_be_hidden()


def test_a_size_that_differs_is_red_and_can_be_chosen(page: Page, story: Served) -> None:
    def answer(route: Route) -> None:
        asked = route.request.post_data_json
        found: dict[str, Any] = {
            "events": [],
            "cuts": [],
            "calls": [],
            "problems": [],
            "family": "",
        }
        sizes = [size not in (7, 31) for size in range(1, 65)]
        route.fulfill(json={**found, "sizes": sizes, "text": str(asked["size"]), "outputs": {}})

    page.route("**/inspector/api/playground", answer)
    page.goto(f"{story.url}/inspector/playground")
    expect(page.get_by_role("heading", name="2 chunk sizes give another result")).to_be_visible()
    assert page.locator(".sizes rect.f-error").count() == 2
    page.locator(".differing").get_by_role("button", name="31").click()
    expect(page.locator(".slider output")).to_have_text("31 bytes")
    expect(result(page)).to_contain_text('"31"')
    box = page.locator(".sizes svg").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 6.4 / 64, box["y"] + 9)
    expect(page.locator(".slider output")).to_have_text("7 bytes")


def test_a_file_holds_everything(playground: Open, tmp_path: Path) -> None:
    page = playground()
    field(page).fill(HERMES)
    page.get_by_label("Chunk size in bytes").fill("5")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as file").click()
    saved = tmp_path / "playground.json"
    download.value.save_as(saved)
    page.get_by_role("button", name="Example").click()
    expect(result(page).locator(".name")).to_have_text("Bash")
    page.get_by_label("File to open").set_input_files(saved)
    expect(result(page).locator(".name")).to_have_text("ls")
    expect(page.locator(".slider output")).to_have_text("5 bytes")
    stream = tmp_path / "answer.sse"
    stream.write_text("data: [DONE]\n\n")
    page.get_by_label("File to open").set_input_files(stream)
    expect(page.get_by_role("combobox", name="Input")).to_have_value("stream")


def test_what_cannot_be_parsed_is_explained(watched: Any, story: Served) -> None:
    watched.expected.append("Failed to load resource")
    page = watched.page()
    page.goto(f"{story.url}/inspector/playground")
    page.get_by_role("textbox", name="Tool schema").fill("[1]")
    expect(result(page)).to_contain_text("the tool schema cannot be read")


def test_invisible_characters_are_named(playground: Open) -> None:
    page = playground()
    field(page).fill("a\u202eb\u200bc<img src=x onerror=alert(1)>")
    expect(panel(page, "Input")).to_contain_text("Characters that cannot be seen: \\u202e \\u200b")
    assert page.locator("main img").count() == 0


def test_no_width_scrolls_horizontally(playground: Open) -> None:
    page = playground()
    for width in (360, 390, 768, 1024, 1280, 1440, 1600):
        page.set_viewport_size({"width": width, "height": 844})
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(over) == 0, width


def test_the_field_lies_exactly_over_its_picture(playground: Open) -> None:
    page = playground()
    field(page).fill("word " * 400 + "\n\tend")
    expect(panel(page, "Input")).to_contain_text(re.compile("chunks"))
    heights = page.evaluate(
        "[document.querySelector('.paste pre').offsetHeight, document.querySelector('.paste textarea').scrollHeight]"
    )
    assert abs(heights[0] - heights[1]) <= 26  # the picture has one empty line more
