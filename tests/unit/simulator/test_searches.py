"""Web searches in the shape of each vendor: asked for in its own words, shown where it shows them."""

import json
from typing import Any

import pytest

from dragoman.answer_reader import read_body
from dragoman.checker.checker import check
from dragoman.simulator.searches import HOSTS
from tests.support.sdks import accumulate, parse_body
from tests.support.simulator import ask, question

ZAI = {"type": "web_search", "web_search": {"enable": True, "search_engine": "search_pro"}}
COMPOUND = {"tools": {"enabled_tools": ["web_search"]}}
# What asks each host for a search.
WORDS: dict[str, dict[str, Any]] = {
    "options": {"web_search_options": {}},
    "openrouter": {"tools": [{"type": "openrouter:web_search"}]},
    "zai": {"tools": [ZAI]},
    "qwen": {"enable_search": True, "search_options": {"forced_search": True}},
    "xai": {"search_parameters": {"mode": "on"}},
    "perplexity": {},
    "compound": {"compound_custom": COMPOUND},
    "browser": {"tools": [{"type": "browser_search"}], "tool_choice": "required"},
}
SOURCE = "https://source1.example/oslo-weather"


def asked(host: str, words: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    return question("chat", f"sim/plain+search:{host}", "Oslo weather?", stream=stream) | words


def read(data: bytes) -> tuple[list[str], list[str], int]:
    """Return the queries, the addresses and the number of searches that our reader finds."""
    answer = read_body(data, source="chat")
    servers = [block.server for block in answer.blocks if block.server is not None]
    queries = [one for server in servers for one in getattr(server, "queries", ())]
    urls = [one.url for server in servers for one in getattr(server, "sources", ())]
    return queries, urls, answer.usage.searches if answer.usage else 0


def chunks(stream: bytes) -> list[dict[str, Any]]:
    lines = stream.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("host", WORDS)
def test_stream_of_each_host_is_legal_and_the_sdk_reads_the_same_text_from_the_body(
    host: str,
) -> None:
    stream = ask("chat", asked(host, WORDS[host], stream=True)).body
    body = ask("chat", asked(host, WORDS[host], stream=False)).body

    # Perplexity has another name for its last chunk than OpenAI.
    known = {"$.object"} if host == "perplexity" else set()
    assert known == {one.path for one in check("chat", stream).violations}
    texts = [
        made["choices"][0]["message"]["content"]
        for made in (accumulate("chat", stream), parse_body("chat", body))
    ]
    assert texts[0] == texts[1]
    assert "You said: Oslo weather?" in texts[0]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("host", WORDS)
def test_sources_of_each_host_are_read_where_it_shows_them(host: str, stream: bool) -> None:
    data = ask("chat", asked(host, WORDS[host], stream=stream)).body
    queries, urls, count = read(data)

    if host == "qwen":  # its Chat API shows nothing
        assert ([], [], 0) == (queries, urls, count)
        return
    assert SOURCE == urls[0]
    assert count == 1
    groq = host in ("compound", "browser")  # the only ones that show what was searched for
    assert (["Oslo weather?"] if groq else []) == queries


@pytest.mark.parametrize("host", WORDS)
@pytest.mark.parametrize("words", [one for one in WORDS if one != "perplexity"])
def test_a_host_takes_its_own_words_alone(host: str, words: str) -> None:
    data = ask("chat", asked(host, WORDS[words], stream=False)).body

    shows = host == "perplexity" or (host == words != "qwen")
    assert shows == (SOURCE.encode() in data)


@pytest.mark.parametrize("words", WORDS)
def test_without_the_quirk_the_words_of_the_request_choose_the_host(words: str) -> None:
    plain = question("chat", "sim/plain", "Oslo weather?", stream=False) | WORDS[words]
    own = ask("chat", asked(words, WORDS[words], stream=False)).json
    made = ask("chat", plain).json

    if words == "perplexity":  # nothing asks for its search
        assert SOURCE not in json.dumps(made)
        return
    assert own["choices"][0]["message"] == made["choices"][0]["message"]
    assert own.keys() == made.keys()


@pytest.mark.parametrize("dialect", ["anthropic", "responses", "chat", "gemini"])
def test_a_host_without_a_search_answers_without_one(dialect: str) -> None:
    tools = {
        "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "responses": {"tools": [{"type": "web_search"}]},
        "chat": WORDS["openrouter"],
        "gemini": {"tools": [{"googleSearch": {}}]},
    }[dialect]
    found, without = (
        ask(dialect, question(dialect, model, "Oslo weather?", stream=False) | tools).body
        for model in ("sim/plain", "sim/plain+search:none")
    )

    assert SOURCE.encode() in found
    assert b"source1" not in without
    assert b"You said: Oslo weather?" in without


def test_perplexity_repeats_its_results_in_every_chunk_and_zai_and_xai_list_them_last() -> None:
    def having(host: str, field: str) -> list[bool]:
        stream = ask("chat", asked(host, WORDS[host], stream=True)).body
        return [field in one for one in chunks(stream) if one["choices"]]

    assert all(having("perplexity", "search_results"))
    assert [True] == [one for one in having("zai", "web_search") if one]
    assert having("zai", "web_search")[-1]
    assert having("xai", "citations")[-1]


def test_groq_shows_a_tool_first_without_and_then_with_its_results() -> None:
    stream = ask("chat", asked("compound", WORDS["compound"], stream=True)).body
    deltas = [one["choices"][0]["delta"] for one in chunks(stream) if one["choices"]]
    first, second = (one["executed_tools"][0] for one in deltas if "executed_tools" in one)

    assert ("search", '{"query":"Oslo weather?"}') == (first["type"], first["arguments"])
    assert "search_results" not in first
    assert SOURCE == second["search_results"]["results"][0]["url"]
    assert first["index"] == second["index"]


def test_xais_searches_of_responses_are_open_at_the_same_time() -> None:
    text = "sim: search oslo\nsim: search bergen\nsim: say It snows."
    include = {"include": ["web_search_call.action.sources"], "tools": [{"type": "web_search"}]}
    stream = ask("responses", question("responses", "sim/plain+search:xai", text) | include).body
    events = chunks(stream)
    steps = [
        (one["type"].rpartition(".")[2], one["output_index"])
        for one in events
        if one["type"].startswith("response.output_item")
    ]

    assert [("added", 0), ("added", 1), ("done", 0), ("done", 1)] == steps[:4]
    # OpenAI closes an item before it opens the next.
    assert "one-item-open" in {one.rule for one in check("responses", stream).violations}
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    final = events[-1]["response"]
    assert 2 == len(done[0]["action"]["sources"])
    assert 3 == len(final["output"][0]["action"]["sources"])  # one more than the item had
    message = final["output"][-1]["content"][0]
    assert "It snows. [[1]](https://source1.example/oslo)" == message["text"]
    assert (0, 0) == tuple(message["annotations"][0][name] for name in ("start_index", "end_index"))
    assert {"web_search_calls": 2} == final["usage"]["server_side_tool_usage_details"]
    assert 4 == len(final["citations"])


def test_a_mark_is_no_part_of_json() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    body = asked("zai", WORDS["zai"], stream=False) | {"response_format": wanted}
    made = ask("chat", body).json

    assert ["city"] == list(json.loads(made["choices"][0]["message"]["content"]))


def test_every_host_is_tested() -> None:
    # tests of `paused_answers` play Moonshot
    assert {*WORDS, "kimi", "none"} == set(HOSTS)
