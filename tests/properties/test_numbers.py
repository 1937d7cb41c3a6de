"""Any number in any field of a request is translated or refused with its path, for every upstream."""

import json

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import MalformedError, TooLargeError, UntranslatableError
from dragoman.profiles.catalogue import PROFILES
from dragoman.translate_requests import translate_request
from tests.support.tables import check_all

NUMBERS = (
    "0", "-0", "-1", "1", "2", "15", "16", "1023", "1024", "4095", "32768", "64001", "2147483648",
    "-2147483649", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1" + "0" * 400,
    "-1" + "0" * 400, "0.0", "-0.0", "0.5", "-1.5", "1.0", "1e3", "1e19", "1e308", "-1e308",
    "1e400", "-1e400", "1e-400", "1.7976931348623157e308", "null",
)  # fmt: skip
TOOL = {"type": "object", "properties": {}}
BASES = {
    "chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": TOOL}}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "f", "input_schema": TOOL}],
    },
    "responses": {
        "model": "m",
        "input": "hi",
        "tools": [{"type": "function", "name": "f", "parameters": TOOL}],
    },
    "gemini": {
        "model": "m",
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
    },
}
# Where a number may stand; the last part of each path is its place.
FIELDS = {
    "chat": (
        "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "n", "top_logprobs",
        "logit_bias.50256", "reasoning.max_tokens", "thinking.budget_tokens", "thinking_budget",
        "model", "stream", "stop", "tools", "messages", "parallel_tool_calls", "user", "metadata",
        "stream_options.include_usage", "reasoning_effort", "verbosity", "service_tier",
        "response_format.type", "logprobs", "store", "chat_template_kwargs.enable_thinking",
        "enable_thinking", "chat_template_kwargs", "web_search_options", "prediction", "audio",
    ),
    "anthropic": (
        "max_tokens", "temperature", "top_p", "top_k", "thinking.budget_tokens", "thinking.type",
        "thinking.display", "output_config.effort", "system", "stream", "stop_sequences",
        "metadata.user_id", "service_tier", "cache_control.ttl", "tool_choice.name", "container",
        "context_management", "mcp_servers", "betas", "tools", "messages", "model", "thread",
    ),
    "responses": (
        "max_output_tokens", "temperature", "top_p", "top_logprobs", "max_tool_calls",
        "reasoning.effort", "reasoning.summary", "text.verbosity", "truncation", "store",
        "parallel_tool_calls", "tool_choice", "previous_response_id", "conversation", "prompt",
        "metadata", "user", "include", "instructions", "input", "tools", "stream", "background",
        "service_tier", "prompt_cache_key", "top_k", "seed",
    ),
    "gemini": (
        "generationConfig.maxOutputTokens", "generationConfig.temperature", "generationConfig.topP",
        "generationConfig.topK", "generationConfig.seed", "generationConfig.presencePenalty",
        "generationConfig.frequencyPenalty", "generationConfig.candidateCount", "generationConfig.logprobs",
        "generationConfig.responseLogprobs", "generationConfig.stopSequences", "generationConfig.thinkingConfig",
        "generationConfig.responseMimeType", "generationConfig.responseSchema", "generationConfig", "model",
        "stream", "contents", "tools", "toolConfig.functionCallingConfig", "toolConfig", "systemInstruction",
        "safetySettings", "cachedContent", "labels", "serviceTier", "store",
    ),
}  # fmt: skip
# What must stand beside a number for its field to be read.
BESIDE = {"thinking.budget_tokens": {"type": "enabled"}}
OURS = (MalformedError, UntranslatableError, TooLargeError)

each = pytest.mark.parametrize("target", DIALECT_NAMES)


def body(source: str, field: str, number: str) -> bytes:
    """Return a request with a number, written as it is, in one field."""
    first, _, second = field.partition(".")
    fields = {name: json.dumps(value) for name, value in BASES[source].items()}
    if second:
        beside = {name: json.dumps(value) for name, value in BESIDE.get(field, {}).items()}
        inner = ",".join(f'"{name}":{text}' for name, text in {**beside, second: number}.items())
        fields[first] = f"{{{inner}}}"
    else:
        fields[first] = number
    return "{{{}}}".format(",".join(f'"{name}":{text}' for name, text in fields.items())).encode()


def outcome(source: str, field: str, number: str, **to: str) -> bytes | str:
    """Return the request as it is sent, or the path of what is refused."""
    try:
        return translate_request(body(source, field, number), source=source, **to).body
    except OURS as error:
        return getattr(error, "path", "$")


@each
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_any_number_in_any_field_is_translated_or_refused_with_its_path(
    source: str, target: str
) -> None:
    check_all([(source, field, target) for field in FIELDS[source]], _is_translated_or_refused)


def _is_translated_or_refused(source: str, field: str, target: str) -> None:
    for at, number in enumerate(NUMBERS):
        # Every profile meets a third of the numbers: whole ones, fractions and huge ones among them.
        for profile in [*PROFILES][at % 3 :: 3]:
            found = outcome(source, field, number, target=target, profile=profile)
            if isinstance(found, bytes):
                json.loads(found)
            else:
                assert found.startswith("$"), (number, profile)


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("number", ["-1", "-9007199254740993"])
def test_negative_budget_of_a_messages_client_is_refused_for_every_upstream(
    target: str, number: str
) -> None:
    for profile in PROFILES:
        with pytest.raises(MalformedError) as caught:
            translate_request(
                body("anthropic", "thinking.budget_tokens", number),
                source="anthropic",
                target=target,
                profile=profile,
            )

        assert "$.thinking.budget_tokens" == caught.value.path


@pytest.mark.parametrize("number", ["0", "1", "1023", "18446744073709551615"])
@each
def test_budget_of_any_size_asks_every_upstream_for_what_it_has(target: str, number: str) -> None:
    for profile in PROFILES:
        translate_request(
            body("anthropic", "thinking.budget_tokens", number),
            source="anthropic",
            target=target,
            profile=profile,
        )
