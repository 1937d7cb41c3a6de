"""Who may look: sessions, pages of this server, and clients of a gateway without keys."""

import pytest

from dragoman.inspector.access import COOKIE, Sessions, Viewer, is_own_page
from dragoman.inspector.summary import LogRecord, summarize


def token(sessions: Sessions, owner: str) -> str:
    return sessions.cookie(owner).partition(";")[0]


def test_a_session_ends_after_twelve_hours() -> None:
    now = [1000.0]
    sessions = Sessions(b"secret", clock=lambda: now[0])
    cookie = token(sessions, "name:alice")
    assert sessions.owner(cookie) == "name:alice"
    now[0] += 12 * 3600 + 1
    assert sessions.owner(cookie) is None


def test_a_session_of_another_gateway_is_not_accepted() -> None:
    cookie = token(Sessions(b"one"), "name:alice")
    assert Sessions(b"one").owner(cookie) == "name:alice"  # another worker
    assert Sessions(b"other").owner(cookie) is None


@pytest.mark.parametrize(
    "header", ["", "x=1", f"{COOKIE}=", f"{COOKIE}=a.b", f"{COOKIE}=ü", f"{COOKIE}=..", "\x00"]
)
def test_anything_else_is_no_session(header: str) -> None:
    assert Sessions(b"secret").owner(header) is None


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8484", "127.0.0.1:8484", True),
        ("https://gate.example", "gate.example", True),
        ("https://gate.example:443", "gate.example", True),
        ("http://[::1]:8484", "[::1]:8484", True),
        ("http://LOCALHOST:8484", "localhost:8484", True),
        ("http://127.0.0.1:8485", "127.0.0.1:8484", False),
        ("http://evil.example", "127.0.0.1:8484", False),
        ("http://gate.example.evil.example", "gate.example", False),
        ("ftp://gate.example", "gate.example", False),
        ("null", "127.0.0.1:8484", False),
        ("", "127.0.0.1:8484", False),
        ("http://", "", False),
    ],
)
def test_pages_of_this_server(origin: str, host: str, own: bool) -> None:
    assert is_own_page(origin, host) is own


def test_an_exchange_without_an_owner_is_seen_by_nobody_but_those_who_see_all() -> None:
    unknown = summarize(LogRecord(id="a"), client="")
    assert not Viewer(all=False, owner="").may_see(unknown)
    assert not Viewer(all=False, owner="name:alice").may_see(unknown)
    assert Viewer(all=True).may_see(unknown)
