"""A client that threads and event loops share."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

import pytest

from dragoman import Client, ClientError, MisuseError, SyncClient, Timeouts
from dragoman.client import answer_stream
from dragoman.client.sync_client import SyncAnswerStream
from dragoman.turn.answer import Folder
from dragoman.turn.events import Event, Finish, Start, TextDelta
from tests.support.client import REQUEST, text_of
from tests.support.peers import CHAT, HELLO, Script, Talk, body, http, nothing_left, peer, sse

ROOT = Path(__file__).parents[2]
PIECE = {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a" * 65536}}]}


def served(work: Callable[[str], None], answer: Script | bytes = HELLO) -> None:
    """Run work in a thread beside a server."""

    async def run() -> None:
        async with peer(answer) as server, nothing_left():
            await asyncio.to_thread(work, server.url)

    asyncio.run(run())


def in_two_parts(go_on: threading.Event) -> Script:
    """Return a server that sends the rest of its answer on a signal."""

    async def script(talk: Talk) -> None:
        await talk.say(http(length=None) + sse(CHAT[0], done=False))
        await asyncio.to_thread(go_on.wait, 30)
        await talk.say(sse(*CHAT[1:]))

    return script


def up_to_text(turn: SyncAnswerStream) -> None:
    """Read until the first text has come."""
    while not any(isinstance(event, TextDelta) for event in turn.pump()):
        pass


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
            assert "Hello" == turn.answer().text

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
                texts.append(turn.answer().text)

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


def test_a_server_waits_for_a_thread_that_is_slow() -> None:
    sent = 0

    async def script(talk: Talk) -> None:
        nonlocal sent
        await talk.say(http(length=None))
        for _ in range(512):
            await talk.say(sse(PIECE, done=False))
            sent += 1
        await talk.say(sse(CHAT[2]))

    def work(url: str) -> None:
        with SyncClient(url) as client, client.stream(REQUEST) as turn:
            up_to_text(turn)
            before = -1
            while sent != before:  # until nothing moves
                before = sent
                time.sleep(0.2)
            assert sent < 256  # what buffers of the system take
            for _ in turn:
                pass
            assert 512 * 65536 == len(turn.answer().text)

    served(work, script)


def test_a_slow_thread_is_not_a_silent_server() -> None:
    go_on = threading.Event()

    def work(url: str) -> None:
        with SyncClient(url, timeouts=Timeouts(idle=3)) as client, client.stream(REQUEST) as turn:
            up_to_text(turn)
            time.sleep(3.5)  # the program's own time
            go_on.set()
            for _ in turn:
                pass
            assert "Hello" == turn.answer().text

    served(work, in_two_parts(go_on))


def test_a_thread_sees_what_it_was_given() -> None:
    go_on = threading.Event()

    def work(url: str) -> None:
        with SyncClient(url) as client, client.stream(REQUEST) as turn:
            up_to_text(turn)
            go_on.set()
            client.create(REQUEST)  # the rest may have come meanwhile
            message = turn.answer()
            assert ("Hel", None) == (message.text, message.finish)
            turn.close()
            with pytest.raises(ClientError) as caught:
                turn.pump()
            assert "cancelled" == caught.value.stage
            assert caught.value.received is not None
            assert "Hel" == caught.value.received.text

    stream, asked = in_two_parts(go_on), iter(range(2))

    async def script(talk: Talk) -> None:
        if next(asked):
            await talk.say(http(body(), kind="application/json"))
        else:
            await stream(talk)

    served(work, script)


class SlowFolder(Folder):
    def feed(self, events: Iterable[Event], /) -> None:
        if threading.current_thread().name == "asking":
            time.sleep(0.001)  # more is read meanwhile
        super().feed(events)


def test_a_thread_may_ask_for_the_message_while_another_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_stream, "Folder", SlowFolder)
    monkeypatch.setattr(answer_stream, "_FOLD_BATCH", 3)
    words = [f"{number} " for number in range(2000)]
    said = [{"id": "c1", "choices": [{"index": 0, "delta": {"content": word}}]} for word in words]

    def work(url: str) -> None:
        texts: list[str] = []
        with SyncClient(url) as client, client.stream(REQUEST) as turn:
            done = threading.Event()

            def ask() -> None:
                while not done.is_set():
                    texts.append(turn.answer().text)

            asking = threading.Thread(target=ask, name="asking")
            asking.start()
            try:
                for count, _ in enumerate(turn):
                    asked = len(texts)
                    while count % 500 == 0 and len(texts) < asked + 2 and asking.is_alive():
                        time.sleep(0.001)
            finally:
                done.set()
                asking.join()
        assert "".join(words) == turn.answer().text
        assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
        assert len(set(texts)) > 2

    async def script(talk: Talk) -> None:
        await talk.say(http(length=None))
        for at in range(0, len(said), 2):
            await talk.say(sse(*said[at : at + 2], done=False))
            await asyncio.sleep(0.02 if at % 200 == 0 else 0)
        await talk.say(sse(CHAT[-1]))

    served(work, script)


def test_an_answer_is_read_by_one_thread_at_a_time() -> None:
    go_on = threading.Event()

    def work(url: str) -> None:
        found: SimpleQueue[list[Event] | MisuseError] = SimpleQueue()

        def pump() -> None:
            try:
                found.put(turn.pump())
            except MisuseError as error:
                found.put(error)

        with SyncClient(url) as client, client.stream(REQUEST) as turn:
            up_to_text(turn)
            threads = [threading.Thread(target=pump) for _ in range(2)]
            for thread in threads:
                thread.start()
            assert isinstance(found.get(timeout=30), MisuseError)
            go_on.set()
            assert isinstance(found.get(timeout=30), list)
            for thread in threads:
                thread.join()

    served(work, in_two_parts(go_on))


_INTERRUPTED = """
import sys, threading
from dragoman import SyncClient
from tests.client.test_sync_client import REQUEST, up_to_text

try:
    with SyncClient(sys.argv[1]) as client, client.stream(REQUEST) as turn:
        up_to_text(turn)
        print("reading", flush=True)
        turn.pump()
except KeyboardInterrupt:
    print([thread.name for thread in threading.enumerate()])
"""


def test_a_thread_that_is_interrupted_leaves_nothing_behind() -> None:
    """In a process: a signal that is seen late must not reach the tests."""

    async def run() -> None:
        left = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await talk.gone()
            left.set()

        async with peer(script) as server, nothing_left():
            pipe = asyncio.subprocess.PIPE
            command = (sys.executable, "-c", _INTERRUPTED, server.url)
            reader = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe)
            assert b"reading\n" == await reader.stdout.readline()
            # Python sees a signal that comes just before a thread begins to wait only when the waiting is over.
            await asyncio.sleep(0.5)
            reader.send_signal(signal.SIGINT)
            async with asyncio.timeout(30):
                assert b"['MainThread']\n" == await reader.stdout.read()
                await left.wait()
                assert 0 == await reader.wait()

    asyncio.run(run())
