"""How many tokens a request has: asked, or estimated and learned."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import dialect
from dragoman.gateway import token_counting as counting
from dragoman.gateway.config.settings import Upstream
from dragoman.gateway.token_counting import Calibration, read_count, read_prompt
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.translate_requests import translate_request
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.request import Request, Role, TextPart, Tool, Turn


def request(text: str = "word " * 400, **fields: Any) -> Request:
    turns = (Turn(Role.USER, (TextPart(text),)),)
    return Request(dialect="anthropic", model="m", turns=turns, **fields)


def estimate(calibration: Calibration, one: Request) -> int:
    return calibration.corrected("m", estimate_tokens(one))


def test_h3_the_first_estimate_is_a_little_high() -> None:
    one = request()

    assert math.ceil(estimate_tokens(one) * 1.1) == estimate(Calibration(), one)


def test_h3_system_and_tools_count() -> None:
    calibration = Calibration()
    bare = estimate(calibration, request())

    with_system = estimate(calibration, request(system=(TextPart("x" * 4000),)))
    schema = msgspec.Raw(b'{"type":"object"}' * 100)
    with_tools = estimate(calibration, request(tools=(Tool(name="t", schema=schema),)))

    assert with_system > bare + 900
    assert with_tools > bare + 400


def test_h3_no_request_has_no_tokens() -> None:
    assert estimate(Calibration(), Request(dialect="chat", model="m")) >= 1


def test_h3_an_estimate_comes_nearer_with_every_report() -> None:
    calibration, one = Calibration(), request()
    true = round(estimate_tokens(one) * 1.7)
    errors = []
    for _ in range(60):
        errors.append(abs(true - estimate(calibration, one)))
        calibration.learn("m", estimate_tokens(one), true)

    assert errors == sorted(errors, reverse=True)
    assert errors[-1] <= 0.01 * true


def test_h3_a_report_moves_the_ratio_by_a_tenth() -> None:
    calibration, one = Calibration(), request()

    calibration.learn("m", estimate_tokens(one), estimate_tokens(one) * 2)

    assert math.isclose(1.1 + 0.1 * (2 - 1.1), calibration.ratio("m"))
    assert 1.1 == calibration.ratio("other")


@given(st.lists(st.integers(-10, 10**12), max_size=80))
def test_h3_no_report_drives_the_ratio_out_of_bounds(reports: list[int]) -> None:
    calibration, one = Calibration(), request()

    for report in reports:
        calibration.learn("m", estimate_tokens(one), report)

    assert 0.5 <= calibration.ratio("m") <= 3


def test_h3_a_report_of_nothing_teaches_nothing() -> None:
    calibration = Calibration()

    calibration.learn("m", 100, 0)

    assert 1.1 == calibration.ratio("m")


def test_h3_the_least_recent_model_is_forgotten() -> None:
    calibration, one = Calibration(max_models=2), request()
    for model in ("a", "b", "a", "c"):
        calibration.learn(model, estimate_tokens(one), estimate_tokens(one) * 3)

    assert calibration.ratio("a") > calibration.ratio("c") > 1.1
    assert 1.1 == calibration.ratio("b")


def test_h3_clients_read_the_count_of_their_dialect() -> None:
    assert b'{"input_tokens":7}' == dialect("anthropic").count_tokens.encode(7)
    assert b'{"object":"response.input_tokens","input_tokens":7}' == dialect(
        "responses"
    ).count_tokens.encode(7)


@pytest.mark.parametrize(
    ("setting", "spoken", "profile", "way"),
    [
        ("auto", "anthropic", "anthropic", "upstream"),
        ("auto", "responses", "openai", "upstream"),
        ("auto", "chat", "vllm", "tokenize"),
        ("auto", "chat", "llama-server", "tokenize"),
        ("auto", "chat", "openrouter", "estimate"),
        ("upstream", "anthropic", "generic", "upstream"),
        ("upstream", "chat", "generic", "estimate"),
        ("tokenize", "chat", "generic", "tokenize"),
        ("estimate", "anthropic", "anthropic", "estimate"),
        ("off", "anthropic", "anthropic", "off"),
    ],
)
def test_h3_the_way_follows_from_settings_and_kind(
    setting: Any, spoken: Any, profile: str, way: str
) -> None:
    upstream = Upstream(base_url="http://h/v1", dialect=spoken, count_tokens=setting)

    assert way == counting.way_of(upstream, profile)


MESSAGES = (
    b'{"model":"claude","max_tokens":5,"stream":true,"temperature":0.5,"metadata":{"user_id":"u"},'
    b'"system":[{"type":"text","text":"Be kind."}],"messages":[{"role":"user","content":"Hi"}],'
    b'"tools":[{"name":"t","input_schema":{"type":"object","z":1.50,"a":1}}],'
    b'"tool_choice":{"type":"auto"},"thinking":{"type":"disabled"}}'
)


GENERIC = profile("generic")


def test_h3_messages_are_counted_without_what_the_endpoint_refuses() -> None:
    question = counting.count_question(dialect("anthropic").count_tokens, MESSAGES, GENERIC)

    assert question is not None
    assert "/messages/count_tokens" == question.path
    assert ["model", "system", "messages", "tools", "tool_choice", "thinking"] == list(
        msgspec.json.decode(question.body)
    )
    assert b'{"type":"object","z":1.50,"a":1}' in question.body


def test_half_a_character_is_no_obstacle_to_counting() -> None:
    body = MESSAGES.replace(b'"model"', rb'"\ud83d":1,"model"', 1)

    question = counting.count_question(dialect("anthropic").count_tokens, body, GENERIC)
    assert question is not None
    assert b"ud83d" not in question.body


def test_h3_responses_are_counted_without_what_the_endpoint_refuses() -> None:
    body = msgspec.json.encode(
        {
            "model": "m",
            "input": "Hi",
            "instructions": "Be kind.",
            "stream": True,
            "store": False,
            "max_output_tokens": 5,
            "include": [],
            "tools": [],
        }
    )

    question = counting.count_question(dialect("responses").count_tokens, body, GENERIC)

    assert question is not None
    assert "/responses/input_tokens" == question.path
    assert ["model", "input", "instructions", "tools"] == list(msgspec.json.decode(question.body))


def test_h3_chat_has_no_question_of_its_own() -> None:
    assert dialect("chat").count_tokens is None


def test_h3_vllm_is_asked_with_its_template() -> None:
    body = translate_request(MESSAGES, source="anthropic", target="chat", profile="vllm").body

    question = counting.tokenize_question(body)

    asked = msgspec.json.decode(question.body)
    assert "/tokenize" == question.path
    assert {"model", "messages", "tools", "add_generation_prompt"} <= set(asked)
    assert set(asked) <= {
        "model",
        "messages",
        "tools",
        "add_generation_prompt",
        "chat_template_kwargs",
    }
    assert asked["add_generation_prompt"] is True


def test_h3_llama_server_is_asked_in_two_steps() -> None:
    body = translate_request(MESSAGES, source="anthropic", target="chat").body

    first = counting.template_question(body)
    prompt = read_prompt(b'{"prompt":"<|user|>Hi"}')
    assert prompt is not None
    second = counting.prompt_question(prompt)

    assert ("/apply-template", "/tokenize") == (first.path, second.path)
    assert {"model", "messages", "tools"} == set(msgspec.json.decode(first.body))
    assert {
        "content": "<|user|>Hi",
        "add_special": True,
        "parse_special": True,
    } == msgspec.json.decode(second.body)


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b'{"input_tokens":12}', 12),
        (b'{"object":"response.input_tokens","input_tokens":12}', 12),
        (b'{"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null}', 3),
        (b'{"tokens":[1,2,3]}', 3),
        (b'{"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[195]}]}', 2),
        (b'{"tokens":[]}', None),
        (b'{"input_tokens":0}', None),
        (b'{"count":-5}', None),
        (b'{"count":"3"}', None),
        (b'{"count":true}', None),
        (b'{"input_tokens":1.5}', None),
        (b'{"input_tokens":null}', None),
        (b'{"error":{"message":"no"}}', None),
        (b"[]", None),
        (b"<html>", None),
        (b"", None),
        (b"\xff", None),
        (b'{"x":' + b"[" * 5000, None),
    ],
)
def test_h3_an_answer_counts_only_if_it_has_a_count(answer: bytes, count: int | None) -> None:
    field = "input_tokens" if b"input_tokens" in answer else "count"

    assert count == read_count(answer, field)


@pytest.mark.parametrize("answer", [b'{"prompt":""}', b'{"prompt":5}', b"{}", b"no", b"\xff"])
def test_h3_an_answer_without_a_prompt_has_none(answer: bytes) -> None:
    assert read_prompt(answer) is None


@given(st.binary(max_size=100))
def test_h3_no_answer_breaks_the_reader(answer: bytes) -> None:
    read_count(answer, "count")
    read_prompt(answer)


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://host/serving/v1", "https://host/serving"),
        ("https://host/v1beta", "https://host/v1beta"),
    ],
)
def test_h3_a_tokenizer_is_beside_the_api(base_url: str, root: str) -> None:
    assert root == counting.server_root(base_url)


def test_h3_a_count_request_without_a_limit_can_be_read() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'

    read = dialect("anthropic").decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    assert estimate(Calibration(), read) >= 1


def test_processes_learn_the_estimate_from_each_other() -> None:
    one, other = Calibration(), Calibration()
    for _ in range(20):
        one.learn("kimi", 100, 200)
    assert 111 == other.corrected("kimi", 100)  # which it asks for from then on

    news = one.news()
    (name,) = other.wanted()
    other.adopt(name, news[name])

    assert one.corrected("kimi", 100) == other.corrected("kimi", 100)
    assert {} == one.news() == other.news()


def test_what_another_process_cannot_have_learned_is_ignored() -> None:
    one = Calibration()
    before = one.corrected("kimi", 100)
    (name,) = one.wanted()
    for value in (b"1000000", b"nan", b"-1", b"\xff", b""):
        one.adopt(name, value)
    one.adopt("ratio:unknown", b"2.0")

    assert before == one.corrected("kimi", 100)
