"""Requests of clients, and requests for upstreams: all that is not content, tools or thinking."""

from typing import Any

import msgspec
import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.errors import MalformedError, TooLargeError, UntranslatableError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.request import (
    CacheHint,
    OutputFormat,
    ReasoningSettings,
    Role,
    Sampling,
    TextPart,
    Tool,
    Turn,
)
from tests.support.messages import USER, ask, codes, decode, encode, encoded

GENERIC = Profile(name="clone")


# --- from clients -----------------------------------------------------------------------------------


def test_fields_of_a_request_are_read() -> None:
    request = decode(
        stream=True,
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END"],
        metadata={"user_id": "u"},
        cache_control={"type": "ephemeral"},
    )

    assert ("anthropic", "m", True, 1000) == (
        request.dialect,
        request.model,
        request.stream,
        request.max_output,
    )
    assert Sampling(temperature=0.5, top_p=0.9, top_k=3) == request.sampling
    assert (("END",), "u", CacheHint()) == (request.stop, request.user_id, request.cache_all)


def test_h1_billing_line_is_no_part_of_the_prompt() -> None:
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1f0;"}

    request = decode(system=[billing, {"type": "text", "text": "Be kind."}])

    assert (TextPart("Be kind."),) == request.system


@pytest.mark.parametrize("system", ["Be kind.", [{"type": "text", "text": "Be kind."}]])
def test_system_is_a_string_or_blocks(system: Any) -> None:
    assert (TextPart("Be kind."),) == decode(system=system).system


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"service_tier": "auto"}, "auto"),
        ({"service_tier": "standard_only"}, "default"),
        ({"speed": "fast"}, "fast"),
        ({"speed": "standard"}, ""),
    ],
)
def test_tier_is_read(fields: dict[str, str], tier: str) -> None:
    assert tier == decode(**fields).tier


@pytest.mark.parametrize("field", ["output_format", "output_config"])
def test_format_is_read_from_both_places(field: str) -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    request = decode(**{field: wanted if field == "output_format" else {"format": wanted}})

    assert (
        OutputFormat(kind="json_schema", schema=msgspec.Raw(b'{"type":"object"}')) == request.format
    )


def test_fields_of_the_dialect_alone_are_kept_as_they_are() -> None:
    request = decode(context_management={"edits": []}, container=None, betas=["a"])

    assert {"context_management": b'{"edits":[]}', "betas": b'["a"]'} == {
        name: bytes(value) for name, value in request.extensions.items()
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"model":"m"}', "$"),
        (b'{"model":5,"messages":[]}', "$.model"),
        (b'{"model":"m","messages":{}}', "$.messages"),
        (b'{"model":"m","messages":[{"role":"tool","content":""}]}', "$.messages[0].role"),
        (b'{"model":"m","messages":[{"role":"user","content":5}]}', "$.messages[0].content"),
        (b'{"model":"m","messages":[],"max_tokens":-1}', "$.max_tokens"),
        (b'{"model":"m","messages":[],"thinking":{"type":"deep"}}', "$.thinking.type"),
        (b'{"model":"m","messages":[],"system":[{"type":"image"}]}', "$.system[0].type"),
        (
            b'{"model":"m","messages":[{"role":"user","content":[{"type":"x"}]}],"stream":"y"}',
            "$.stream",
        ),
        (b"[]", "$"),
        (b"{", ""),
    ],
)
def test_p_7_wrong_request_is_refused_with_its_path(body: bytes, path: str) -> None:
    with pytest.raises(MalformedError) as raised:
        DIALECT.decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    assert path == raised.value.path


def test_too_large_a_request_is_refused() -> None:
    with pytest.raises(TooLargeError):
        DIALECT.decode_request(b"{}", sealer=None, limits=Limits(max_request_bytes=1))


def test_half_of_a_surrogate_pair_costs_no_request() -> None:
    body = (
        rb'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a\ud83d"}],'
        rb'"tools":[{"name":"x","input_schema":{"type":"object"}}]}'
    )
    request = DIALECT.decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    assert "a\ufffd" == encode(request)["messages"][0]["content"][0]["text"]


# --- for upstreams ----------------------------------------------------------------------------------


def test_p_6_a_plain_request_is_written_in_full() -> None:
    request = ask(
        system=(TextPart("Be kind."),),
        tools=(Tool(name="ls", description="List.", schema=msgspec.Raw(b'{"type":"object"}')),),
        stream=True,
        user_id="u",
        stop=("END",),
    )

    assert {
        "model": "claude",
        "max_tokens": 1000,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
        "tools": [{"name": "ls", "description": "List.", "input_schema": {"type": "object"}}],
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
    } == encode(request, model="claude")


def test_h2_s_4_the_same_request_gives_the_same_bytes() -> None:
    request = ask(
        system=(TextPart("a"),),
        tools=(Tool(name="b", schema=msgspec.Raw(b'{"type":"object", "z":1, "a":2}')),),
        user_id="u",
    )

    assert encoded(request).body == encoded(request).body
    assert b'{"type":"object", "z":1, "a":2}' in encoded(request).body


def test_f11_missing_output_limit_gets_a_default_within_the_models() -> None:
    request = ask(max_output=None)

    assert 32_000 == encode(request)["max_tokens"]
    assert 4096 == encode(request, Profile(name="p", max_output_tokens=4096))["max_tokens"]
    assert ["max_tokens_defaulted"] == codes(request)


def test_f11_too_high_an_output_limit_is_clamped() -> None:
    small = Profile(name="p", max_output_tokens=500)

    assert 500 == encode(ask(), small)["max_tokens"]
    assert ["value_clamped"] == codes(ask(), small)


def test_zero_output_tokens_warm_the_cache() -> None:
    assert 0 == encode(decode(max_tokens=0))["max_tokens"]


def test_temperature_is_clamped_and_unknown_sampling_reported() -> None:
    request = ask(
        sampling=Sampling(
            temperature=1.5,
            seed=1,
            frequency_penalty=1,
            presence_penalty=1,
            logit_bias=msgspec.Raw(b"{}"),
        )
    )

    body = encode(request, GENERIC)
    assert 1.0 == body["temperature"]
    assert ["value_clamped"] + ["sampling_dropped"] * 4 == codes(request, GENERIC)


def test_f11_sampling_is_dropped_where_the_model_refuses_it() -> None:
    request = ask(sampling=Sampling(temperature=0.0, top_p=0.5, top_k=1))

    assert {"temperature", "top_p", "top_k"} & encode(request).keys() == set()
    assert ["sampling_dropped"] * 3 == codes(request)
    assert (0.0, 0.5, 1) == tuple(
        encode(request, GENERIC)[name] for name in ("temperature", "top_p", "top_k")
    )


def test_sampling_gives_way_to_thinking() -> None:
    request = decode(
        thinking={"type": "enabled", "budget_tokens": 2000},
        max_tokens=9000,
        temperature=0.3,
        top_p=0.5,
        top_k=4,
    )
    gentle = decode(
        thinking={"type": "enabled", "budget_tokens": 2000},
        max_tokens=9000,
        temperature=1,
        top_p=0.97,
    )

    assert ["sampling_dropped"] * 3 == codes(request, "anthropic-budget")
    assert (1, 0.97) == (
        encode(gentle, "anthropic-budget")["temperature"],
        encode(gentle, "anthropic-budget")["top_p"],
    )


def test_blank_stop_sequences_are_dropped() -> None:
    request = ask(stop=("END", "\n"))

    assert ["END"] == encode(request)["stop_sequences"]
    assert ["field_dropped"] == codes(request)


def test_several_answers_are_refused() -> None:
    with pytest.raises(UntranslatableError) as raised:
        encode(ask(count=2))

    assert "$.n" == raised.value.path


def test_unknown_conversation_is_refused() -> None:
    with pytest.raises(UntranslatableError) as raised:
        encode(ask(dialect="responses", previous_id="resp_1"))

    assert ("$.previous_response_id", "previous_response_not_found") == (
        raised.value.path,
        raised.value.code,
    )


def test_settings_without_a_counterpart_are_reported() -> None:
    request = ask(
        logprobs=True,
        verbosity="low",
        cache_key="k",
        tier="flex",
        extensions={"prediction": msgspec.Raw(b'{"a":1}')},
    )

    assert [
        ("logprobs_dropped", "$.logprobs"),
        ("field_dropped", "$.verbosity"),
        ("field_dropped", "$.prompt_cache_key"),
        ("field_dropped", "$.service_tier"),
        ("field_dropped", "$.prediction"),
    ] == [(loss.code, loss.path) for loss in encoded(request).losses]


def test_fields_of_others_that_ask_for_nothing_or_were_understood_are_not_reported() -> None:
    request = ask(
        reasoning=ReasoningSettings(mode="off"),
        extensions={
            "stream_extra": msgspec.Raw(b"null"),
            "thinking": msgspec.Raw(b'{"type":"disabled"}'),
        },
    )

    assert [] == codes(request)


@pytest.mark.parametrize(
    ("name", "value"), [("audio", b'{"voice":"x"}'), ("modalities", b'["text","audio"]')]
)
def test_audio_answers_are_refused(name: str, value: bytes) -> None:
    with pytest.raises(UntranslatableError) as raised:
        encode(ask(extensions={name: msgspec.Raw(value)}))

    assert f"$.{name}" == raised.value.path


@pytest.mark.parametrize(
    ("tier", "expected"), [("auto", "auto"), ("default", "standard_only"), ("", None)]
)
def test_tier_is_written(tier: str, expected: str | None) -> None:
    assert expected == encode(ask(tier=tier)).get("service_tier")


def test_speed_returns_to_the_vendor() -> None:
    assert "fast" == encode(decode(speed="fast"))["speed"]


def test_own_fields_of_the_dialect_return() -> None:
    assert {"edits": []} == encode(decode(context_management={"edits": []}))["context_management"]


def test_fields_of_the_profile_are_added_and_give_way_to_the_clients() -> None:
    profile = Profile(name="p", extra_fields=(("stream", "7"), ("flag", "true")))

    body = encode(ask(stream=True), profile)

    assert (True, True) == (body["stream"], body["flag"])


def test_json_object_is_asked_for_in_words() -> None:
    request = ask(format=OutputFormat(kind="json_object"), system=(TextPart("a"),))

    assert ["a", "Respond with a single JSON object and nothing else."] == [
        block["text"] for block in encode(request)["system"]
    ]
    assert ["json_object_emulated"] == codes(request)


def test_schema_is_native_or_an_instruction() -> None:
    request = ask(format=OutputFormat(kind="json_schema", schema=msgspec.Raw(b'{"type":"object"}')))

    native = encode(request)
    older = encode(request, "anthropic-budget")
    assert {"format": {"type": "json_schema", "schema": {"type": "object"}}} == native[
        "output_config"
    ]
    assert '{"type":"object"}' in older["system"][0]["text"]
    assert ["schema_not_enforced"] == codes(request, "anthropic-budget")


def test_cache_of_the_whole_prefix_is_marked() -> None:
    assert {"type": "ephemeral", "ttl": "1h"} == encode(ask(cache_all=CacheHint(long=True)))[
        "cache_control"
    ]


def test_instructions_before_all_turns_join_the_system_prompt() -> None:
    request = decode({"role": "system", "content": "Be brief."}, USER, system="Be kind.")

    body = encode(request)

    assert ["Be kind.", "Be brief."] == [block["text"] for block in body["system"]]
    assert ["user"] == [message["role"] for message in body["messages"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"verbosity": "low"},
        {"sampling": Sampling(seed=1)},
        {"tools": (Tool(name="s", server=True, kind="file_search"),)},
    ],
    ids=["field", "sampling", "server tool"],
)
def test_strict_target_refuses_what_would_be_lost(fields: dict[str, Any]) -> None:
    encode(ask(**fields))
    with pytest.raises(UntranslatableError):
        encode(ask(**fields), strict=True)


def test_strict_target_takes_what_loses_no_meaning() -> None:
    request = ask(
        Turn(Role.USER, (TextPart("a"),)), max_output=None, format=OutputFormat(kind="json_object")
    )

    assert encode(request, strict=True)["max_tokens"]
