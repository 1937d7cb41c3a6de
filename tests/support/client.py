"""What tests of the client ask, and the servers that keep them waiting."""

import asyncio

from dragoman import Client, ask, user
from dragoman.turn.request import Request
from tests.support.peers import Script, Talk

REQUEST = ask(user("hello"), model="m")
KEY = "sk-abcdef-123456"


async def text_of(client: Client, request: Request = REQUEST) -> str:
    """Return the text of a streamed answer."""
    async with client.stream(request) as turn:
        async for _ in turn:
            pass
    return turn.message().text


def stalled(beginning: bytes, left: asyncio.Event) -> Script:
    """Return a script that falls silent until the client leaves."""

    async def script(talk: Talk) -> None:
        await talk.say(beginning)
        await talk.gone()
        left.set()

    return script
