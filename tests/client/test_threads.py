"""A client that threads and event loops share."""

import asyncio
import threading

import pytest

from dragoman import Client, ClientError, SyncClient
from dragoman.turn.events import Finish, Start
from tests.support.client import REQUEST, text_of
from tests.support.peers import CHAT, HELLO, Talk, body, http, nothing_left, peer, sse


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
                asked.wait(30)
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
            await asyncio.wait_for(left.wait(), 30)
        assert "cancelled" == error.stage

    asyncio.run(run())
