"""What tests of the client ask, by both faces of it, and the servers that keep them waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Answer, Client, ClientError, SyncClient, request, user
from dragoman.turn.request import Request
from tests.support.peers import Script, Talk, nothing_left, peer

REQUEST = request(user("hello"), model="m")
KEY = "sk-abcdef-123456"


async def text_of(client: Client, question: Request = REQUEST) -> str:
    """Return the text of a streamed answer."""
    async with client.stream(question) as turn:
        async for _ in turn:
            pass
    return turn.answer().text


async def asked(
    url: str,
    question: Request = REQUEST,
    *,
    stream: bool = True,
    timeout: float = 0.0,  # noqa: ASYNC109 -- passed on
    **options: Any,
) -> Answer:
    """Return the answer that a client with these options gets."""
    async with Client(url, **options) as client:
        if not stream:
            return await client.create(question, timeout=timeout)
        async with client.stream(question, timeout=timeout) as turn:
            async for _ in turn:
                pass
            return turn.answer()


def asked_now(
    url: str,
    question: Request = REQUEST,
    *,
    stream: bool = True,
    timeout: float = 0.0,
    **options: Any,
) -> Answer:
    """Return the same without an event loop."""
    with SyncClient(url, **options) as client:
        if not stream:
            return client.create(question, timeout=timeout)
        with client.stream(question, timeout=timeout) as turn:
            for _ in turn:
                pass
            return turn.answer()


async def asked_in_thread(url: str, *args: Any, **options: Any) -> Answer:
    return await asyncio.to_thread(asked_now, url, *args, **options)


FACES: dict[str, Callable[..., Awaitable[Answer]]] = {"async": asked, "sync": asked_in_thread}


def failure(script: Script | bytes, *args: Any, face: str = "async", **options: Any) -> ClientError:
    """Return the error that a server of this kind leads to; nothing else is left of it."""

    async def run() -> ClientError:
        async with peer(script) as server, nothing_left():
            with pytest.raises(ClientError) as caught:
                await FACES[face](server.url, *args, **options)
        return caught.value

    return asyncio.run(run())


def stalled(beginning: bytes, left: asyncio.Event | None = None) -> Script:
    """Return a script that falls silent until the client leaves, and then says so."""

    async def script(talk: Talk) -> None:
        await talk.say(beginning)
        await talk.gone()
        if left is not None:
            left.set()

    return script
