"""The vendors' own SDKs as judges: they read our bytes as if a server had sent them."""

from contextlib import suppress
from functools import cache
from typing import Any

import anthropic
import httpx2
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai.types import GenerateContentResponse, HttpOptions
from openai.lib.streaming.chat import ChatCompletionStreamState

# What the SDKs raise for a failure that a server reports.
SDK_ERRORS = (anthropic.APIError, openai.APIError, genai_errors.APIError)


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


def _messages(body: bytes, *, stream: bool) -> Any:
    """Return the messages of the SDK; those of the vendor's betas have the calls of MCP servers."""
    client = _anthropic(body, stream=stream)
    return client.beta.messages if b'"mcp_tool_use"' in body else client.messages


def _openai(body: bytes, *, stream: bool, status: int = 200) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="x",
        base_url="http://127.0.0.1:1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=_transport(body, stream=stream, status=status)),
    )


class _Replaceable(httpx2.BaseTransport):
    """A transport that asks another, which may change."""

    inner: httpx2.BaseTransport

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.inner.handle_request(request)


_google_transport = _Replaceable()


@cache
def _google() -> genai.Client:
    """Return the client of all tests: each new one would read the system's certificates three times."""
    client = httpx2.Client(transport=_google_transport)
    options = HttpOptions(base_url="http://127.0.0.1:1", httpx_client=client)
    return genai.Client(api_key="x", http_options=options)


def _genai(body: bytes, *, stream: bool, status: int = 200) -> genai.Client:
    _google_transport.inner = _transport(body, stream=stream, status=status)
    return _google()


def accumulate(dialect: str, stream: bytes) -> dict[str, Any]:
    """Return what the vendor's stream helper makes of a stream, as plain JSON values."""
    if dialect == "anthropic":
        with _messages(stream, stream=True).stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        ) as events:
            for _ in events:
                pass
            return events.get_final_message().to_dict(mode="json")
    if dialect == "chat":
        return _accumulate_chat(stream)
    if dialect == "gemini":
        return _accumulate_gemini(stream)
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


def _accumulate_gemini(stream: bytes) -> dict[str, Any]:
    """Append the parts of all chunks, as the dialect defines it; the SDK itself gives one chunk after the other."""
    parts: list[Any] = []
    whole: dict[str, Any] = {}
    for chunk in _genai(stream, stream=True).models.generate_content_stream(
        model="m", contents="x"
    ):
        read = _plain_answer(chunk)
        whole |= read
        for candidate in read.get("candidates", []):
            parts += candidate.get("content", {}).get("parts", [])
    whole["candidates"][0]["content"]["parts"] = joined_parts(parts)
    return whole


def _plain_answer(answer: GenerateContentResponse) -> dict[str, Any]:
    hidden = {"sdk_http_response", "parsed", "automatic_function_calling_history"}
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=hidden)


def joined_parts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbouring texts of one kind, leave out empty ones, and write signatures in one alphabet."""
    joined: list[dict[str, Any]] = []
    for one in parts:
        part = dict(one)
        if "thoughtSignature" in part:
            folded = part["thoughtSignature"].replace("-", "+").replace("_", "/")
            part["thoughtSignature"] = folded
        elif not part.get("text", "x"):
            continue
        last = joined[-1] if joined else {}
        if part.keys() == last.keys() <= {"text", "thought"}:
            last["text"] += part["text"]
        else:
            joined.append(part)
    return joined


def parse_body(dialect: str, body: bytes) -> dict[str, Any]:
    """Return what the vendor's client makes of a complete answer."""
    if dialect == "anthropic":
        message = _messages(body, stream=False).create(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        )
        return message.to_dict(mode="json")
    if dialect == "chat":
        completion = _openai(body, stream=False).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}]
        )
        return completion.to_dict(mode="json")
    if dialect == "gemini":
        answer = _genai(body, stream=False).models.generate_content(model="m", contents="x")
        return _plain_answer(answer)
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
        elif dialect == "gemini":
            _genai(body, stream=False, status=status).models.generate_content(
                model="m", contents="x"
            )
        else:
            _openai(body, stream=False, status=status).responses.create(model="m", input="x")
    except SDK_ERRORS as error:
        return error
    raise AssertionError("the client raised nothing")
