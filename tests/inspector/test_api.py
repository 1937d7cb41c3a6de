"""The list of exchanges over HTTP: rows, filters, pages, numbers, and who may look."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings
from dragoman.recorder.recording import parse_recording
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.recordings import recording_gateway
from tests.support.simulator import WEATHER, question
from tests.support.waiting import until

API = "/inspector/api"
CLAUDE = {"user-agent": "claude-cli/2.0.31 (external, cli)"}
MODELS = ("chat/kimi-k2+leak-reasoning", "chat/plain+length", "chat/plain+error:500", "chat/plain")


def fetch(stand: Stand, path: str, **more: Any) -> Any:
    answer = get(stand, f"{API}/{path}", **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A gateway that has recorded one exchange of each model."""
    folder = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(folder)))

    with stand(make) as gateway:
        for model in MODELS:
            asked = question("anthropic", model, tools=[WEATHER])
            post(gateway, "anthropic", asked, headers=CLAUDE)
        until(lambda: all(row["recorded"] for row in fetch(gateway, "exchanges")["rows"]))
        yield gateway


def test_rows_are_the_newest_first_and_name_what_happened(shown: Stand) -> None:
    page = fetch(shown, "exchanges")
    assert (page["total"], page["matched"], page["cursor"]) == (4, 4, None)
    plain, failed, cut, repaired = page["rows"]
    assert [row["client"] for row in page["rows"]] == ["Claude Code"] * 4
    assert (plain["level"], plain["ended"], plain["problems"]) == ("ok", "tool_use", [])
    assert (plain["dialect"], plain["upstream_dialect"]) == ("anthropic", "chat")
    assert (failed["level"], failed["status"]) == ("failed", 500)
    assert failed["problems"][0]["kind"] == "failed"
    assert (cut["level"], cut["ended"]) == ("warn", "max_tokens")
    assert cut["problems"][0] == {"kind": "truncated", "label": "truncated", "level": "warn"}
    assert repaired["family"] == "kimi_k2"
    assert {"kind": "repaired", "label": "repaired 1", "level": "call"} in repaired["problems"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("model=plain*", 3),
        ("model=plain*&model=kimi*", 4),
        ("model=plain*&status=failed", 1),
        ("status=200", 3),
        ("status=tool_use", 2),
        ("problem=truncated", 1),
        ("problem=call_cut", 1),
        ("family=kimi_k2", 1),
        ("client=claude*", 4),
        ("text=GET_WEATHER", 4),
        ("text=nowhere-at-all", 0),
        ("upstream=anthropic", 0),
        ("since=1h", 4),
        ("until=1h", 0),
        ("since=17", 4),
        ("since=1700000000&until=99999999999", 4),
    ],
)
def test_filters(shown: Stand, query: str, found: int) -> None:
    assert fetch(shown, f"exchanges?{query}")["matched"] == found


def test_a_search_finds_text_that_arrived_in_pieces(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as gateway:
        for words in ("Ferry to Naxos", "Train to Rome"):
            asked = question("anthropic", "chat/plain+chunk:1", f"sim: say {words}", stream=True)
            post(gateway, "anthropic", asked)
        until(lambda: all(row["recorded"] for row in fetch(gateway, "exchanges")["rows"]))
        page = fetch(gateway, "exchanges?text=ferry to NAXOS")
        assert (page["matched"], page["search"]) == (1, {"searched": 2, "of": 2})
        assert fetch(gateway, "overview?text=ferry to naxos")["now"]["of"] == 1


def test_the_recordings_of_a_list_can_be_downloaded(shown: Stand) -> None:
    answer = get(shown, f"{API}/recordings?model=plain*")
    assert answer.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
        first = archive.extractfile(names[0])
        assert first is not None
        recording = parse_recording(first.read(), names[0])
    assert len(names) == 3
    assert recording.opening.id == fetch(shown, "exchanges")["rows"][0]["id"]
    assert get(shown, f"{API}/recordings?model=none").status_code == 404


def test_pages_follow_one_another(shown: Stand) -> None:
    whole = [row["id"] for row in fetch(shown, "exchanges")["rows"]]
    first = fetch(shown, "exchanges?limit=3")
    second = fetch(shown, f"exchanges?limit=3&cursor={first['cursor']}")
    assert [row["id"] for row in (*first["rows"], *second["rows"])] == whole
    assert second["cursor"] is None


def test_rows_after_a_cursor_can_be_skipped(shown: Stand) -> None:
    whole = [row["id"] for row in fetch(shown, "exchanges")["rows"]]
    first = fetch(shown, "exchanges?limit=1")
    later = fetch(shown, f"exchanges?limit=1&skip=1&cursor={first['cursor']}")
    beyond = fetch(shown, f"exchanges?skip=9&cursor={first['cursor']}")
    assert [row["id"] for row in later["rows"]] == whole[2:3]
    assert (beyond["rows"], beyond["cursor"]) == ([], None)


@pytest.mark.parametrize("query", ["cursor=x", "since=soon", "limit=many", "limit=-1", "skip=x"])
def test_a_query_that_cannot_be_understood_is_400(shown: Stand, query: str) -> None:
    answer = get(shown, f"{API}/exchanges?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_query"


def test_numbers_and_facets(shown: Stand) -> None:
    overview = fetch(shown, "overview")
    assert len(overview["per_minute"]) == overview["points"] == 40
    assert (overview["now"]["of"], overview["now"]["failed"]) == (4, 1)
    assert (sum(overview["failed"]), sum(overview["repaired"])) == (1, 1)
    facets = fetch(shown, "facets")
    assert {"value": "failed", "count": 1} in facets["status"]
    assert {"value": "plain", "count": 1} in facets["model"]
    assert {"value": "truncated", "count": 1} in facets["problem"]


def test_the_server_describes_itself(shown: Stand) -> None:
    me = fetch(shown, "me")
    assert (me["recording"], me["all"], me["keep"]) == ("always", True, "7 days or 4 GB")
    assert me["address"] in shown.url
    assert "kimi_k2" in me["families"]


def test_every_answer_has_the_security_headers(shown: Stand) -> None:
    for path in ("/inspector", f"{API}/me", f"{API}/nothing", "/inspector/static/../api.py"):
        headers = get(shown, path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_a_page_of_another_name_gets_nothing(shown: Stand) -> None:
    """A name that its owner made to mean this machine: DNS rebinding."""
    answer = get(shown, f"{API}/exchanges", headers={"host": "evil.example"})
    assert answer.status_code == 403
    assert "rows" not in answer.text


def test_posts_of_other_pages_are_refused(shown: Stand) -> None:
    for origin in ("", "http://evil.example", "null", "http://127.0.0.1:1"):
        headers = {"origin": origin} if origin else {}
        answer = httpx2.post(f"{shown.url}{API}/session", json={"key": "x"}, headers=headers)
        assert answer.status_code == 403, origin


def test_events_begin_with_hello_and_continue_where_they_ended() -> None:
    with stand() as gateway:
        live = f"{gateway.url}{API}/live"
        with httpx2.stream("GET", live, timeout=20) as answer:
            lines = answer.iter_lines()
            head = [next(lines) for _ in range(3)]
            assert head[2] == "event: hello"
            post(gateway, "chat")
            row = first_row(lines)
            assert row["dialect"] == "chat"
        later = {"last-event-id": head[1].removeprefix("id: ")}
        with httpx2.stream("GET", live, headers=later, timeout=20) as answer:
            assert first_row(answer.iter_lines())["id"] == row["id"]


def first_row(lines: Iterator[str]) -> Any:
    return next(json.loads(line[6:]) for line in lines if line.startswith('data: {"id"'))


def test_exchanges_are_kept_in_memory_where_nothing_is_recorded() -> None:
    with stand() as gateway:
        post(gateway, "chat")
        (row,) = fetch(gateway, "exchanges")["rows"]
        assert (row["recorded"], row["model"]) == (False, "plain")
        assert fetch(gateway, "me")["recording"] == "off"


# --- keys ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A gateway with three keys, of which two have asked for something."""
    folder = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        keys = (
            Key(key=Secret("env:A", "key-of-alice"), name="alice"),
            Key(key=Secret("env:B", "key-of-bob"), name="bob"),
            Key(key=Secret("env:C", "key-of-the-operator"), name="operator", inspect=True),
        )
        record = Record(dir=str(folder))
        return settings_for(url, server=Server(port=0, keys=keys), record=record)

    with stand(make) as gateway:
        for key in ("key-of-alice", "key-of-bob"):
            post(gateway, "chat", headers={"x-api-key": key})
        # A file appears with its first line; the list knows it a moment later.
        operator = {"x-api-key": "key-of-the-operator"}
        until(
            lambda: (
                [True, True]
                == [
                    row["recorded"] for row in fetch(gateway, "exchanges", headers=operator)["rows"]
                ]
            )
        )
        yield gateway


def seen(locked: Stand, key: str) -> list[str]:
    return [row["key"] for row in fetch(locked, "exchanges", headers={"x-api-key": key})["rows"]]


def test_a_key_sees_its_own_exchanges_and_the_operator_all(locked: Stand) -> None:
    assert seen(locked, "key-of-alice") == ["alice"]
    assert seen(locked, "key-of-bob") == ["bob"]
    assert seen(locked, "key-of-the-operator") == ["bob", "alice"]
    assert get(locked, f"{API}/exchanges").status_code == 401
    assert get(locked, f"{API}/exchanges", headers={"x-api-key": "guess"}).status_code == 401
    assert get(locked, f"{API}/live").status_code == 401


def test_a_key_searches_and_downloads_only_its_own_recordings(locked: Stand) -> None:
    def found(key: str) -> tuple[int, int]:
        headers = {"x-api-key": key}
        page = fetch(locked, "exchanges?text=hello", headers=headers)
        answer = get(locked, f"{API}/recordings", headers=headers)
        with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
            return page["search"]["of"], len(archive.getnames())

    assert found("key-of-the-operator") == (2, 2)
    assert found("key-of-alice") == (1, 1)
    assert get(locked, f"{API}/recordings").status_code == 401


def test_a_session_replaces_the_key(locked: Stand) -> None:
    own = {"origin": locked.url}
    path = f"{locked.url}{API}/session"
    assert httpx2.post(path, json={"key": "guess"}, headers=own).status_code == 401
    opened = httpx2.post(path, json={"key": "key-of-alice"}, headers=own)
    assert opened.status_code == 204
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/inspector" in cookie
    assert "key-of-alice" not in cookie
    token = cookie.partition(";")[0]
    rows = fetch(locked, "exchanges", headers={"cookie": token})["rows"]
    assert [row["key"] for row in rows] == ["alice"]
    forged = token[:-3] + ("AAA" if token[-3:] != "AAA" else "BBB")
    assert get(locked, f"{API}/me", headers={"cookie": forged}).status_code == 401
