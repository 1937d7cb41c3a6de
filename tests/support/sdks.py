"""The vendors' own SDKs as judges: they read our bytes as if a server had sent them."""

from contextlib import suppress
from typing import Any

import anthropic
import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState


def _transport(body: bytes, *, stream: bool, status: int = 200) -> httpx2.MockTransport:
    kind = "text/event-stream; charset=utf-8" if stream else "application/json"

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": kind}, content=body)

    return httpx2.MockTransport(answer)


def _anthropic(body: bytes, *, stream: bool, status: int = 200) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="x",
        base_url="http://127.0.0.1:1",
        max_retries=0,
        http_client=httpx2.Client(transport=_transport(body, stream=stream, status=status)),
    )


def _openai(body: bytes, *, stream: bool, status: int = 200) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="x",
        base_url="http://127.0.0.1:1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=_transport(body, stream=stream, status=status)),
    )


def accumulate(dialect: str, stream: bytes) -> dict[str, Any]:
    """Return what the vendor's stream helper makes of a stream, as plain JSON values."""
    if dialect == "anthropic":
        with _anthropic(stream, stream=True).messages.stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        ) as events:
            for _ in events:
                pass
            return events.get_final_message().to_dict(mode="json")
    if dialect == "chat":
        return _accumulate_chat(stream)
    with _openai(stream, stream=True).responses.stream(model="m", input="x") as events:
        for event in events:
            # The helper's own `get_final_response` knows `completed` only.
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = event.response.to_dict(mode="json")
        if final["status"] == "completed":
            events.get_final_response()
        return final


def _accumulate_chat(stream: bytes) -> dict[str, Any]:
    """Run the state behind the vendor's stream helper.

    The helper itself stops at a cut or filtered answer, to say that there is nothing to parse; the state
    goes on to the token counts.
    """
    state = ChatCompletionStreamState()
    for chunk in _openai(stream, stream=True).chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], stream=True
    ):
        with suppress(openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            state.handle_chunk(chunk)
    return state.current_completion_snapshot.to_dict(mode="json")


def parse_body(dialect: str, body: bytes) -> dict[str, Any]:
    """Return what the vendor's client makes of a complete answer."""
    if dialect == "anthropic":
        message = _anthropic(body, stream=False).messages.create(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        )
        return message.to_dict(mode="json")
    if dialect == "chat":
        completion = _openai(body, stream=False).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}]
        )
        return completion.to_dict(mode="json")
    return _openai(body, stream=False).responses.create(model="m", input="x").to_dict(mode="json")


def provoke(dialect: str, status: int, body: bytes) -> Exception:
    """Return the exception that the vendor's client raises for an error answer."""
    try:
        if dialect == "anthropic":
            _anthropic(body, stream=False, status=status).messages.create(
                model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
            )
        elif dialect == "chat":
            _openai(body, stream=False, status=status).chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}]
            )
        else:
            _openai(body, stream=False, status=status).responses.create(model="m", input="x")
    except (anthropic.APIError, openai.APIError) as error:
        return error
    raise AssertionError("the client raised nothing")
