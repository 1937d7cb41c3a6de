"""Who may ask for what, how much of it, and whose credential goes upstream."""

import asyncio
import time
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Key, Match, Route, Secret, Server, Settings
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, FIXED_PATHS, PATHS, UNUSABLE, Stand, settings_for, stand
from tests.support.serving import serving
from tests.support.simulator import question
from tests.support.talks import Sdks
from tests.support.waiting import until

CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")


def make(url: str) -> Settings:
    def key(value: str, **more: object) -> Key:
        return Key(key=Secret(f"env:{value}", value), name=value, **more)

    keys = (
        key("free-key"),
        key("small-key", models=("chat/plain*", "claude-*")),
        *(key(f"slow-{dialect}", requests_per_minute=2) for dialect in DIALECTS),
        key("thrifty-key", tokens_per_minute=50),
        key("single-key", concurrent=1),
    )
    plain = settings_for(url)
    upstreams = {
        name: structs.replace(one, key=Secret("env:UP", f"upstream-{name}"))
        for name, one in plain.upstreams.items()
    }
    passing = [
        Route(
            name=f"own-{name}",
            match=Match(model=f"own/{name}/*"),
            to=(f"{name}/plain",),
            auth="passthrough",
        )
        for name in upstreams
    ]
    refusing = Route(name="refused", match=Match(model="refused"), to=("chat/plain+error:401",))
    own_refused = Route(
        name="own-refused",
        match=Match(model="own-refused"),
        to=("chat/plain+error:401",),
        auth="passthrough",
    )
    return structs.replace(
        plain,
        server=Server(port=0, keys=keys),
        upstreams=upstreams,
        routes=(*passing, refusing, own_refused, *plain.routes),
    )


@pytest.fixture(scope="module")
def locked() -> Stand:
    with stand(make) as found:
        yield found


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_wrong_or_missing_key_is_reported_as_the_sdks_expect(locked: Stand, dialect: str) -> None:
    refused = (openai.AuthenticationError, anthropic.AuthenticationError)
    with Sdks(locked.url, key="wrong-key") as sdks, pytest.raises(refused) as caught:
        sdks.talk(dialect, "chat/plain", stream=True).ask("hello")
    without = post(locked, dialect)

    assert "does not know the key" in str(caught.value)
    assert "wrong-key" not in str(caught.value)
    assert 401 == without.status_code
    assert "x-api-key" in without.json()["error"]["message"]


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_key_may_come_in_either_header(locked: Stand, dialect: str, header: str) -> None:
    value = "free-key" if header == "x-api-key" else "Bearer free-key"
    good = post(locked, dialect, headers={header: value})
    torn = post(locked, dialect, headers={"x-api-key": "free-key", "authorization": "Bearer other"})

    assert 200 == good.status_code
    assert 401 == torn.status_code


def test_key_sees_and_uses_only_its_models(locked: Stand) -> None:
    with Sdks(locked.url, key="small-key") as sdks:
        listed = {one.id for one in sdks.openai.models.list()}
        allowed = sdks.talk("chat", "chat/plain", stream=False).ask("hello")
        with pytest.raises(openai.PermissionDeniedError) as caught:
            sdks.talk("chat", "anthropic/plain", stream=False).ask("hello")
    everything = get(locked, "/v1/models", headers={"x-api-key": "free-key"}).json()["data"]

    assert "stop" == allowed.finish
    assert "anthropic/plain" in str(caught.value)
    assert all(one.startswith("chat/plain") for one in listed)
    assert len(listed) < len(everything)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_key_is_limited_in_requests(locked: Stand, dialect: str) -> None:
    answers = [post(locked, dialect, headers={"x-api-key": f"slow-{dialect}"}) for _ in range(3)]

    assert [200, 200, 429] == [one.status_code for one in answers]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert "2 requests per minute" in answers[-1].json()["error"]["message"]


def test_key_is_limited_in_tokens(locked: Stand) -> None:
    answers = [post(locked, "chat", headers={"x-api-key": "thrifty-key"}) for _ in range(2)]

    assert [200, 429] == [one.status_code for one in answers]
    assert "50 tokens per minute" in answers[-1].json()["error"]["message"]


def test_key_is_limited_in_streams_at_once_and_free_again_after_them(locked: Stand) -> None:
    headers = {"x-api-key": "single-key"}

    async def run() -> tuple[int, str, int]:
        async with openai.AsyncOpenAI(
            base_url=f"{locked.url}/v1", api_key="single-key", max_retries=0
        ) as client:
            asked = {"messages": [{"role": "user", "content": "a"}], "stream": True}
            stream = await client.chat.completions.create(model="chat/plain+stall:900", **asked)
            async for _ in stream:
                break
            busy = await asyncio.to_thread(post, locked, "chat", headers=headers)
            await stream.close()
            async with asyncio.timeout(10):
                while late := await asyncio.to_thread(post, locked, "chat", headers=headers):
                    if late.status_code != 429:
                        break
        return busy.status_code, busy.json()["error"]["message"], late.status_code

    status, message, after = asyncio.run(run())

    assert (429, 200) == (status, after)
    assert "1 requests at once" in message


def test_clients_key_does_not_go_upstream(locked: Stand) -> None:
    shown = []
    for dialect in DIALECTS:
        body = question(dialect, f"{dialect}/plain", stream=False)
        assert 200 == post(locked, dialect, body, headers={"x-api-key": "free-key"}).status_code
        headers = locked.simulator.exchanges[-1].headers
        shown.append(tuple(headers.get(name) for name in CREDENTIALS))

    # The simulator shows four characters of a credential.
    bearer = ("Bearer upst…", None, None)
    assert [bearer, (None, "upst…", None), bearer, (None, None, "upst…")] == shown


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_passthrough_shows_the_clients_key_as_the_upstream_wants_it(
    locked: Stand, dialect: str, upstream: str
) -> None:
    body = question(dialect, f"own/{upstream}/x", stream=False)
    answer = post(locked, dialect, body, headers={"authorization": "Bearer free-key"})
    headers = locked.simulator.exchanges[-1].headers
    own = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(upstream, "authorization")
    name = "authorization" if dialect == upstream else own

    assert 200 == answer.status_code
    expected = {name: "Bearer free…" if name == "authorization" else "free…"}
    assert expected == {one: headers[one] for one in CREDENTIALS if one in headers}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_refused_upstream_credential_is_blamed_on_whose_it_is(locked: Stand, dialect: str) -> None:
    headers = {"x-api-key": "free-key"}
    ours = post(locked, dialect, question(dialect, "refused"), headers=headers)
    theirs = post(locked, dialect, question(dialect, "own-refused"), headers=headers)

    assert (UNUSABLE[dialect], 401) == (ours.status_code, theirs.status_code)
    assert "upstream rejected the gateway's credentials: " in ours.text
    assert "env:UP" not in ours.text
    assert "upstream-chat" not in ours.text + theirs.text


def test_paths_are_known_without_their_version(locked: Stand) -> None:
    statuses = [
        post(
            locked, dialect, path=path.removeprefix("/v1"), headers={"x-api-key": "free-key"}
        ).status_code
        for dialect, path in PATHS.items()
    ]

    assert [200, 200, 200] == statuses


WORKERS = """
[server]
keys = [{ key = "env:K100", requests_per_minute = 100 }, { key = "env:K2", concurrent = 2 }]
"""


def test_limits_of_a_key_hold_over_all_workers(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text(WORKERS)
    with serving(tmp_path, "--workers", "4", K100="k-hundred", K2="k-two") as served:
        until(lambda: len(served.notices("started")) == 4)

        async def ask(key: str, model: str, number: int) -> list[int]:
            body = question("chat", model, stream=False)
            url = f"{served.url}/v1/chat/completions"
            limits = httpx2.Limits(max_connections=number)  # all at once, so all workers get some
            headers = {"x-api-key": key}
            async with httpx2.AsyncClient(timeout=60, headers=headers, limits=limits) as client:
                asked = (client.post(url, json=body) for _ in range(number))
                return [one.status_code for one in await asyncio.gather(*asked)]

        begin = time.monotonic()
        by_requests = asyncio.run(ask("k-hundred", "sim/plain", 160))
        drained = (time.monotonic() - begin) * 100 / 60
        # Long enough for the last of them to arrive before the first has ended, also on a busy machine.
        at_once = asyncio.run(ask("k-two", "sim/plain+slow:4000", 8))
        afterwards = asyncio.run(ask("k-two", "sim/plain", 1))
        served.send_signal("SIGTERM")
        served.end()

    assert {200, 429} == set(by_requests)
    assert 100 <= by_requests.count(200) <= (100 + drained) * 1.02
    assert [200] * 2 + [429] * 6 == sorted(at_once)
    assert [200] == afterwards
