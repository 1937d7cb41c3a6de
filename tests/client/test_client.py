"""How a client behaves: clocks, leaving early, sharing, and what it never does."""

import asyncio
import json
import threading
import time

import pytest

from dragoman import (
    Client,
    ClientError,
    ConfigError,
    MisuseError,
    SyncClient,
    Timeouts,
    Untranslatable,
    answer_turn,
    ask,
    result,
    tool,
    user,
)
from dragoman.client.prepared import prepare
from dragoman.client.settings import Settings
from dragoman.simulator.server import Simulator
from dragoman.turn.events import Finish, OpaqueKind, Start, TextDelta
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request
from tests.support.peers import CHAT, HELLO, Talk, body, http, nothing_left, peer, sse

REQUEST = ask(user("hello"), model="m")
KEY = "sk-abcdef-123456"
URL = "http://127.0.0.1:1/v1"


async def text_of(client: Client, request: Request = REQUEST) -> str:
    async with client.stream(request) as turn:
        async for _ in turn:
            pass
    return turn.message().text


def stalled(beginning: bytes, left: asyncio.Event):
    """Return a script that falls silent until the client leaves."""

    async def script(talk: Talk) -> None:
        await talk.say(beginning)
        await talk.gone()
        left.set()

    return script


# --- what comes, and what is left when it ends ----------------------------------------------------------


def test_events_come_as_they_are_sent() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await go_on.wait()
            await talk.say(sse(*CHAT[1:]))

        async with peer(script) as server, Client(server.url) as client:
            async with client.stream(REQUEST) as turn:
                seen = []
                async for event in turn:
                    seen.append(event)
                    if isinstance(event, TextDelta):
                        go_on.set()
            assert isinstance(seen[0], Start)
            assert ["Hel", "lo"] == [e.text for e in seen if isinstance(e, TextDelta)]
            assert isinstance(seen[-1], Finish)

    asyncio.run(run())


def test_an_answer_that_is_not_read_to_its_end_says_so() -> None:
    async def run() -> None:
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, asyncio.Event())) as server, nothing_left():
            async with Client(server.url) as client, client.stream(REQUEST) as turn:
                assert isinstance(await anext(turn), Start)
            message = turn.message()
            assert message.finish is None
            assert message.fault is not None
            assert "unfinished" == message.fault.code
            assert "Hel" == message.text
            assert not message.blocks[0].complete

    asyncio.run(run())


def test_leaving_a_stream_closes_its_connection_at_once() -> None:
    async def run() -> None:
        left = asyncio.Event()
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, left)) as server, nothing_left():
            async with Client(server.url) as client, client.stream(REQUEST) as turn:
                await anext(turn)
            await asyncio.wait_for(left.wait(), 5)

    asyncio.run(run())


def test_a_connection_serves_several_requests() -> None:
    async def run() -> None:
        connections = 0
        answer = http(sse(*CHAT), keep=True)

        async def script(talk: Talk) -> None:
            nonlocal connections
            connections += 1
            await talk.say(answer)
            while await talk.next_request():
                await talk.say(answer)

        async with peer(script) as server, nothing_left(), Client(server.url) as client:
            for _ in range(3):
                assert "Hello" == await text_of(client)
            assert 1 == connections

    asyncio.run(run())


def test_a_client_may_be_used_again_after_it_was_closed() -> None:
    async def run() -> None:
        async with peer(HELLO) as server, nothing_left():
            client = Client(server.url)
            for _ in range(2):
                assert "Hello" == await text_of(client)
                await client.close()
                await client.close()

    asyncio.run(run())


def test_what_the_server_cannot_be_told_comes_first_and_is_kept() -> None:
    async def run() -> None:
        request = ask(user("x"), model="sim/plain", temperature=1.5, max_tokens=50)
        async with Simulator() as sim:
            async with Client(f"{sim.url}/v1", dialect="anthropic") as client:
                async with client.stream(request) as turn:
                    first = await anext(turn)
                    async for _ in turn:
                        pass
                answer = await client.create(request)
            assert isinstance(first, Loss)
            assert first in turn.losses
            for losses in (turn.message().losses, answer.losses):
                assert "value_clamped" in [loss.code for loss in losses]
            with pytest.raises(Untranslatable):
                Client(sim.url, dialect="anthropic", strict=True).stream(request)

    asyncio.run(run())


# --- somebody else ends it ----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["stream", "client"])
def test_a_stream_that_another_task_closes_ends_as_cancelled(what: str) -> None:
    async def run() -> ClientError:
        left = asyncio.Event()
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, left)) as server, nothing_left():
            client = Client(server.url)
            async with client, client.stream(REQUEST) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta):
                        break
                task = asyncio.create_task(turn.pump())
                await asyncio.sleep(0)
                await (turn if what == "stream" else client).close()
                with pytest.raises(ClientError) as caught:
                    await task
                with pytest.raises(ClientError):
                    await anext(turn)
            await asyncio.wait_for(left.wait(), 5)
        return caught.value

    error = asyncio.run(run())

    assert ("cancelled", "cancelled") == (error.stage, error.code)
    assert error.received is not None
    assert "Hel" == error.received.text


def test_a_request_that_waits_for_its_answer_is_cancelled_too() -> None:
    async def run() -> ClientError:
        left = asyncio.Event()
        async with peer(stalled(b"", left)) as server, nothing_left():
            client = Client(server.url)
            task = asyncio.create_task(client.create(REQUEST))
            await server.asked.wait()
            await client.close()
            with pytest.raises(ClientError) as caught:
                await task
            await asyncio.wait_for(left.wait(), 5)
        return caught.value

    assert "cancelled" == asyncio.run(run()).stage


@pytest.mark.parametrize("beginning", [b"", http(length=None)], ids=["no answer", "no event"])
def test_a_cancelled_task_stays_cancelled(beginning: bytes) -> None:
    async def run() -> None:
        left = asyncio.Event()
        async with (
            peer(stalled(beginning, left)) as server,
            nothing_left(),
            Client(server.url) as client,
        ):
            task = asyncio.create_task(text_of(client))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(left.wait(), 5)

    asyncio.run(run())


def test_a_caller_s_own_timeout_stays_its_own() -> None:
    async def run() -> None:
        async with (
            peer(stalled(b"", asyncio.Event())) as server,
            nothing_left(),
            Client(server.url) as client,
        ):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.create(REQUEST)

    asyncio.run(run())


def test_two_tasks_do_not_read_one_stream_at_once() -> None:
    async def run() -> None:
        left = asyncio.Event()
        async with (
            peer(stalled(http(length=None), left)) as server,
            nothing_left(),
            Client(server.url) as client,
            client.stream(REQUEST) as turn,
        ):
            task = asyncio.create_task(turn.pump())
            await asyncio.sleep(0)
            with pytest.raises(MisuseError, match="one task at a time"):
                await turn.pump()
            await turn.close()
            with pytest.raises(ClientError):
                await task

    asyncio.run(run())


def test_a_stream_is_entered_once_and_read_inside() -> None:
    async def run() -> None:
        async with peer(HELLO) as server, Client(server.url) as client:
            turn = client.stream(REQUEST)
            with pytest.raises(MisuseError):
                await anext(turn)
            async with turn:
                pass
            with pytest.raises(MisuseError):
                await turn.__aenter__()
            with pytest.raises(MisuseError):
                await anext(turn)

    asyncio.run(run())


# --- clocks -------------------------------------------------------------------------------------------


def test_a_slow_program_is_not_a_silent_server() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await go_on.wait()
            await talk.say(sse(*CHAT[1:]))

        timeouts = Timeouts(idle=1)
        async with peer(script) as server, Client(server.url, timeouts=timeouts) as client:
            async with client.stream(REQUEST) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta) and not go_on.is_set():
                        await asyncio.sleep(1.5)  # the program's own time
                        go_on.set()
            assert "Hello" == turn.message().text

    asyncio.run(run())


def test_no_clock_runs_where_none_is_set() -> None:
    async def run() -> str:
        timeouts = Timeouts(connect=0, first_byte=0, idle=0, total=0)
        async with (
            peer(HELLO) as server,
            nothing_left(),
            Client(server.url, timeouts=timeouts) as client,
        ):
            return await text_of(client)

    assert "Hello" == asyncio.run(run())


def test_the_total_is_over_even_while_events_come() -> None:
    async def run() -> ClientError:
        async def script(talk: Talk) -> None:
            await talk.say(http(length=None))
            while True:
                await talk.say(sse(CHAT[0], done=False))
                await asyncio.sleep(0.001)

        timeouts = Timeouts(total=0.3)
        async with (
            peer(script) as server,
            nothing_left(),
            Client(server.url, timeouts=timeouts) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await text_of(client)
        return caught.value

    began = time.monotonic()
    error = asyncio.run(run())

    assert ("timeout", "total_timeout", "timeout") == (error.stage, error.code, error.kind)
    assert time.monotonic() - began < 5
    assert error.received is not None
    assert error.received.text.startswith("HelHel")


def test_an_error_whose_body_does_not_come_is_told_all_the_same() -> None:
    async def run() -> ClientError:
        beginning = http(b'{"error":', status="503 Busy", length=999, headers="retry-after: 7\r\n")
        async with (
            peer(stalled(beginning, asyncio.Event())) as server,
            nothing_left(),
            Client(server.url, timeouts=Timeouts(first_byte=1)) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await client.create(REQUEST)
        return caught.value

    error = asyncio.run(run())

    assert ("http", 503, 7.0) == (error.stage, error.status, error.retry_after)


# --- errors -------------------------------------------------------------------------------------------


def test_an_error_says_all_that_the_server_said() -> None:
    async def run() -> ClientError:
        said = json.dumps({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}})
        headers = "x-request-id: req_7\r\nretry-after: 2.5\r\n"
        answer = http(said.encode(), status="401 No", kind="application/json", headers=headers)
        async with peer(answer) as server, Client(server.url, key=KEY) as client:
            with pytest.raises(ClientError) as caught:
                await client.create(REQUEST)
        return caught.value

    error = asyncio.run(run())

    assert ("http", 401, "req_7", 2.5) == (
        error.stage,
        error.status,
        error.request_id,
        error.retry_after,
    )
    assert ("invalid_api_key", "auth", None) == (error.code, error.kind, error.received)
    assert "http: the server answers 401: bad key [hidden]" == str(error)
    assert 3 == error.exit_code


def test_an_error_inside_a_stream_keeps_the_status_and_id_of_the_answer() -> None:
    async def run() -> ClientError:
        stream = sse(CHAT[0], {"error": {"message": f"no more {KEY}", "code": "server_error"}})
        answer = http(stream, headers="request-id: req_8\r\n")
        async with peer(answer) as server, Client(server.url, key=KEY) as client:
            with pytest.raises(ClientError) as caught:
                await text_of(client)
        return caught.value

    error = asyncio.run(run())

    assert ("http", 200, "req_8") == (error.stage, error.status, error.request_id)
    assert error.received is not None
    assert "Hel" == error.received.text
    assert KEY not in repr(error.received) + str(error)
    assert "no more [hidden]" in error.message


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
@pytest.mark.parametrize(
    ("quirk", "stage", "code"),
    [
        ("error:429+retry-after:3", "http", None),
        ("error-in", "http", None),
        ("error-200", "http", None),
        ("no-finish", "protocol", "upstream_truncated"),
        ("half-call", "protocol", "upstream_truncated"),
        ("cut:700", "http", "upstream_truncated"),
        ("reset:700", "http", "upstream_truncated"),
        ("stall:700", "timeout", "idle_timeout"),
        ("slow:5000", "timeout", "first_byte_timeout"),
        ("garbage", "json", "upstream_malformed"),
        ("bad-json-args", "json", "invalid_arguments"),
    ],
)
def test_each_failure_has_its_stage_in_every_dialect(
    dialect: str, quirk: str, stage: str, code: str | None
) -> None:
    async def run() -> ClientError:
        request = ask(
            user("What is the weather?"),
            tools=[tool("get_weather", description="tells", schema={"type": "object"})],
            model=f"sim/plain+args:1+{quirk}",
            max_tokens=5000,
        )
        # Clocks that run out only where that is what the test waits for.
        timeouts = {
            "idle_timeout": Timeouts(idle=0.5),
            "first_byte_timeout": Timeouts(first_byte=0.5),
        }
        clocks = timeouts.get(code or "", Timeouts())
        async with Simulator() as sim:
            strict = quirk == "garbage"
            client = Client(f"{sim.url}/v1", dialect=dialect, timeouts=clocks, strict=strict)
            async with client:
                with pytest.raises(ClientError) as caught:
                    await text_of(client, request)
        return caught.value

    error = asyncio.run(run())

    assert stage == error.stage
    assert code in (None, error.code)


# --- what it never does ---------------------------------------------------------------------------------


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
        options = {"dialect": dialect, "key": KEY, "headers": {"X-Team": "tools"}}
        async with peer(http(status="500 Oh")) as server, Client(server.url, **options) as client:
            with pytest.raises(ClientError):
                await client.create(REQUEST)
        return server.requests[0]

    head = asyncio.run(run()).decode().partition("\r\n\r\n")[0]

    assert header in head
    assert "x-team: tools" in head
    assert ("anthropic-version" in head) is (dialect == "anthropic")


def test_credentials_are_in_no_repr() -> None:
    client = Client(URL, key=KEY, headers={"x-secret": KEY}, model="m", dialect="anthropic")
    sync_client = SyncClient(URL, key=KEY, headers={"x-secret": KEY})
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
        ("http://host:port/", {}, "no address"),
        (5, {}, "no address"),
        ("http://me:secret@host/", {}, "must not hold credentials"),
        ("http://host/v1?key=secret", {}, "must end before any"),
        ("http://host/v1#a", {}, "must end before any"),
        (URL, {"dialect": "latin"}, "no dialect"),
        (URL, {"profile": "nobody"}, "no profile"),
        (URL, {"native_format": "nobody"}, "nobody"),
        (URL, {"headers": {"a b": "c"}}, "`a b` is no name"),
        (URL, {"headers": {"a": "c\r\nd: secret"}}, "control character"),
        (URL, {"key": "sécret\nsecret"}, "control character"),
        (URL, {"key": "ключ-secret"}, "not plain text"),
    ],
)
def test_settings_that_cannot_be_are_told_at_once_and_without_secrets(
    address, options: dict, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Client(address, **options)

    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_request_without_a_model_is_refused() -> None:
    with pytest.raises(MisuseError, match="no model"):
        Client(URL).stream(ask(user("x")))


def test_a_request_s_own_model_overrules_the_client_s() -> None:
    settings = Settings(URL, model="one")

    assert "one" == json.loads(prepare(ask(user("x")), settings, stream=False).body)["model"]
    request = ask(user("x"), model="two")
    assert "two" == json.loads(prepare(request, settings, stream=False).body)["model"]


# --- reasoning state --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "profile", "kind"),
    [
        ("anthropic", "anthropic", OpaqueKind.SIGNATURE),
        ("responses", "openai", OpaqueKind.ENCRYPTED),
        ("chat", "deepseek", OpaqueKind.PLAIN),
    ],
)
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "body"])
def test_reasoning_state_goes_back_to_its_server_unchanged(
    dialect: str, profile: str, kind: OpaqueKind, streamed: bool
) -> None:
    async def run() -> tuple[str, str, str]:
        question = user("sim: think Hm, so it is.\nsim: call f {}\nsim: then\nsim: say Done")
        options = {
            "tools": [tool("f", description="does", schema={"type": "object"})],
            "model": "sim/plain",
            "reasoning": "high",
            "max_tokens": 9000,
        }
        async with Simulator() as sim:
            async with Client(f"{sim.url}/v1", dialect=dialect, profile=profile) as client:
                if streamed:
                    async with client.stream(ask(question, **options)) as turn:
                        async for _ in turn:
                            pass
                    answer = turn.message()
                else:
                    answer = await client.create(ask(question, **options))
                history = (question, answer_turn(answer), result(answer.calls[0].call_id, "ok"))
                last = await client.create(ask(*history, **options))
            state = next(one for block in answer.blocks for one in block.opaque)
            assert kind is state.kind
            assert profile == state.origin
            return state.data, json.dumps(sim.exchanges[-1].json), last.text

    data, sent, text = asyncio.run(run())

    assert "Done" == text
    assert "Hm, so it is." in sent or kind is OpaqueKind.ENCRYPTED
    assert json.dumps(data)[1:-1] in sent


def test_reasoning_state_of_another_server_stays_at_home() -> None:
    async def run() -> None:
        question = user("sim: think Hm.\nsim: call f {}\nsim: then\nsim: say Done")
        tools = [tool("f", description="does", schema={"type": "object"})]
        request = ask(question, tools=tools, model="sim/plain", reasoning="high", max_tokens=9000)
        async with Simulator() as sim:
            url = f"{sim.url}/v1"
            async with Client(url, dialect="anthropic", profile="anthropic") as client:
                answer = await client.create(request)
            history = (question, answer_turn(answer), result(answer.calls[0].call_id, "ok"))
            async with Client(url, dialect="responses", profile="openai") as client:
                other = await client.create(ask(*history, tools=tools, model="sim/plain"))
            signature = next(one for block in answer.blocks for one in block.opaque).data
            assert "Done" == other.text
            assert signature not in json.dumps(sim.exchanges[-1].json)
            assert "opaque_dropped" in [loss.code for loss in other.losses]

    asyncio.run(run())


# --- threads ------------------------------------------------------------------------------------------


def served(work, answer=HELLO):
    """Run work in a thread beside a server."""

    async def run():
        async with peer(answer) as server, nothing_left():
            return await asyncio.to_thread(work, server.url)

    return asyncio.run(run())


def test_a_synchronous_client_reads_the_same() -> None:
    def work(url: str) -> None:
        with SyncClient(url) as client:
            with client.stream(REQUEST) as turn:
                events = list(turn)
                assert 200 == turn.status
                assert "" == turn.request_id
                assert () == turn.losses
                assert [] == turn.pump()
            assert isinstance(events[0], Start)
            assert isinstance(events[-1], Finish)
            assert "Hello" == turn.message().text

    served(work)


def test_a_synchronous_client_ends_its_thread() -> None:
    def work(url: str) -> None:
        before = set(threading.enumerate())
        client = SyncClient(url)
        assert before == set(threading.enumerate())
        for _ in range(2):
            client.create(REQUEST)
            assert ["dragoman client"] == [
                thread.name for thread in set(threading.enumerate()) - before
            ]
            client.close()
            assert before == set(threading.enumerate())
        client.close()

    served(work, http(body(), kind="application/json"))


def test_threads_share_a_synchronous_client() -> None:
    def work(url: str) -> None:
        texts: list[str] = []

        def one() -> None:
            with client.stream(REQUEST) as turn:
                for _ in turn:
                    pass
                texts.append(turn.message().text)

        with SyncClient(url) as client:
            threads = [threading.Thread(target=one) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert ["Hello"] * 20 == texts

    served(work)


def test_event_loops_in_several_threads_share_a_client() -> None:
    def work(url: str) -> None:
        client = Client(url)
        texts: list[str] = []

        async def ask_it() -> None:
            async with client:
                texts.extend(await asyncio.gather(*(text_of(client) for _ in range(5))))

        threads = [threading.Thread(target=asyncio.run, args=(ask_it(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ["Hello"] * 20 == texts

    served(work)


@pytest.mark.parametrize("what", ["stream", "client"])
@pytest.mark.parametrize("begun", [True, False], ids=["in the middle", "before the answer"])
def test_a_read_that_another_thread_ends_is_cancelled(what: str, begun: bool) -> None:
    async def run() -> None:
        left = asyncio.Event()
        beginning = http(length=None) + sse(CHAT[0], done=False) if begun else b""

        def work(url: str, asked: threading.Event) -> ClientError:
            client = SyncClient(url)
            turn = client.stream(REQUEST)

            def end() -> None:
                asked.wait(5)
                (turn if what == "stream" else client).close()

            thread = threading.Thread(target=end)
            thread.start()
            with pytest.raises(ClientError) as caught, turn:
                for _ in turn:
                    pass
            thread.join()
            if what == "client":
                assert "dragoman client" not in [one.name for one in threading.enumerate()]
                with pytest.raises(ClientError, match="closed"):
                    turn.pump()
                turn.close()
            client.close()
            return caught.value

        asked = threading.Event()

        async def script(talk: Talk) -> None:
            await talk.say(beginning)
            asked.set()
            await talk.gone()
            left.set()

        async with peer(script) as server, nothing_left():
            error = await asyncio.to_thread(work, server.url, asked)
            await asyncio.wait_for(left.wait(), 5)
        assert "cancelled" == error.stage

    asyncio.run(run())
