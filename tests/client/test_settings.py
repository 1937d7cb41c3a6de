"""What a client is made of, and what it never does."""

import asyncio
import json

import pytest

from dragoman import (
    Client,
    ClientError,
    ConfigError,
    Format,
    Limits,
    MisuseError,
    SyncClient,
    Timeouts,
    request,
    user,
)
from dragoman.client.encode import prepare
from dragoman.client.settings import Settings
from tests.support.client import KEY, REQUEST, text_of
from tests.support.forward_proxy import forward_proxy
from tests.support.peers import CHAT, HELLO, http, peer, sse

URL = "http://127.0.0.1:1/v1"


def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DRAGOMAN_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))

    async def run() -> bytes:
        async with peer(HELLO) as server, Client(server.url) as client:
            assert "Hello" == await text_of(client)
        return server.requests[0]

    head = asyncio.run(run()).lower()

    assert b"from-the-environment" not in head
    assert b"authorization" not in head
    assert b"cookie" not in head


def test_cookies_are_not_kept() -> None:
    answer = http(sse(*CHAT), headers="set-cookie: a=b\r\n")

    async def run() -> list[bytes]:
        async with peer(answer) as server, Client(server.url) as client:
            for _ in range(2):
                await text_of(client)
        return server.requests

    assert not any(b"cookie" in request.lower() for request in asyncio.run(run()))


@pytest.mark.parametrize(
    ("dialect", "header"),
    [
        ("chat", f"authorization: Bearer {KEY}"),
        ("responses", f"authorization: Bearer {KEY}"),
        ("anthropic", f"x-api-key: {KEY}"),
    ],
)
def test_the_key_goes_into_the_header_of_the_dialect(dialect: str, header: str) -> None:
    async def run() -> bytes:
        options = {"dialect": dialect, "api_key": KEY, "headers": {"X-Team": "tools"}}
        async with peer(http(status="500 Oh")) as server, Client(server.url, **options) as client:
            with pytest.raises(ClientError):
                await client.create(REQUEST)
        return server.requests[0]

    head = asyncio.run(run()).decode().partition("\r\n\r\n")[0]

    assert header in head
    assert "x-team: tools" in head
    assert ("anthropic-version" in head) is (dialect == "anthropic")


def test_credentials_are_in_no_repr() -> None:
    client = Client(URL, api_key=KEY, headers={"x-secret": KEY}, model="m", dialect="anthropic")
    sync_client = SyncClient(URL, api_key=KEY, headers={"x-secret": KEY})
    seen = repr(client) + repr(sync_client) + repr(client.stream(REQUEST)) + str(client)

    assert KEY not in seen
    assert f"Client('{URL}', dialect='anthropic', model='m'" in seen
    assert "x-secret" in seen


@pytest.mark.parametrize(
    ("address", "options", "why"),
    [
        ("ftp://host/", {}, "http:// or https://"),
        ("host:80", {}, "http:// or https://"),
        ("http://", {}, "http:// or https://"),
        ("http://host:port/", {}, "not a URL"),
        (5, {}, "not a URL"),
        (f"http://{'a' * 64}.example/v1", {}, "not a URL"),
        ("http://a..b/v1", {}, "not a URL"),
        ("http://xn--/v1", {}, "not a URL"),
        ("http://me:secret@host/", {}, "must not hold credentials"),
        ("http://host/v1?key=secret", {}, "must end before any"),
        ("http://host/v1#a", {}, "must end before any"),
        ("http://host/v1/chat/completions/", {}, "must end before `/chat/completions`"),
        ("http://host/v1/messages", {"dialect": "anthropic"}, "must end before `/messages`"),
        (URL, {"api_key": None}, "`api_key` must be str, not NoneType"),
        (URL, {"model": 5}, "`model` must be str, not int"),
        (URL, {"timeouts": 30}, "`timeouts` must be Timeouts, not int"),
        (URL, {"limits": {}}, "`limits` must be Limits, not dict"),
        (URL, {"tls": False}, "`tls` must be TLS, not bool"),
        (URL, {"timeouts": Timeouts(idle=-1)}, "`timeouts.idle` must be a number from 0, not -1"),
        (URL, {"timeouts": Timeouts(total=float("nan"))}, "`timeouts.total` must be a number"),
        (URL, {"timeouts": Timeouts(connect=None)}, "`timeouts.connect` must be a number"),
        (URL, {"limits": Limits(max_calls=-1)}, "`limits.max_calls` must be a number from 0"),
        (URL, {"limits": Limits(max_events="9")}, "`limits.max_events` must be a number from 0"),
        (URL, {"headers": {"Content-Length": "5"}}, "the header `content-length` cannot be set"),
        (URL, {"headers": {"Transfer-Encoding": "chunked"}}, "`transfer-encoding` cannot be set"),
        (URL, {"profile": 5}, "`profile` must be str or Profile, not int"),
        (URL, {"headers": {"a": 5}}, "`headers['a']` must be str, not int"),
        (URL, {"dialect": "latin"}, "no dialect"),
        (URL, {"profile": "nobody"}, "no profile"),
        (URL, {"native_format": "nobody"}, "no tool-call format `nobody`"),
        (URL, {"native_format": Format(key="a b", rules=())}, "`key`: `a b` is not a name"),
        (URL, {"native_format": 5}, "`native_format` must be str or Format, not int"),
        (URL, {"headers": {"a b": "c"}}, "`a b` is not a valid header name"),
        (URL, {"headers": {"a": "c\r\nd: secret"}}, "control character"),
        (URL, {"api_key": "sécret\nsecret"}, "control character"),
        (URL, {"api_key": "ключ-secret"}, "not plain text"),
    ],
)
def test_settings_that_cannot_be_are_reported_at_once_and_without_secrets(
    address, options: dict, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Client(address, **options)

    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_request_without_a_model_is_refused() -> None:
    with pytest.raises(MisuseError, match="no model"):
        Client(URL).stream(request(user("x")))


@pytest.mark.parametrize(
    "given", ["hello", user("hello"), {"messages": []}], ids=["text", "turn", "dict"]
)
def test_what_is_no_request_is_refused(given: object) -> None:
    with pytest.raises(MisuseError, match=r"a request must be made by `request\(…\)`, not `"):
        Client(URL, model="m").stream(given)


def test_a_request_s_own_model_overrules_the_client_s() -> None:
    settings = Settings(URL, model="one")

    assert "one" == json.loads(prepare(request(user("x")), settings, stream=False).body)["model"]
    asked = request(user("x"), model="two")
    assert "two" == json.loads(prepare(asked, settings, stream=False).body)["model"]


def test_a_proxy_is_used_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with forward_proxy(credentials="ann:s3cret-word") as proxy:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

        async def run() -> list[str]:
            async with peer(HELLO) as server:
                address = proxy.url_for("ann", "s3cret-word")
                async with Client(server.url, proxy=address) as client:
                    found = [await text_of(client), repr(client)]
                async with Client(server.url, proxy="env") as client:
                    found.append(await text_of(client))  # this machine needs no proxy
                async with Client(server.url, proxy=proxy.url) as client:
                    with pytest.raises(ClientError) as refused:
                        await text_of(client)
            assert ("connect", "proxy_auth") == (refused.value.stage, refused.value.code)
            return found

        said, shown, direct = asyncio.run(run())

        assert ["Hello", "Hello"] == [said, direct]
        assert "s3cret" not in shown
        assert 2 == len(proxy.requests)


@pytest.mark.parametrize("address", ["socks5://a:s3cret@proxy:1", "proxy:3128", "environment"])
def test_a_proxy_that_cannot_be_used_is_refused_at_once(address: str) -> None:
    with pytest.raises(ConfigError, match=r"SOCKS|`http://HOST:PORT`") as refused:
        Client(URL, proxy=address)

    assert "s3cret" not in str(refused.value)
