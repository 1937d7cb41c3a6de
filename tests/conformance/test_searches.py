"""Two turns with a web search: the vendors' SDKs read it, and each vendor gets back what it demands."""

import json
from typing import Any

import anthropic.types
import openai.types.responses
import pytest
from google.genai.types import GenerateContentResponse

from dragoman.dialects import dialect
from dragoman.envelopes import Sealer
from dragoman.limits import DEFAULT_LIMITS
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import translate_request
from tests.support.corpus import ROOT
from tests.support.sdks import accumulate

SEALER = Sealer(b"k" * 32)
QUESTION = "Perform a web search for the query: oslo weather"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9_000,
    "messages": [{"role": "user", "content": QUESTION}],
    "tools": [SEARCH],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [{"role": "user", "content": QUESTION}],
    "tools": [{"type": "web_search"}],
    "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
    "store": False,
}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": QUESTION}],
    "web_search_options": {},
    "stream": True,
    "stream_options": {"include_usage": True},
}
MODELS = {"groq": "groq/compound"}  # its other models search in other words, or not at all
GEMINI: dict[str, Any] = {
    "model": "m",
    "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
    "tools": [{"googleSearch": {}}],
}
BODIES = {"anthropic": MESSAGES, "responses": RESPONSES, "chat": CHAT, "gemini": GEMINI}
# Every shape in which an upstream shows a search with its sources.
SHAPES = [
    ("chat", "search_openai", "openai", 1),
    ("chat", "search_openrouter", "openrouter", 1),
    ("chat", "search_perplexity", "perplexity", 2),
    ("chat", "search_zai", "zai", 1),
    ("chat", "search_groq", "groq", 1),
    ("chat", "search_xai", "xai", 1),
    ("responses", "search_two_at_once", "xai", 2),
    ("responses", "web_search_and_annotations", "openai", 1),
    ("gemini", "search_queries", "gemini-api", 1),
]


def stream(source: str, case: str) -> bytes:
    return (ROOT / source / case / "stream.sse").read_bytes()


def read(target: str, body: dict[str, Any]) -> Any:
    decode = dialect(target).decode_request
    return decode(json.dumps(body).encode(), sealer=SEALER, limits=DEFAULT_LIMITS)


def answered(source: str, data: bytes, target: str, profile: str) -> dict[str, Any]:
    """Return what the SDK of the client's vendor makes of the translated stream."""
    one = Translator(
        source=source,
        target=target,
        model=MODELS.get(profile, ""),
        profile=profile,
        request=read(target, BODIES[target]),
        seed="s",
        sealer=SEALER,
    )
    return accumulate(target, one.feed(data) + one.close())


@pytest.mark.parametrize(("source", "case", "profile", "count"), SHAPES)
def test_claude_codes_search_gets_links_text_and_count(
    source: str, case: str, profile: str, count: int
) -> None:
    message = answered(source, stream(source, case), "anthropic", profile)
    content = anthropic.types.Message.model_validate(message).content

    calls = [block for block in content if isinstance(block, anthropic.types.ServerToolUseBlock)]
    results = [
        block for block in content if isinstance(block, anthropic.types.WebSearchToolResultBlock)
    ]
    searches = [call for call in calls if call.name == "web_search"]
    assert [call.id for call in searches] == [result.tool_use_id for result in results]
    links = [link for result in results for link in result.content]  # type: ignore[union-attr]
    assert links
    for link in links:
        assert isinstance(link, anthropic.types.WebSearchResultBlock)
        assert link.url.startswith("https://")
        assert link.title
    assert any(isinstance(block, anthropic.types.TextBlock) and block.text for block in content)
    assert count == message["usage"]["server_tool_use"]["web_search_requests"]
    for block in message["content"]:
        for cited in block.get("citations") or ():
            fields = ("cited_text", "url", "title", "encrypted_index")
            assert all(isinstance(cited[field], str) for field in fields)


@pytest.mark.parametrize(("source", "case", "profile", "count"), SHAPES)
def test_a_complete_answer_holds_what_the_stream_holds(
    source: str, case: str, profile: str, count: int
) -> None:
    made = translate_body(
        stream(source, case),
        source=source,
        target="anthropic",
        profile=profile,
        request=read("anthropic", MESSAGES),
        seed="s",
        sealer=SEALER,
    )
    body = json.loads(made.body)
    streamed = answered(source, stream(source, case), "anthropic", profile)

    assert [one["type"] for one in streamed["content"]] == [one["type"] for one in body["content"]]
    assert count == body["usage"]["server_tool_use"]["web_search_requests"]


@pytest.mark.parametrize(("source", "case", "profile", "count"), SHAPES)
def test_openais_sdk_reads_items_sources_and_annotations(
    source: str, case: str, profile: str, count: int
) -> None:
    if source == "responses":
        return  # the vendor's own bytes are forwarded
    made = answered(source, stream(source, case), "responses", profile)
    response = openai.types.responses.Response.model_validate(made)

    calls = [item for item in response.output if item.type == "web_search_call"]
    assert 1 <= len(calls) <= count
    for call in calls:
        assert "completed" == call.status
        assert "search" == call.action.type
        assert call.action.sources
        assert all(one.url.startswith("https://") for one in call.action.sources)
    message = next(item for item in response.output if item.type == "message")
    for one in message.content[0].annotations:
        assert one.url.startswith("https://")
        assert one.title
        assert 0 <= one.start_index <= one.end_index <= len(message.content[0].text)


@pytest.mark.parametrize(("source", "case", "profile", "count"), SHAPES)
def test_openais_sdk_reads_annotations_of_a_chat_answer(
    source: str, case: str, profile: str, count: int
) -> None:
    if profile == "perplexity":
        return  # it takes `web_search_options` too: its own clients get its own fields
    made = answered(source, stream(source, case), "chat", profile)
    message = made["choices"][0]["message"]

    cited = [one["url_citation"] for one in message["annotations"]]
    assert cited
    for one in cited:
        assert one["url"].startswith("https://")
        assert one["title"]
        assert one["start_index"] <= one["end_index"] <= len(message["content"])
    if (source, profile) != ("chat", "openai"):  # its own words, and it counts nothing
        assert count == made["usage"]["server_tool_use_details"]["web_search_requests"]


@pytest.mark.parametrize(("source", "case", "profile", "count"), SHAPES)
def test_googles_sdk_reads_each_source_once_with_a_title(
    source: str, case: str, profile: str, count: int
) -> None:
    if source == "gemini":
        return  # the vendor's own bytes are forwarded
    made = answered(source, stream(source, case), "gemini", profile)
    read = GenerateContentResponse.model_validate(made)
    chunks = read.candidates[0].grounding_metadata.grounding_chunks

    urls = [one.web.uri for one in chunks]
    assert urls
    assert len(urls) == len(set(urls))
    assert all(one.web.title for one in chunks)


# --- where citations point --------------------------------------------------------------------------------

FIRST, CITED = "It rains 🌧️ in 京都. ", "Größe: 4 mm 🌂."
URL, TITLE = "https://yr.example/kyoto", "Kyoto"


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def cited_by(source: str) -> bytes:
    """Return a stream whose second sentence is cited, in characters that are several bytes or code units."""
    text = FIRST + CITED
    match source:
        case "anthropic":
            citation = {
                "type": "web_search_result_location",
                "url": URL,
                "title": TITLE,
                "cited_text": "Rain",
                "encrypted_index": "E",
            }
            message = {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [
                    {"type": "text", "text": FIRST},
                    {"type": "text", "text": CITED, "citations": [citation]},
                ],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            return json.dumps(message).encode()
        case "responses":
            note = {
                "type": "url_citation",
                "start_index": len(FIRST),
                "end_index": len(text),
                "url": URL,
                "title": TITLE,
            }
            part = {"type": "output_text", "text": text, "annotations": [note]}
            item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
            response = {"id": "resp_1", "model": "m", "status": "completed", "output": [item]}
            return json.dumps(response).encode()
        case _:
            first, last = len(FIRST.encode()), len(text.encode())
            segment = {"startIndex": first, "endIndex": last, "text": CITED}
            metadata = {
                "webSearchQueries": ["kyoto"],
                "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
                "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
            }
            parts = [{"text": FIRST[:14]}, {"text": FIRST[14:] + CITED}]
            chunks = [
                {"candidates": [{"content": {"role": "model", "parts": [one]}, "index": 0}]}
                for one in parts
            ]
            chunks[-1]["candidates"][0] |= {"finishReason": "STOP", "groundingMetadata": metadata}
            return sse(*chunks)


@pytest.mark.parametrize("target", ["anthropic", "responses", "chat", "gemini"])
@pytest.mark.parametrize("source", ["anthropic", "responses", "gemini"])
def test_citations_keep_their_place_among_characters_of_any_size(source: str, target: str) -> None:
    if source == target:
        return  # the vendor's own bytes are forwarded
    made = translate_body(
        cited_by(source),
        source=source,
        target=target,
        request=read(target, BODIES[target]),
        seed="s",
    )
    body = json.loads(made.body)
    match target:
        case "anthropic":
            texts = [one for one in body["content"] if one["type"] == "text"]
            shown = "".join(one["text"] for one in texts)
            places = [(one["text"], 0, len(one["text"])) for one in texts if one.get("citations")]
        case "responses":
            (item,) = [one for one in body["output"] if one["type"] == "message"]
            shown = "".join(one["text"] for one in item["content"])
            places = [
                (part["text"], note["start_index"], note["end_index"])
                for part in item["content"]
                for note in part["annotations"]
            ]
        case "chat":
            message = body["choices"][0]["message"]
            shown = message["content"]
            notes = [one["url_citation"] for one in message["annotations"]]
            places = [(shown, one["start_index"], one["end_index"]) for one in notes]
        case _:
            candidate = body["candidates"][0]
            texts = [one.get("text", "") for one in candidate["content"]["parts"]]
            shown = "".join(texts)
            supports = candidate["groundingMetadata"].get("groundingSupports", [])
            places = []
            for one in supports:
                segment = one["segment"]
                raw = texts[segment.get("partIndex", 0)].encode()
                cited = raw[segment.get("startIndex", 0) : segment["endIndex"]].decode()
                places.append((cited, 0, len(cited)))

    assert FIRST + CITED == shown
    for text, start, end in places:
        assert CITED in text[start:end] or (start, end) == (0, 0)
    assert places or (source, target) == ("anthropic", "gemini")  # a citation without a place


# --- the second turn ------------------------------------------------------------------------------------

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}


def reasoned() -> bytes:
    """Return a stream of two searches with reasoning before them."""
    data = stream("responses", "search_two_at_once")
    event = {"type": "response.output_item.done", "output_index": 9, "item": REASONING}
    at = data.index(b"event: response.output_item.added")
    return data[:at] + b"data: " + json.dumps(event).encode() + b"\n\n" + data[at:]


def second(message: dict[str, Any], **options: Any) -> Any:
    """Return the second request of a Messages client for an upstream."""
    content = [
        {key: value for key, value in block.items() if value is not None or key == "page_age"}
        for block in message["content"]
    ]
    said = [
        *MESSAGES["messages"],
        {"role": "assistant", "content": content},
        {"role": "user", "content": "And tomorrow?"},
    ]
    body = json.dumps(MESSAGES | {"messages": said}).encode()
    made = translate_request(body, source="anthropic", sealer=SEALER, **options)
    return json.loads(made.body), [loss.code for loss in made.losses]


def test_items_return_to_their_vendor_with_the_reasoning_before_them() -> None:
    message = answered("responses", reasoned(), "anthropic", "xai")
    body, losses = second(message, target="responses", profile="xai")

    items = [item for item in body["input"] if item["type"] != "message"]
    assert ["reasoning", "web_search_call", "web_search_call"] == [item["type"] for item in items]
    assert "gAAAA" == items[0]["encrypted_content"]
    assert ["ws_1", "ws_2"] == [item["id"] for item in items[1:]]
    assert "content_flattened" not in losses


def test_a_search_does_not_return_without_the_reasoning_before_it() -> None:
    message = answered("responses", reasoned(), "anthropic", "xai")
    message["content"] = [
        block for block in message["content"] if block["type"] != "redacted_thinking"
    ]
    body, losses = second(message, target="responses", profile="xai")

    assert "ws_1" not in json.dumps(body)
    assert "[web search: oslo weather]" in json.dumps(body)
    assert "content_flattened" in losses


@pytest.mark.parametrize(
    ("target", "profile"),
    [("anthropic", "anthropic"), ("responses", "openai"), ("chat", "openrouter")],
)
def test_another_vendor_gets_words_and_nothing_that_was_made_here(
    target: str, profile: str
) -> None:
    message = answered("responses", reasoned(), "anthropic", "xai")
    body, losses = second(message, target=target, profile=profile)

    sent = json.dumps(body)
    assert "dgm" not in sent
    assert "encrypted_index" not in sent
    assert "gAAAA" not in sent
    assert "[web search: oslo weather]" in sent
    assert "https://met.example/" in sent  # a source that was not cited
    assert "content_flattened" in losses


def test_a_forged_envelope_is_not_believed() -> None:
    message = answered("responses", reasoned(), "anthropic", "xai")
    for block in message["content"]:
        if block["type"] == "web_search_tool_result":
            first = block["content"][0]
            first["encrypted_content"] = first["encrypted_content"][:-4] + "AAAA"
    body, losses = second(message, target="responses", profile="xai")

    assert "ws_1" not in json.dumps(body)
    assert "opaque_invalid" in losses
    assert "content_flattened" in losses


def test_anthropics_own_search_returns_to_the_byte() -> None:
    genuine = json.loads(
        (ROOT / "anthropic/server_tool_web_search/events.json").read_text(encoding="utf-8")
    )
    blocks = [one["raw"] for one in genuine if one.get("vendor") == "anthropic" and "kind" in one]
    cited = next(one["raw"] for one in genuine if one["event"] == "citation")
    blocks.append({"type": "text", "text": "It is 4 degrees.", "citations": [cited]})
    body, _ = second({"content": blocks}, target="anthropic", profile="anthropic")

    assert blocks == body["messages"][1]["content"]


def test_anthropics_search_returns_through_a_responses_client() -> None:
    data = stream("anthropic", "server_tool_web_search")
    response = answered("anthropic", data, "responses", "anthropic")
    kinds = [item["type"] for item in response["output"]]
    assert ["message", "reasoning", "web_search_call", "message"] == kinds
    action = response["output"][2]["action"]
    assert ("weather Oslo", ["https://example.com/oslo"]) == (
        action["query"],
        [one["url"] for one in action["sources"]],
    )

    said = [*RESPONSES["input"], *response["output"], {"role": "user", "content": "And tomorrow?"}]
    body = json.dumps(RESPONSES | {"input": said}).encode()
    options: dict[str, Any] = {"source": "responses", "sealer": SEALER}
    home = translate_request(body, target="anthropic", profile="anthropic", **options)
    content = json.loads(home.body)["messages"][1]["content"]
    kinds = ["text", "server_tool_use", "web_search_tool_result", "text", "text"]
    assert kinds == [block["type"] for block in content]
    assert "EqgfCioIARgBIiQ3" == content[2]["content"][0]["encrypted_content"]
    assert "dgm" not in home.body.decode()

    other = translate_request(body, target="responses", profile="openai", **options)
    assert "dgm" not in other.body.decode()
    assert b"[web search: weather Oslo]" in other.body
