"""The view of one exchange: rows, links down to bytes, calls, warnings, replay, bytes and downloads."""

import base64
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings
from dragoman.inspector.exchange import view
from dragoman.inspector.index import Index
from dragoman.inspector.recordings import load, replay_view, side_bytes
from dragoman.inspector.summary import Summary
from dragoman.toolcalls.formats import FORMATS
from tests.support.asking import get, post
from tests.support.gateway import FIXED_PATHS, Stand, settings_for, stand
from tests.support.long_recordings import unfolded
from tests.support.recordings import recording_gateway
from tests.support.simulator import WEATHER, question
from tests.support.waiting import until

API = "/inspector/api/exchanges"
QUIRKS = (
    "cut", "half-call", "no-finish", "garbage", "error-in", "error:429", "empty", "json-instead",
    "bad-json-args", "object-args", "length", "refuse", "comments", "interleave+parallel:3", "think",
    "chunk:byte", "crlf", "args:8",
)  # fmt: skip


def exchanges() -> Iterator[tuple[str, str, bool]]:
    """Yield dialects of clients, models, and whether the answer is streamed."""
    for turn, family in enumerate(FORMATS):
        upstream = FIXED_PATHS[turn // 3 % 3]
        leak = "+leak-reasoning+think" if turn % 4 == 0 else ""
        yield FIXED_PATHS[turn % 3], f"{upstream}/{family.replace('_', '-')}{leak}", turn % 5 != 0
    for turn, quirk in enumerate(QUIRKS):
        yield FIXED_PATHS[turn % 3], f"{FIXED_PATHS[turn // 2 % 3]}/plain+{quirk}", turn % 6 != 0
    for turn, quirk in enumerate(("think+parallel:2", "error-in", "cut", "length", "chunk:byte")):
        yield "gemini", f"{('chat', 'gemini')[turn % 2]}/plain+{quirk}", True
        yield FIXED_PATHS[turn % 3], f"gemini/plain+{quirk}", turn != 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of all families, and of faults."""
    found = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(found)))

    with stand(make) as gateway, ThreadPoolExecutor(8) as threads:

        def ask(one: tuple[str, str, bool]) -> None:
            client, model, stream = one
            with suppress(httpx2.HTTPError):
                post(gateway, client, question(client, model, tools=[WEATHER], stream=stream))

        list(threads.map(ask, exchanges()))
    return found


def shown(folder: Path, found: Summary) -> Any:
    """Return the view of an exchange, as the page gets it."""
    made = view(found, load(folder / found.file), address="127.0.0.1:8484")
    seen = json.loads(msgspec.json.encode(made.shown))
    for column, rows in made.rows.items():
        seen[column]["rows"] = json.loads(msgspec.json.encode(rows))
    return seen | {"links": unfolded(seen["links"])}


def one(folder: Path, model: str) -> tuple[Summary, Any]:
    found = next(one for one in Index(folder).summaries() if one.row.model == model)
    return found, shown(folder, found)


def test_every_answer_is_linked_down_to_its_bytes(folder: Path) -> None:
    count = 0
    for found in Index(folder).summaries():
        seen = shown(folder, found)
        recording = load(folder / found.file).recording
        for side in ("upstream", "client"):
            rows, at = seen[side]["rows"], 0
            data = side_bytes(recording, side)
            assert seen[side]["size"] == len(data)
            for row in rows:
                assert at <= row["from"] < row["to"] <= len(data), found.row.model
                at = row["to"]
        linked = [row for link in seen["links"] for row in link["client"]]
        assert len(linked) == len(set(linked)), found.row.model
        answer = recording.answered
        if answer is None or not answer.reads or not answer.reply.translation.stream:
            continue
        if not side_bytes(recording, "upstream").startswith(b"{"):
            count += 1
            events = {row for link in seen["links"] for row in link["ev"]}
            markers = {
                number
                for number, row in enumerate(seen["meaning"]["rows"])
                if row["kind"] == "marker"
            }
            assert events | markers == set(range(len(seen["meaning"]["rows"]))), found.row.model
            meant = [row for row in seen["client"]["rows"] if row["kind"] != "comment"]
            assert len(linked) == len(meant), found.row.model
    assert count > 40


def test_nothing_differs_when_it_is_replayed(folder: Path) -> None:
    for found in Index(folder).summaries():
        recording = load(folder / found.file).recording
        for split in (0, 7):
            again = replay_view(recording, split)
            assert again["differences"] == [], (found.row.model, split)
        assert again["client_byte"] is None


@pytest.mark.parametrize("family", ["kimi_k2", "qwen3_coder", "glm47", "minimax_m2"])
def test_a_native_call_is_found_with_its_markers(folder: Path, family: str) -> None:
    found = next(one for one in Index(folder).summaries() if one.row.family == family)
    seen = shown(folder, found)
    data = side_bytes(load(folder / found.file).recording, "upstream")
    (call,) = seen["calls"]
    assert (call["name"], call["state"], call["repaired"]) == ("get_weather", "complete", True)
    assert call["found"]["family"] == family
    assert call["schema"] == {"ok": True, "problems": []}
    assert call["upstream_id"]
    assert call["client_id"]
    block = seen["blocks"][call["block"]]
    assert (block["kind"], block["call"]) == ("call", 0)
    for marker in call["markers"]:
        assert data[marker["from"] :].startswith(marker["text"][:1].encode())
        assert block["up_bytes"][0] <= marker["from"] <= marker["to"] <= block["up_bytes"][1]
    marked = [row for row in seen["upstream"]["rows"] if row.get("marks")]
    texts = "".join(row["text"][a:b] for row in marked for a, b in row["marks"])
    assert texts == "".join(marker["text"] for marker in call["markers"])
    assert seen["warnings"][0]["code"] == "native-call-repaired"


def test_a_truncated_call_must_not_be_run(folder: Path) -> None:
    _, seen = one(folder, "plain+length")
    (call,) = seen["calls"]
    assert (call["state"], call["schema"]["ok"]) == ("truncated", False)
    assert seen["warnings"][0]["title"].endswith("cut the arguments.")
    lane = next(lane for lane in seen["timeline"]["lanes"] if lane["kind"] == "call")
    assert lane["spans"][0]["label"] == "truncated"


def test_a_search_that_the_vendor_ran_is_shown_with_its_sources(tmp_path: Path) -> None:
    text = "sim: search oslo\nsim: say It snows."
    with recording_gateway(tmp_path) as gateway:
        post(gateway, "chat", question("chat", "anthropic/plain", text))
    (found,) = Index(tmp_path).summaries()
    seen = shown(tmp_path, found)

    (call,) = seen["vendor_calls"]
    assert (call["does"], call["state"], call["queries"]) == ("web_search", "complete", ["oslo"])
    assert call["sources"][0] == {
        "title": "Result 1 for oslo",
        "url": "https://source1.example/oslo",
    }
    block = seen["blocks"][call["block"]]
    assert block["kind"] == "server_call"
    assert block["up_bytes"]
    rows = [row["text"] for row in seen["meaning"]["rows"] if row["kind"] == "block start"]
    assert "server_call [web search: oslo]" in rows
    assert any("https://source1.example/oslo" in row for row in rows)
    assert seen["calls"] == []


def test_a_failed_attempt_has_its_reason(folder: Path) -> None:
    _, seen = one(folder, "plain+error:429")
    (attempt,) = seen["attempts"]
    assert (attempt["status"], attempt["answered"]) == (429, False)
    assert "429" in attempt["reason"] or "rate" in attempt["reason"]
    assert seen["warnings"][0]["level"] == "error"
    assert seen["upstream"]["rows"]


def test_the_request_is_compared_and_can_be_sent_again(folder: Path) -> None:
    found = next(
        one
        for one in Index(folder).summaries()
        if (one.row.dialect, one.row.upstream_dialect) == ("anthropic", "chat")
    )
    seen = shown(folder, found)
    kinds = {row["kind"] for row in seen["request"]["diff"]}
    assert {"changed", "folded"} <= kinds or {"changed", "same"} <= kinds
    assert json.loads(seen["request"]["received"]["text"])["max_tokens"] == 100_000
    assert '"x-api-key: $API_KEY"' in seen["curl"]
    assert "http://127.0.0.1:8484/v1/messages" in seen["curl"]


def test_a_torn_recording_is_shown_up_to_the_tear(folder: Path, tmp_path: Path) -> None:
    file = next(folder.iterdir())
    data = file.read_bytes()
    for cut in range(200, len(data), len(data) // 40):
        (tmp_path / file.name).write_bytes(data[:cut])
        for found in Index(tmp_path).summaries():
            seen = shown(tmp_path, found)
            assert seen["torn_at"] is None or seen["torn_at"] <= cut
            assert seen["row"]["problems"] or seen["row"]["state"] == "streaming"


def test_a_recording_of_a_newer_version_is_named(folder: Path, tmp_path: Path) -> None:
    file = next(folder.iterdir())
    newer = file.read_bytes().replace(b'"version":1', b'"version":9', 1)
    (tmp_path / file.name).write_bytes(newer)
    (found,) = Index(tmp_path).summaries()
    assert found.unreadable.startswith("This recording is from a newer version. It has format 9")
    assert found.row.problems[0].kind == "unreadable"


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    copy = tmp_path_factory.mktemp("served")
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    with stand(lambda url: settings_for(url, record=Record(dir=str(copy)))) as gateway:
        yield gateway


def newest(served: Stand) -> str:
    rows = get(served, f"{API}?model=plain*").json()["rows"]
    return next(row["id"] for row in rows if row["calls"])


def test_an_exchange_its_bytes_and_its_file_over_http(served: Stand) -> None:
    exchange = newest(served)
    seen = get(served, f"{API}/{exchange}").json()
    assert seen["row"]["id"] == exchange
    row = seen["upstream"]["rows"][1]
    asked = f"{API}/{exchange}/bytes?side=upstream&from={row['from']}&to={row['to']}"
    part = get(served, asked).json()
    assert (part["from"], part["to"], part["size"]) == (
        row["from"],
        row["to"],
        seen["upstream"]["size"],
    )
    assert part.get("text") or base64.b64decode(part["base64"])
    assert get(served, f"{API}/{exchange}/bytes?side=elsewhere").status_code == 400
    assert get(served, f"{API}/{exchange}/bytes?from=-1").status_code == 400
    file = get(served, f"{API}/{exchange}/recording")
    assert file.headers["content-disposition"].startswith("attachment;")
    assert file.content.startswith(b'{"line":"recording"')
    assert get(served, f"{API}/nothing").status_code == 404


def test_a_replay_is_asked_for_by_post_of_the_page_alone(served: Stand) -> None:
    path = f"{served.url}{API}/{newest(served)}/replay"
    assert httpx2.get(path).status_code == 405
    assert httpx2.post(path, json={}).status_code == 403
    again = httpx2.post(path, json={"split": 0}, headers={"origin": served.url})
    assert again.status_code == 200
    assert again.json()["differences"] == []
    wrong = httpx2.post(path, json={"split": -1}, headers={"origin": served.url})
    assert wrong.status_code == 400
    form = httpx2.post(
        path, content=b"{}", headers={"origin": served.url, "content-type": "text/plain"}
    )
    assert form.status_code == 400


def test_a_case_is_written_beside_the_recordings(served: Stand) -> None:
    folder = Path(served.running.gateway.plan.settings.record.dir)
    path = f"{served.url}{API}/{newest(served)}/case"
    assert httpx2.get(path).status_code == 405
    assert httpx2.post(path, json={}).status_code == 403
    assert not (folder / "cases").exists()
    made = httpx2.post(path, json={}, headers={"origin": served.url}).json()
    assert made["folder"] == f"cases/{made['name']}"
    for file in made["files"]:
        assert (folder / made["folder"] / file).read_bytes()


def test_a_deleted_recording_is_gone(served: Stand) -> None:
    post(served, "chat")
    rows = f"{API}?limit=1"
    until(lambda: get(served, rows).json()["rows"][0]["recorded"])
    exchange = get(served, rows).json()["rows"][0]["id"]
    folder = Path(served.running.gateway.plan.settings.record.dir)
    next(file for file in folder.iterdir() if exchange in file.name).unlink()
    assert get(served, f"{API}/{exchange}/recording").status_code in (404, 410)


def test_another_key_cannot_guess_an_exchange(tmp_path: Path) -> None:
    def make(url: str) -> Settings:
        keys = (
            Key(key=Secret("env:A", "key-of-alice"), name="alice"),
            Key(key=Secret("env:B", "key-of-bob"), name="bob"),
        )
        record = Record(dir=str(tmp_path))
        return settings_for(url, server=Server(port=0, keys=keys), record=record)

    with stand(make) as gateway:
        exchange = post(gateway, "chat", headers={"x-api-key": "key-of-alice"}).headers[
            "x-request-id"
        ]
        until(lambda: bool(list(tmp_path.iterdir())))
        case = f"{gateway.url}{API}/{exchange}/case"
        own = {"origin": gateway.url}
        for key, status in {"key-of-bob": 404, "key-of-alice": 403}.items():
            headers = {**own, "x-api-key": key}
            assert httpx2.post(case, json={}, headers=headers).status_code == status
        for path in ("", "/bytes", "/rows?column=client", "/conversation", "/recording"):
            asked = f"{API}/{exchange}{path}"
            assert get(gateway, asked, headers={"x-api-key": "key-of-bob"}).status_code == 404
            assert get(gateway, asked, headers={"x-api-key": "key-of-alice"}).status_code == 200
