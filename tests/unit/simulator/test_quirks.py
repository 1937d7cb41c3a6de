"""Quirks: what each changes, in each dialect."""

import json
from itertools import pairwise
from typing import Any

import pytest

from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES
from dragoman.simulator.answer_writers.gemini import signature
from dragoman.simulator.model_names import family_of, parse_model
from dragoman.simulator.quirks import QUIRKS
from tests.support.simulator import CLOCK, IN_PIECES, WEATHER, answered, ask, question
from tests.support.tables import in_one_test

each_dialect = pytest.mark.parametrize("dialect", DIALECT_NAMES)
in_pieces = pytest.mark.parametrize("dialect", IN_PIECES)
TOOLS = [WEATHER, CLOCK]


def events(stream: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(line[6:])
        for line in stream.decode().splitlines()
        if line.startswith("data: {") and not line.startswith("data: {not")
    ]


def streamed(dialect: str, model: str, text: str = "Hello", tools: Any = TOOLS) -> bytes:
    return ask(dialect, question(dialect, model, text, tools=tools)).body


def rules(dialect: str, stream: bytes) -> set[str]:
    return {one.rule for one in check(dialect, stream).violations}


@pytest.mark.parametrize(
    ("base", "family"),
    [
        ("plain", ""),
        ("gpt-5", ""),
        ("anything", ""),
        ("kimi-k2", "kimi_k2"),
        ("kimi_k2", "kimi_k2"),
        ("deepseek-v31", "deepseek_v31"),
        ("deepseek-v3.1", "deepseek_v31"),
        ("glm-4.6", "glm45"),
        ("qwen25", "hermes"),
        ("MiniMax-M2", "minimax_m2"),
    ],
)
def test_base_names_a_family_by_key_alias_or_model(base: str, family: str) -> None:
    assert family == family_of(base)


def test_name_has_a_base_and_quirks() -> None:
    name = parse_model("sim/kimi-k2+chunk:byte+ids:a:b+crlf")

    assert ("kimi-k2", "kimi_k2") == (name.base, name.family)
    assert (("chunk", "byte"), ("ids", "a:b"), ("crlf", "")) == name.quirks
    assert name == parse_model("kimi-k2+chunk:byte+ids:a:b+crlf")


def test_every_quirk_has_a_name_of_its_own_and_one_line() -> None:
    for name, quirk in QUIRKS.items():
        assert name == quirk.name
        assert quirk.description
        assert "\n" not in quirk.description


@each_dialect
@in_one_test
@pytest.mark.parametrize("name", sorted(set(QUIRKS) - {"stall", "pace", "slow", "giant"}))
def test_every_quirk_answers_something(dialect: str, name: str) -> None:
    quirk = QUIRKS[name]
    value = str(max(2, quirk.bounds[0])) if quirk.bounds else "odd" if quirk.value else ""
    model = f"kimi-k2+{name}:{value}" if value else f"kimi-k2+{name}"

    for tools in (None, TOOLS):
        got = ask(dialect, question(dialect, model, tools=tools))
        assert got.body or name == "empty"


@each_dialect
def test_text_and_arguments_of_a_size(dialect: str) -> None:
    text = streamed(dialect, "plain+text:4+chunk:all", tools=None)
    arguments = streamed(dialect, "plain+args:4+whole-args")

    assert len(text) > 4096
    assert check(dialect, arguments).legal
    assert max(len(json.dumps(event)) for event in events(arguments)) > 4096


@each_dialect
def test_every_call_has_the_same_id(dialect: str) -> None:
    stream = streamed(dialect, "plain+ids:call_0+parallel:2")

    assert rules(dialect, stream) & {"call-id-unique", "call-id-once"}


@each_dialect
def test_no_usage(dialect: str) -> None:
    assert not any(
        event.get("usage")
        or event.get("message", {}).get("usage")
        or event.get("response", {}).get("usage")
        for event in events(streamed(dialect, "plain+no-usage"))
    )
    whole = ask(dialect, question(dialect, "plain+no-usage", stream=False)).json
    assert whole.get("usage") is None


@pytest.mark.parametrize(
    ("dialect", "path"),
    [("chat", "finish_reason"), ("anthropic", "stop_reason"), ("responses", "status")],
)
def test_reason_of_the_finish_is_reported_unchanged(dialect: str, path: str) -> None:
    last = streamed(dialect, "plain+finish:eos").decode()

    assert f'"{path}":"eos"' in last


def test_responses_translates_a_known_reason() -> None:
    body = ask("responses", question("responses", "plain+finish:length", stream=False)).json

    assert ("incomplete", {"reason": "max_output_tokens"}) == (
        body["status"],
        body["incomplete_details"],
    )


@in_pieces
def test_missing_ends(dialect: str) -> None:
    done = streamed(dialect, "plain+no-done")
    finish = streamed(dialect, "plain+no-finish")

    assert b"[DONE]" not in done
    assert b"message_stop" not in done
    assert (dialect == "responses") == check(dialect, done).legal
    assert "truncated" == check(dialect, finish).ended


@each_dialect
def test_line_ends_and_comments(dialect: str) -> None:
    stream = streamed(dialect, "plain+crlf+comments")

    assert b"\n" not in stream.replace(b"\r\n", b"")
    assert stream.count(b": keep-alive\r\n") > 5


def test_arguments_as_an_object() -> None:
    chat = events(streamed("chat", "plain+object-args"))
    messages = events(streamed("anthropic", "plain+object-args"))
    responses = events(streamed("responses", "plain+object-args"))

    call = next(one for one in chat if one["choices"][0]["delta"].get("tool_calls"))
    assert "Paris" == call["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]["city"]
    assert any(one.get("content_block", {}).get("input") for one in messages)
    assert "Paris" == responses[-1]["response"]["output"][-1]["arguments"]["city"]


@in_pieces
def test_events_of_parallel_calls_alternate(dialect: str) -> None:
    stream = streamed(dialect, "plain+interleave+parallel:2")

    legal = check(dialect, stream).legal
    where = [
        event.get("index", event.get("output_index", _chat_index(event)))
        for event in events(stream)
        if "delta" in json.dumps(event)
    ]
    changes = sum(one != other for one, other in pairwise(where))
    assert (dialect == "chat") == legal
    assert changes > 5


def _chat_index(event: dict[str, Any]) -> int:
    choices = event.get("choices") or [{"delta": {}}]
    calls = choices[0]["delta"].get("tool_calls") or [{"index": 0}]
    return int(calls[0]["index"])


@in_pieces
def test_every_index_is_zero(dialect: str) -> None:
    stream = streamed(dialect, "plain+index-zero+parallel:2")

    assert rules(dialect, stream)
    assert b'index":1' not in stream


def test_content_is_null() -> None:
    first = events(streamed("chat", "plain+null-content"))[0]
    body = ask("chat", question("chat", "plain+null-content", "sim: think x", stream=False)).json

    assert first["choices"][0]["delta"]["content"] is None
    assert body["choices"][0]["message"]["content"] is None


@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
def test_no_event_lines(dialect: str) -> None:
    assert b"event:" not in streamed(dialect, "plain+no-event-lines")


@each_dialect
def test_garbage_is_one_event_and_the_rest_is_whole(dialect: str) -> None:
    stream = streamed(dialect, "plain+garbage")

    assert {"json"} == rules(dialect, stream)
    assert check(dialect, stream.replace(b"data: {not json\n\n", b"")).legal


@each_dialect
def test_giant_event_has_its_size(dialect: str) -> None:
    stream = streamed(dialect, "plain+giant:2")

    assert max(map(len, stream.split(b"\n"))) > 2 * 1024 * 1024


@in_pieces
def test_arguments_that_are_not_json(dialect: str) -> None:
    structural = streamed(dialect, "plain+bad-json-args")
    native = streamed(dialect, "kimi-k2+bad-json-args+chunk:all")

    assert rules(dialect, structural) & {"partial-json-prefix", "arguments-whole"}
    assert b"oops}<|tool_call_end|>" in native


@each_dialect
@pytest.mark.parametrize("model", ["plain", "kimi-k2", "kimi-k2+leak-reasoning", "qwen3-coder"])
def test_answer_ends_inside_a_call(dialect: str, model: str) -> None:
    cut = streamed(dialect, f"{model}+half-call+chunk:all")
    limited = streamed(dialect, f"{model}+length+chunk:all")

    assert "truncated" == check(dialect, cut).ended
    assert check(dialect, limited).legal
    for stream in (cut, limited):
        assert b"get_weather" in stream
        assert b"tool_call_end" not in stream
        assert b"</function>" not in stream


@each_dialect
def test_stream_ends_in_the_named_part_of_the_answer(dialect: str) -> None:
    parts = (b"Let me", b"I will", b"get_weather")
    ends = {
        place: streamed(dialect, f"plain+think+chunk:all+ends-in:{place}")
        for place in ("first", "text", "call")
    }

    assert {"truncated"} == {check(dialect, one).ended for one in ends.values()}
    # A Responses stream repeats the tools of the request, and so the name of a tool is in all of them.
    seen = {place: [one.count(part) > 0 for part in parts[:2]] for place, one in ends.items()}
    assert {"first": [True, False], "text": [True, True], "call": [True, True]} == seen
    calls = [
        b"arguments" in one or b"partial_json" in one or b"functionCall" in one
        for one in ends.values()
    ]
    assert [False, False, True] == calls


@each_dialect
@pytest.mark.parametrize("place", ["first", "text", "call"])
def test_error_takes_the_place_of_the_end(dialect: str, place: str) -> None:
    stream = streamed(dialect, f"plain+think+ends-in:{place}+error-end:529")

    assert "failure" == check(dialect, stream).ended


@in_pieces
def test_arguments_may_be_cut_without_a_word_of_it(dialect: str) -> None:
    structural = streamed(dialect, "plain+cut-args")
    native = streamed(dialect, "kimi-k2+cut-args+chunk:all")

    assert rules(dialect, structural) & {"partial-json-prefix", "arguments-whole"}
    assert not any(one in structural for one in (b'"length"', b'max_tokens"}', b'"incomplete"'))
    assert b"get_weather" in native
    assert b"tool_call_end" not in native


@in_pieces
def test_arguments_may_be_a_string_that_holds_json(dialect: str) -> None:
    whole = streamed(dialect, "plain+quoted-args+chunk:all")
    native = streamed(dialect, "kimi-k2+quoted-args+chunk:all")

    quoted = json.dumps(json.dumps(json.dumps({"city": "example"}))[:8])[1:-1]
    assert quoted.encode() in whole
    assert quoted.encode() in native


def test_limit_inside_a_call_closes_what_messages_cannot_leave_open() -> None:
    body = question("anthropic", "plain+length", tools=[WEATHER], stream=False)

    answer = ask("anthropic", body).json

    assert "max_tokens" == answer["stop_reason"]
    assert isinstance(answer["content"][-1]["input"], dict)


@each_dialect
def test_filter_ends_the_answer(dialect: str) -> None:
    stream = streamed(dialect, "plain+refuse")

    reason = {"anthropic": b'"refusal"', "gemini": b'"SAFETY"'}
    assert reason.get(dialect, b'"content_filter"') in stream
    assert b"get_weather" not in stream or dialect == "responses"


def test_calls_stand_in_both_fields_of_reasoning() -> None:
    stream = streamed("chat", "kimi-k2+leak-both+chunk:all")

    delta = next(
        one["choices"][0]["delta"]
        for one in events(stream)
        if "reasoning" in one["choices"][0]["delta"]
    )
    assert delta["reasoning"] == delta["reasoning_content"]
    assert "<|tool_call_begin|>" in delta["reasoning"]


def test_only_a_grammar_can_leak() -> None:
    got = ask("chat", question("chat", "plain+leak-reasoning"))

    assert 400 == got.status


def test_thoughts_between_tags() -> None:
    body = ask("chat", question("chat", "plain+think-tags", "sim: say hi", stream=False)).json

    assert body["choices"][0]["message"]["content"].endswith("</think>\n\nhi")


PLACES = {
    "chat": "reasoning_content",
    "anthropic": "thinking",
    "responses": "reasoning",
    "gemini": "thought_signature",  # Google's errors have the names of its protocol buffers
}


@each_dialect
def test_a_turn_with_calls_must_bring_its_reasoning_back(dialect: str) -> None:
    """The error names the field, block or item where the answer's own reasoning was."""
    body = question(dialect, "plain+needs-reasoning", tools=[WEATHER])

    own = "thoughtSignature" if dialect == "gemini" else PLACES[dialect]
    assert own.encode() in ask(dialect, body).body
    refused = ask(dialect, answered(dialect, body))
    assert 400 == refused.status
    assert f"`{PLACES[dialect]}` is missing" in refused.body.decode()
    assert 200 == ask(dialect, reasoned(dialect, answered(dialect, body))).status


def test_a_signature_counts_in_either_alphabet_and_on_a_call_without_an_id() -> None:
    body = question("gemini", "plain+needs-reasoning", tools=[WEATHER])
    signed = reasoned("gemini", answered("gemini", body))
    (part,) = signed["contents"][1]["parts"]
    own, call = part["thoughtSignature"], part["functionCall"]

    def status(signature: str, **changes: Any) -> int:
        changed = {"thoughtSignature": signature, "functionCall": call | changes}
        first, _, result = signed["contents"]
        turn = {"role": "model", "parts": [changed]}
        return ask("gemini", signed | {"contents": [first, turn, result]}).status

    assert 200 == status(own.replace("+", "-").replace("/", "_"))
    assert 200 == status(own, id=None)
    assert 400 == status(own, id="call_2")
    assert 400 == status("c2tpcA==", id=None)


def test_reasoning_in_another_field_does_not_count() -> None:
    body = question("chat", "plain+needs-reasoning+reasoning-field:reasoning", tools=[WEATHER])

    refused = ask("chat", reasoned("chat", answered("chat", body)))

    assert 400 == refused.status
    assert "`reasoning` is missing" in refused.body.decode()


def reasoned(dialect: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the same request, with reasoning before its call."""
    if dialect == "responses":
        thought = {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "It rains."}],
        }
        return body | {"input": [body["input"][0], thought, *body["input"][1:]]}
    if dialect == "gemini":
        first, call, result = body["contents"]
        signed = call["parts"][0] | {"thoughtSignature": signature("call_1", "get_weather")}
        return body | {"contents": [first, call | {"parts": [signed]}, result]}
    first, call, result = body["messages"]
    if dialect == "chat":
        call |= {"reasoning_content": "It rains."}
    else:
        thought = {"type": "thinking", "thinking": "It rains.", "signature": "c2ln"}
        call |= {"content": [thought, *call["content"]]}
    return body | {"messages": [first, call, result]}
