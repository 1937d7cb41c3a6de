"""Pages in browsers: kept out, unless the settings name their origin."""

import urllib.request
from urllib.error import HTTPError

import pytest

from dragoman.gateway.config.settings import Server
from tests.support.gateway import Stand, settings_for, stand

PAGE = "https://app.example"


@pytest.fixture(scope="module")
def open_to_a_page() -> Stand:
    server = Server(port=0, allowed_origins=(PAGE,))
    with stand(lambda url: settings_for(url, server=server)) as found:
        yield found


def ask(url: str, *, origin: str, method: str = "POST"):
    body = b'{"model":"plain","messages":[{"role":"user","content":"hi"}]}'
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=body if method == "POST" else None,
        method=method,
        headers={"origin": origin, "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers
    except HTTPError as error:
        error.close()
        return error.code, error.headers


def test_an_allowed_page_may_ask_and_read(open_to_a_page: Stand) -> None:
    before, asked = ask(open_to_a_page.url, origin=PAGE, method="OPTIONS")
    status, headers = ask(open_to_a_page.url, origin=PAGE)

    assert (204, 200) == (before, status)
    assert PAGE == asked["access-control-allow-origin"] == headers["access-control-allow-origin"]


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_another_page_may_not(open_to_a_page: Stand, method: str) -> None:
    status, headers = ask(open_to_a_page.url, origin="https://evil.example", method=method)

    assert status in (403, 404)
    assert "access-control-allow-origin" not in headers
