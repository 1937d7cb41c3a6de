"""Recordings that someone else made: markup, control characters, endless strings, deep JSON, wrong types."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings, Upstream
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import odd_upstream
from tests.support.simulator import WEATHER, question
from tests.support.waiting import until

API = "/inspector/api"
SAMPLE = Path(__file__).parents[1] / "recorder/recording.dragoman"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\u0000\x1b[31m\u200b\U0001f47f"
DEEP = "[" * 50_000 + "]" * 50_000


def sample() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]


def with_text(value: Any, text: str) -> Any:
    """Return JSON with a text in the place of every string that no reader depends on."""
    kept = {"line", "event", "kind", "source", "target", "dialect", "reason", "native_format", "id"}
    if isinstance(value, dict):
        return {
            name: one if name in kept or name == "profile" else with_text(one, text)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [with_text(one, text) for one in value]
    return text if isinstance(value, str) else value


def hostile() -> Iterator[tuple[str, bytes]]:
    """Yield recordings by name."""
    lines = sample()

    def encoded(changed: list[Any]) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in changed)

    def changed(kind: str, **fields: Any) -> bytes:
        found = copy.deepcopy(lines)
        for line in found:
            if line["line"] == kind:
                line.update(fields)
        return encoded(found)

    for name, text in {
        "markup": EVIL,
        "long": "x" * 1_000_000,
        "bidi": "\u202e\u2066" * 99,
    }.items():
        yield (
            name,
            encoded([{**with_text(line, text), "line": line["line"]} for line in lines[:40]]),
        )
    yield "deep-request", changed("received", body={"text": DEEP})
    yield "deep-answer", changed("read", data={"text": f"data: {DEEP}\n\n"}, size=len(DEEP) + 8)
    yield "not-utf8", changed("read", data={"base64": "//79/Pv6"}, size=6)
    yield "surrogates", changed("written", data={"text": 'data: "\\ud800"\n\n'})
    yield "wrong-record", changed("outcome", record={"status": "x", "losses": 7, "time": {}})
    yield "odd-record", changed("outcome", record={"losses": ["", ": : at "], "failures": [""]})
    yield "no-record", changed("outcome", record=[1, 2])
    yield "odd-path", changed("recording", path="/v1/'; rm -rf / #$(id)`id`")
    yield "odd-id", changed("recording", id="../../etc/passwd?<b>")
    yield "odd-dialect", changed("recording", dialect="klingon")
    yield "huge-time", changed("recording", time=1e300)
    yield "backwards", changed("read", at=-1e9)
    yield "sizes", changed("read", size=10**12)
    yield "negative", changed("read", size=-5)
    yield "endless-headers", changed("recording", headers={str(n): "x" * 99 for n in range(3000)})
    yield "half-line", encoded(lines)[:-40]
    yield "not-json", b"\xff\xfe\n" * 99
    yield "no-line-feed", b"x" * 100_000
    yield "empty", b""
    yield "only-opening", encoded(lines[:1])
    yield "twice", encoded(lines + lines)
    yield "reversed", encoded([lines[0], *lines[:0:-1]])


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("recordings")
    for name, data in hostile():
        (folder / f"{name}.dragoman").write_bytes(data)
    (folder / "a-folder.dragoman").mkdir()
    with stand(lambda url: settings_for(url, record=Record(dir=str(folder)))) as gateway:
        yield gateway


def test_every_recording_is_answered(shown: Stand) -> None:
    rows = get(shown, f"{API}/exchanges?limit=1000").json()["rows"]
    assert len(rows) > 15
    for what in ("overview", "facets", "conversations"):
        assert get(shown, f"{API}/{what}").status_code == 200
    for row in rows:
        path = f"{API}/exchanges/{row['id']}"
        answer = get(shown, path)
        assert answer.status_code in (200, 422), (row["id"], answer.text[:500])
        assert len(answer.content) < 16 * 1024 * 1024
        assert answer.headers["content-type"].startswith("application/json")
        for side in ("upstream", "client", "received", "sent"):
            assert get(shown, f"{path}/bytes?side={side}").status_code in (200, 422)
        replayed = httpx2.post(
            f"{shown.url}{path}/replay", json={}, headers={"origin": shown.url}, timeout=60
        )
        assert replayed.status_code in (200, 422), (row["id"], replayed.text[:500])
    for run in get(shown, f"{API}/conversations").json()["rows"]:
        assert get(shown, f"{API}/conversations/{run['id']}").status_code == 200


def test_paths_lead_nowhere_else(shown: Stand) -> None:
    for path in (
        "/inspector/static/..%2f..%2fapi.py",
        "/inspector/static/%2e%2e/api.py",
        f"{API}/exchanges/..%2f..%2fetc%2fpasswd",
        f"{API}/exchanges/%00/recording",
        f"{API}/" + "x/" * 500,
    ):
        assert get(shown, path).status_code == 404


# --- secrets -------------------------------------------------------------------------------------

CLIENT = "client-credential-of-many-letters"
UPSTREAM = "upstream-credential-of-many-letters"
# Where a request or an answer has a secret: each another one, so that a failure names the place.
HEADERS = {"authorization": f"Bearer {CLIENT}", "cookie": "sid=cookie-4711-4711"}
TEXT = ("sk-ant-inthetext0123456789abcdef", "text-password-4711", "ACME-1111-1111")
SYSTEM = "sk-inthesystemprompt0123456789"
RESULT = ("ghp_inthetoolresult0123456789abcdefghij", "ACME-2222-2222")
ARGUMENT = "sk-inanargument0123456789abcdef"
ERROR = ("sk-intheerror0123456789abcdef", "ACME-3333-3333")
URL = ("url-credential-of-many-letters", "other-credential-of-many-letters")
PLANTED = (
    CLIENT,
    UPSTREAM,
    "cookie-4711-4711",
    *TEXT,
    SYSTEM,
    *RESULT,
    ARGUMENT,
    *ERROR,
    *URL,
)


def secretive(model: str) -> dict[str, Any]:
    """Return a Messages request with a secret in every place that a person or a tool writes."""
    words = f"sim: say The key is {TEXT[0]}, password: {TEXT[1]}, {TEXT[2]}, {CLIENT}, {UPSTREAM}"
    asked = question("anthropic", model, words, tools=[WEATHER])
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": ARGUMENT}}
    found = f"token={RESULT[0]} and {RESULT[1]}"
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": found}
    asked["messages"] += [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": words}]},
    ]
    return asked | {"system": f"Use {SYSTEM}."}


@pytest.mark.parametrize("recorded", [True, False])
def test_no_secret_is_in_recordings_log_metrics_page_or_its_api(
    tmp_path: Path, recorded: bool
) -> None:
    def make(url: str) -> Settings:
        keys = (Key(key=Secret("env:X", CLIENT), name="me", inspect=True),)
        record = Record(dir=str(tmp_path) if recorded else "", secrets=(r"ACME-\d+-\d+",))
        plain = settings_for(url, server=Server(port=0, keys=keys), record=record)
        upstreams = {
            name: Upstream(
                base_url=f"{odd.url if name == 'responses' else url}/v1",
                dialect=name,
                key=Secret("env:Y", UPSTREAM),
                retries=0,
            )
            for name in plain.upstreams
        }
        return Settings(
            server=plain.server, upstreams=upstreams, routes=plain.routes, record=record
        )

    with odd_upstream() as odd, stand(make) as gateway:
        message = f"{UPSTREAM} is wrong, and so are {ERROR[0]} and password: {ERROR[1]}"
        odd.answer_with(401, {"error": {"message": message, "type": "authentication_error"}})
        for model in ("chat/plain", "anthropic/plain", "responses/plain"):
            post(
                gateway,
                "anthropic",
                secretive(model),
                headers=HEADERS,
                path=f"/v1/messages?beta=true&api_key={URL[0]}&sessionToken={URL[1]}",
            )
        assert 3 == len(odd.asked) + len(gateway.simulator.exchanges)
        own = {"authorization": HEADERS["authorization"]}
        rows = until(lambda: finished(gateway, own, recorded))
        paths = ["exchanges", "facets", "overview", "me", "conversations"]
        for row in rows:
            one = f"exchanges/{row['id']}"
            paths += [one, f"{one}/recording"]
            paths += [f"{one}/bytes?side={side}" for side in ("upstream", "client", "sent")]
        paths += [
            f"conversations/{run['id']}"
            for run in get(gateway, f"{API}/conversations", headers=own).json()["rows"]
        ]
        shown = {path: get(gateway, f"{API}/{path}", headers=own).content for path in paths}
        shown |= {
            path: get(gateway, path, headers=own).content for path in ("/inspector", "/metrics")
        }
    shown |= {"log": gateway.log.getvalue().encode()}
    shown |= {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert (3 if recorded else 0) == sum(name.endswith(".dragoman") for name in shown)
    found = [(name, one) for name, data in shown.items() for one in PLANTED if one.encode() in data]
    assert not found, found


def finished(gateway: Stand, headers: dict[str, str], recorded: bool) -> list[Any]:
    """Return the rows of all three exchanges, when they have come to their end."""
    rows = get(gateway, f"{API}/exchanges", headers=headers).json()["rows"]
    done = [row for row in rows if row["state"] == "done" and row["recorded"] == recorded]
    return done if len(done) == 3 else []
