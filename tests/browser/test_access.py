"""A gateway with keys: the page asks for one, and shows what it may see."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings
from tests.browser.conftest import Watched
from tests.support.asking import post
from tests.support.gateway import Stand, settings_for, stand


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        keys = (
            Key(key=Secret("env:A", "key-of-alice"), name="alice"),
            Key(key=Secret("env:C", "key-of-the-operator"), name="operator", inspect=True),
        )
        return settings_for(url, server=Server(port=0, keys=keys), record=Record(dir=str(tmp_path)))

    with stand(make) as gateway:
        for key in ("key-of-alice", "key-of-the-operator"):
            post(gateway, "chat", headers={"x-api-key": key})
        yield gateway


def test_a_key_opens_the_page_and_is_kept_nowhere(watched: Watched, locked: Stand) -> None:
    watched.expected = ["401"]
    page = watched.page()
    page.goto(f"{locked.url}/inspector/exchanges")
    field = page.get_by_label("A key with the right inspect")

    field.fill("guess")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The gateway does not know this key.")
    field.fill("key-of-alice")
    field.press("Enter")

    expect(page.locator(".count")).to_have_text("1 exchange")
    expect(page.locator(".notice")).to_contain_text("This key cannot see other exchanges.")
    expect(page.locator("#live")).to_contain_text("Live")
    stored = page.evaluate(
        "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"
    )
    assert "alice" not in stored
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (
        True,
        "Strict",
        "/inspector",
    )
    page.close()
    watched.close()


def test_a_key_with_the_right_to_look_sees_all(watched: Watched, locked: Stand) -> None:
    watched.expected = ["401"]
    page = watched.page()
    page.goto(f"{locked.url}/inspector/exchanges")
    field = page.get_by_label("A key with the right inspect")
    field.fill("key-of-the-operator")
    field.press("Enter")

    expect(page.locator(".count")).to_have_text("2 exchanges")
    expect(page.locator(".notice")).to_have_count(0)
    watched.close()
