"""Requests and answers of Responses as they are stored, and a store for one test."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from dragoman.gateway.responses.store import ResponsesStore

CALL = b'{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{ }"}'


def request(input_: bytes = b'"hi"', **fields: object) -> bytes:
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items())
    return b'{"model":"m","input":%b%b}' % (input_, rest.encode())


def response(response_id: str, *output: bytes, **fields: object) -> bytes:
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items())
    return b'{"id":"%b","object":"response","status":"completed","output":[%b]%b}' % (
        response_id.encode(),
        b",".join(output),
        rest.encode(),
    )


def with_store(
    work: Callable[[ResponsesStore], Awaitable[None]], path: Path | str = ":memory:", **bounds
) -> None:
    async def run() -> None:
        store = await ResponsesStore.open(str(path), **bounds)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())
