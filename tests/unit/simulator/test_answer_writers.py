"""What the simulator writes, judged by the grammar of each dialect and by the vendors' own SDKs."""

import asyncio
from typing import Any

import pytest

from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES
from dragoman.simulator.answer_writers import gemini
from dragoman.simulator.play import SimulatedImage
from dragoman.simulator.server import Simulator
from tests.support.chat import payloads
from tests.support.sdks import accumulate, parse_body
from tests.support.simulator import (
    CLOCK,
    SERVERS,
    WEATHER,
    WEATHER_CALL,
    answered,
    ask,
    post,
    question,
)
from tests.support.tables import in_one_test

each_dialect = pytest.mark.parametrize("dialect", DIALECT_NAMES)
THINKING = {
    "chat": {"reasoning_effort": "high"},
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "responses": {
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
}
# Whatever a model's name asks for, these streams are legal.
HEALTHY = [
    "plain",
    "plain+think",
    "plain+parallel:3",
    "plain+think+parallel:2+whole-args",
    "plain+length",
    "plain+refuse",
    "plain+crlf+comments",
    "plain+chunk:all",
    "plain+chunk:1",
    "plain+batch:7",
    "plain+args:20",
    "plain+text:20",
    "plain+giant:1",
    "plain+error-in",
    "plain+error-in:529",
    "kimi-k2",
    "kimi-k2+leak-both",
    "kimi-k2+think-tags",
    "kimi-k2+length",
]


def texts(dialect: str, answer: dict[str, Any]) -> str:
    match dialect:
        case "chat":
            return answer["choices"][0]["message"]["content"] or ""
        case "anthropic":
            return "".join(one.get("text", "") for one in answer["content"])
        case "gemini":
            parts = answer["candidates"][0]["content"]["parts"]
            return "".join(one.get("text", "") for one in parts)
        case _:
            return "".join(
                part["text"]
                for item in answer["output"]
                if item["type"] == "message"
                for part in item["content"]
            )


@each_dialect
@in_one_test
@pytest.mark.parametrize("model", HEALTHY)
@pytest.mark.parametrize("tools", [None, [WEATHER, CLOCK]], ids=["no tools", "tools"])
def test_stream_is_legal(dialect: str, model: str, tools: Any) -> None:
    got = ask(dialect, question(dialect, f"sim/{model}", tools=tools))

    verdict = check(dialect, got.body)

    assert 200 == got.status
    assert "text/event-stream; charset=utf-8" == got.headers["content-type"]
    # No client of Gemini reads comments.
    illegal = {"no-comment"} if dialect == "gemini" and "comments" in model else set()
    assert illegal == {one.rule for one in verdict.violations}
    assert ("failure" if "error" in model else "finish") == verdict.ended


def without_noise(value: Any) -> Any:
    """Leave out what an SDK itself adds."""
    if isinstance(value, dict):
        return {
            key: without_noise(inner)
            for key, inner in value.items()
            if inner is not None
            and key not in ("parsed_arguments", "parsed", "output_parsed", "index", "object")
        }
    if isinstance(value, list):
        return [without_noise(inner) for inner in value]
    return value


@each_dialect
@pytest.mark.parametrize("model", ["plain", "plain+think", "plain+parallel:3", "kimi-k2"])
@pytest.mark.parametrize("tools", [None, [WEATHER]], ids=["no tools", "tools"])
def test_sdk_reads_the_same_from_the_stream_and_from_the_body(
    dialect: str, model: str, tools: Any
) -> None:
    streamed = question(dialect, model, tools=tools, **THINKING[dialect])
    whole = question(dialect, model, tools=tools, stream=False, **THINKING[dialect])
    stream, body = ask(dialect, streamed).body, ask(dialect, whole).body

    read = [without_noise(accumulate(dialect, stream)), without_noise(parse_body(dialect, body))]

    for one in read:
        # These follow from the bytes of the request, which differ.
        for made in ("id", "usage", "responseId", "usageMetadata"):
            one.pop(made, None)
    shapes = [_without_ids(one) for one in read]
    assert shapes[1] == shapes[0]


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        made = ("id", "call_id", "encrypted_content", "thoughtSignature")
        return {key: _without_ids(one) for key, one in value.items() if key not in made}
    return [_without_ids(one) for one in value] if isinstance(value, list) else value


@each_dialect
def test_same_request_has_the_same_bytes(dialect: str) -> None:
    body = question(dialect, "sim/kimi-k2+think", tools=[WEATHER])

    assert ask(dialect, body).body == ask(dialect, body).body


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_call_follows_from_the_schema(dialect: str, stream: bool) -> None:
    got = ask(dialect, question(dialect, tools=[WEATHER], stream=stream))
    answer = accumulate(dialect, got.body) if stream else parse_body(dialect, got.body)

    calls = _calls(dialect, answer)

    assert [("get_weather", WEATHER_CALL)] == calls


def _calls(dialect: str, answer: dict[str, Any]) -> list[tuple[str, Any]]:
    import json

    match dialect:
        case "chat":
            made = answer["choices"][0]["message"]["tool_calls"]
            return [
                (one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made
            ]
        case "anthropic":
            return [
                (one["name"], one["input"])
                for one in answer["content"]
                if one["type"] == "tool_use"
            ]
        case "gemini":
            parts = answer["candidates"][0]["content"]["parts"]
            made = [one["functionCall"] for one in parts if "functionCall" in one]
            return [(one["name"], one["args"]) for one in made]
        case _:
            return [
                (one["name"], json.loads(one["arguments"]))
                for one in answer["output"]
                if one["type"] == "function_call"
            ]


@each_dialect
def test_results_of_tools_end_the_turn_with_text(dialect: str) -> None:
    body = answered(dialect, question(dialect, tools=[WEATHER]), "12 degrees and sunny")

    answer = accumulate(dialect, ask(dialect, body).body)

    assert [] == (_calls(dialect, answer) if dialect != "chat" else [])
    assert "get_weather returned: 12 degrees and sunny." in texts(dialect, answer)


@each_dialect
def test_usage_counts_four_characters_a_token(dialect: str) -> None:
    body = question(dialect, "plain", "sim: say 12345678", stream=False)

    answer = ask(dialect, body).json
    usage = answer.get("usage") or answer["usageMetadata"]
    names = {
        "chat": ("prompt_tokens", "completion_tokens"),
        "gemini": ("promptTokenCount", "candidatesTokenCount"),
    }.get(dialect, ("input_tokens", "output_tokens"))

    assert usage[names[0]] > 0
    assert 2 == usage[names[1]]


@each_dialect
def test_limit_of_tokens_cuts_the_answer(dialect: str) -> None:
    limit: dict[str, Any] = {
        "chat": {"max_completion_tokens": 16},
        "anthropic": {"max_tokens": 16},
        "responses": {"max_output_tokens": 16},
        "gemini": {"generationConfig": {"maxOutputTokens": 16}},
    }[dialect]
    body = question(dialect, "plain", "sim: say " + "x" * 100, stream=False) | limit

    answer = ask(dialect, body).json

    assert "x" * 64 == texts(dialect, answer)
    ending = {
        "chat": lambda: answer["choices"][0]["finish_reason"],
        "anthropic": lambda: answer["stop_reason"],
        "responses": lambda: answer["incomplete_details"]["reason"],
        "gemini": lambda: answer["candidates"][0]["finishReason"],
    }[dialect]()
    expected = {
        "chat": "length",
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "gemini": "MAX_TOKENS",
    }
    assert expected[dialect] == ending


@pytest.mark.parametrize(
    ("dialect", "field"),
    [("chat", "stop"), ("anthropic", "stop_sequences"), ("gemini", "stopSequences")],
)
def test_stop_sequence_ends_the_text(dialect: str, field: str) -> None:
    body = question(dialect, "plain", "sim: say one END two", stream=False)

    stops: dict[str, Any] = {field: ["nowhere", "END"]}
    answer = ask(
        dialect, body | ({"generationConfig": stops} if dialect == "gemini" else stops)
    ).json

    assert "one " == texts(dialect, answer)
    if dialect == "anthropic":
        assert ("stop_sequence", "END") == (answer["stop_reason"], answer["stop_sequence"])
    elif dialect == "gemini":
        assert "STOP" == answer["candidates"][0]["finishReason"]
    else:
        assert "stop" == answer["choices"][0]["finish_reason"]


def test_free_form_tool_gets_free_form_input() -> None:
    tool = {"type": "custom", "name": "apply_patch"}
    body = question("responses") | {"tools": [tool]}
    got = ask("responses", body)

    answer = accumulate("responses", got.body)

    assert check("responses", got.body).legal
    assert ("custom_tool_call", "example input of apply_patch") == (
        answer["output"][-1]["type"],
        answer["output"][-1]["input"],
    )


def test_hidden_thinking_is_signed_all_the_same() -> None:
    thinking = {"type": "adaptive", "display": "omitted"}
    answer = ask("anthropic", question("anthropic", stream=False, thinking=thinking)).json

    block = answer["content"][0]

    assert ("thinking", "") == (block["type"], block["thinking"])
    assert block["signature"]


# --- Gemini ---


@pytest.mark.parametrize("stream", [True, False])
def test_gemini_signs_its_first_call_and_reads_results(stream: bool) -> None:
    asked = question("gemini", "plain+parallel:2", tools=[WEATHER], stream=stream)
    got = ask("gemini", asked)
    chunks = payloads(got.body) if stream else [got.json]
    parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    first, second = (part for part in parts if "functionCall" in part)
    call = first["functionCall"]
    back = ask("gemini", answered("gemini", asked, "12 degrees and sunny"))
    said = payloads(back.body) if stream else [back.json]
    text = "".join(one["candidates"][0]["content"]["parts"][0]["text"] for one in said)

    assert ("get_weather", WEATHER_CALL) == (call["name"], call["args"])
    assert gemini.signature(call["id"], "get_weather") == first["thoughtSignature"]
    assert "thoughtSignature" not in second
    assert "STOP" == said[-1]["candidates"][0]["finishReason"]
    assert "12 degrees and sunny" in text


def test_gemini_has_quirks_of_its_ids_and_signatures() -> None:
    bare = ask("gemini", question("gemini", "plain+no-ids", tools=[WEATHER], stream=False)).json
    apart = ask("gemini", question("gemini", "plain+signature-apart", tools=[WEATHER])).body
    *_, last = payloads(apart)
    (part,) = last["candidates"][0]["content"]["parts"]

    assert "id" not in str([*bare["candidates"][0]["content"]["parts"][-1]["functionCall"]])
    assert {"text", "thoughtSignature"} == part.keys()
    assert 1 == apart.count(b"thoughtSignature")


def test_gemini_streams_a_list_and_refuses_in_googles_form() -> None:
    async def run() -> list[Any]:
        async with Simulator() as sim:
            path = "/v1beta/models/plain:streamGenerateContent"
            listed = await post(sim, path, {"contents": [{"parts": [{"text": "sim: say Hi"}]}]})
            refused = await post(sim, "/v1beta/models/plain:embedContent", {})
            return [listed.json, refused.json]

    listed, refused = asyncio.run(run())

    assert "Hi" == listed[0]["candidates"][0]["content"]["parts"][0]["text"]
    assert (404, "NOT_FOUND") == (refused["error"]["code"], refused["error"]["status"])


# --- searches ---


SEARCHED = "sim: think Let me see.\nsim: search oslo\nsim: search bergen\nsim: say It snows."


@each_dialect
def test_stream_with_searches_is_legal_and_the_sdk_reads_the_same_from_the_body(
    dialect: str,
) -> None:
    stream = ask(dialect, question(dialect, text=SEARCHED)).body
    body = ask(dialect, question(dialect, text=SEARCHED, stream=False)).body

    assert [] == list(check(dialect, stream).violations)
    read = [without_noise(accumulate(dialect, stream)), without_noise(parse_body(dialect, body))]
    for one in read:
        one.pop("id", None)
    assert _without_searches(read[1]) == _without_searches(read[0])
    assert b"https://source1.example/oslo" in stream
    assert b"https://source1.example/oslo" in body


def _without_searches(value: Any) -> Any:
    """Leave out what follows from the bytes of the request, the counts, and what one SDK adds up by itself."""
    if isinstance(value, dict):
        made = ("id", "tool_use_id", "usage", "responseId", "annotations", "thoughtSignature")
        return {key: _without_searches(one) for key, one in value.items() if key not in made}
    return [_without_searches(one) for one in value] if isinstance(value, list) else value


# --- MCP servers and images ---

NOTED = 'sim: think Let me see.\nsim: mcp find {"about": "tea"}\nsim: mcp list\nsim: say Two notes.'
DRAWN = "sim: think Let me see.\nsim: image a cat\nsim: image a dog\nsim: say Two pets."
CAT, DOG = SimulatedImage("a cat").data, SimulatedImage("a dog").data


def both_ways(dialect: str, text: str, more: dict[str, Any]) -> tuple[bytes, list[Any]]:
    """Return a stream that was found legal, and what the vendor's SDK reads from it and from a complete answer."""
    stream = ask(dialect, question(dialect, text=text) | more).body
    body = ask(dialect, question(dialect, text=text, stream=False) | more).body

    assert [] == list(check(dialect, stream).violations)
    return stream, [accumulate(dialect, stream), parse_body(dialect, body)]


@pytest.mark.parametrize("dialect", SERVERS)
def test_calls_of_mcp_servers_are_legal_and_the_sdk_reads_the_same_from_both(dialect: str) -> None:
    stream, read = both_ways(dialect, NOTED, SERVERS[dialect])

    streamed, whole = (_without_searches(without_noise(one)) for one in read)
    assert whole == streamed
    assert b"find of notes returned 3 notes." in stream
    assert b"list of notes returned 3 notes." in stream


def images_of(dialect: str, answer: dict[str, Any]) -> list[str]:
    match dialect:
        case "chat":
            listed = answer["choices"][0]["message"]["images"]
            return [one["image_url"]["url"] for one in listed]
        case "gemini":
            parts = answer["candidates"][0]["content"]["parts"]
            return [one["inlineData"]["data"] for one in parts if "inlineData" in one]
        case _:
            items = answer["output"]
            return [one["result"] for one in items if one["type"] == "image_generation_call"]


@pytest.mark.parametrize("dialect", ["responses", "chat", "gemini"])
def test_images_are_legal_and_the_sdk_reads_the_same_from_both(dialect: str) -> None:
    _, read = both_ways(dialect, DRAWN, {})

    prefix = "data:image/png;base64," if dialect == "chat" else ""
    for one in read:
        found = [image.replace("-", "+").replace("_", "/") for image in images_of(dialect, one)]
        assert [prefix + CAT, prefix + DOG] == found
        assert texts(dialect, one).endswith("Two pets.")


@pytest.mark.parametrize("asked", [0, 2, 9])
def test_early_versions_of_an_image_come_in_a_stream_that_asks_for_them(asked: int) -> None:
    tool = {"type": "image_generation", "partial_images": asked}
    stream, _ = both_ways("responses", "A cat", {"tools": [tool]})

    assert min(asked, 3) == stream.count(b"event: response.image_generation_call.partial_image")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_messages_refuses_to_make_images(stream: bool) -> None:
    got = ask("anthropic", question("anthropic", text="sim: image a cat", stream=stream))

    assert (400, "invalid_request_error") == (got.status, got.json["error"]["type"])
    assert "Messages has no images" in got.json["error"]["message"]


def test_a_paused_answer_of_google_has_each_call_and_image_once() -> None:
    text = f"{NOTED}\nsim: image a cat"
    body = question("gemini", "plain+pause:2", text, stream=False) | SERVERS["gemini"]
    parts: list[dict[str, Any]] = []
    for _ in range(3):
        (candidate,) = ask("gemini", body).json["candidates"]
        parts += candidate["content"]["parts"]
        token = candidate.get("continuationToken")
        body["generationConfig"] = {"continuationToken": token}

    assert 2 == sum("toolCall" in one for one in parts)
    assert 1 == sum("inlineData" in one for one in parts)
    assert token is None
