"""Recordings whose every field is markup, script and invisible characters: the page shows them as text."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from dragoman.gateway.config.settings import Record, Settings
from tests.browser.conftest import Watched
from tests.browser.servers import Served, inspect_folder
from tests.browser.test_layout import wait_until_shown
from tests.support.asking import post
from tests.support.gateway import settings_for, stand

HOSTILE = (
    "<img src=x onerror=window.broken=1><script>window.broken=1</script>"
    "<svg onload=window.broken=1><a href=javascript:window.broken=1>\u202e\u200b\u0007\"'>{{x}}${x}"
)
_KEPT = {
    "line",
    "id",
    "dialect",
    "upstream_dialect",
    "native_format",
    "method",
    "path",
    "source",
    "target",
}
_TOOL = {
    "name": "run",
    "description": HOSTILE,
    "input_schema": {
        "type": "object",
        "properties": {HOSTILE: {"type": "integer"}},
        "required": ["x"],
    },
}


def hostile(value: Any, key: str = "") -> Any:
    """Return a value of a recording with hostile texts, where any text is allowed."""
    if isinstance(value, str):
        return value if key in _KEPT else HOSTILE
    if isinstance(value, list):
        return [hostile(one, key) for one in value]
    if isinstance(value, dict):
        return {name: hostile(one, name) for name, one in value.items()}
    return value


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory):
    """A server over two turns of a hostile agent."""
    folder = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(folder)))

    call = json.dumps({HOSTILE: HOSTILE})
    ask = f"{HOSTILE}\nsim: think {HOSTILE}\nsim: say {HOSTILE}\nsim: call run {call}\nsim: then\nsim: say {HOSTILE}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": ask}]
    with stand(make) as gateway:
        for turn in range(2):
            body = {
                "model": "chat/kimi-k2+leak-reasoning+think",
                "max_tokens": 999,
                "system": f"{HOSTILE} {turn}",
                "messages": messages,
                "tools": [_TOOL],
                "metadata": {"user_id": HOSTILE},
            }
            answer = post(gateway, "anthropic", body, headers={"user-agent": "claude-cli/2"})
            blocks = answer.json()["content"]
            results = [
                {"type": "tool_result", "tool_use_id": one["id"], "content": HOSTILE}
                for one in blocks
                if one["type"] == "tool_use"
            ]
            messages = [
                *messages,
                {"role": "assistant", "content": blocks},
                {"role": "user", "content": results},
            ]
        post(
            gateway, "chat", {"model": HOSTILE, "messages": [{"role": "user", "content": HOSTILE}]}
        )
    for file in folder.glob("*.dragoman"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines[0]["headers"] = dict.fromkeys(lines[0]["headers"], HOSTILE)
        lines[-1]["record"] = hostile(lines[-1]["record"])
        for line in lines:
            if line["line"] == "attempt":
                line |= {"upstream": HOSTILE, "model": HOSTILE, "url": HOSTILE}
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    served = inspect_folder(folder)
    yield served
    served.stop()


def check(page: Page) -> None:
    """Nothing ran, and no element or attribute was made from content."""
    assert page.evaluate("window.broken") is None
    assert (
        page.locator(
            "main img, main script, main iframe, main object, main embed, main form[action]"
        ).count()
        == 0
    )
    attributes = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter((name) => name.startsWith('on'))"
    )
    assert attributes == []
    links = page.evaluate("[...document.querySelectorAll('a[href]')].map((one) => one.protocol)")
    assert set(links) <= {"http:", "https:"}
    shown = page.evaluate("document.querySelector('main').textContent")
    assert not set("\u202e\u200b\u0007") & set(shown)


def test_the_list(page: Page, attacked: Served) -> None:
    page.goto(f"{attacked.url}/inspector/exchanges")
    page.wait_for_selector(".row .cover[href]")
    check(page)
    expect(page.locator(".row .esc").first).to_have_text("\\u202e")
    for name in ("Model", "Upstream", "Status", "Problem"):
        page.get_by_role("button", name=name).click()
        expect(page.locator(".menu:not([hidden]) .option").first).to_be_visible()
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Model").click()
    page.get_by_role("option").first.click()
    page.keyboard.press("Escape")
    expect(page.locator(".pick.on")).to_have_count(1)
    expect(page.locator(".count")).to_contain_text("exchange")
    check(page)


@pytest.mark.parametrize("width", [390, 1440])
def test_every_exchange(watched: Watched, attacked: Served, width: int) -> None:
    page = watched.page(width)
    rows = httpx2.get(f"{attacked.url}/inspector/api/exchanges").json()["rows"]
    assert len(rows) == 3
    for row in rows:
        page.goto(f"{attacked.url}/inspector/exchanges/{row['id']}")
        wait_until_shown(page)
        check(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1440])
def test_every_conversation(watched: Watched, attacked: Served, width: int) -> None:
    page = watched.page(width)
    rows = httpx2.get(f"{attacked.url}/inspector/api/conversations").json()["rows"]
    assert rows
    for row in rows:
        page.goto(f"{attacked.url}/inspector/conversations/{row['id']}")
        wait_until_shown(page)
        check(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_is_served_under_its_policy(attacked: Served, tmp_path: Path) -> None:
    answer = httpx2.get(f"{attacked.url}/inspector/exchanges")

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert " style=" not in answer.text
