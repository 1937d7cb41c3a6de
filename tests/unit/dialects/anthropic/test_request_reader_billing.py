"""The accounting line before a system prompt."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.anthropic.request_reader import strip_billing_body, without_billing
from dragoman.translate_requests import read_request, translate_request

LINE = "x-anthropic-billing-header: cc_version=2.1.197.d02; cc_entrypoint=cli; cch=a1b2c;"
PROMPT = "You are an agent.\n\nBe kind; x-anthropic-billing-header: is a line.\n"


@pytest.mark.parametrize(
    ("given_texts", "left"),
    [
        ([LINE, PROMPT], [PROMPT]),
        ([LINE + "\n", PROMPT], [PROMPT]),
        ([f"{LINE}\n{PROMPT}"], [PROMPT]),
        ([f"{LINE}\r\n{PROMPT}"], [PROMPT]),
        ([LINE + PROMPT], [PROMPT]),
        ([f"{LINE} {PROMPT}"], [PROMPT]),
        ([f"{LINE}\n\n{PROMPT}"], ["\n" + PROMPT]),
        (["x-anthropic-billing-header: cc_version=2; cch=1f0\n" + PROMPT], [PROMPT]),
        (["x-anthropic-billing-header: of an unknown form\n" + PROMPT], [PROMPT]),
        (["X-Anthropic-Billing-Header: cch=1f0;", PROMPT], [PROMPT]),
        ([LINE], []),
        # What is not the very first thing is the prompt's own.
        ([PROMPT, LINE], [PROMPT, LINE]),
        ([" " + LINE, PROMPT], [" " + LINE, PROMPT]),
        ([f"{PROMPT}{LINE}\n"], [f"{PROMPT}{LINE}\n"]),
        (["x-anthropic-billing-headers: no\n"], ["x-anthropic-billing-headers: no\n"]),
        ([], []),
    ],
)
def test_h1_only_the_leading_line_goes(given_texts: list[str], left: list[str]) -> None:
    blocks = [{"type": "text", "text": text} for text in given_texts]
    body = {"model": "m", "max_tokens": 5, "system": blocks, "messages": []}

    request = read_request(msgspec.json.encode(body), source="anthropic").request

    assert left == [part.text for part in request.system]


def test_h1_a_prompt_behind_the_line_in_one_text_stays() -> None:
    body = {"model": "m", "max_tokens": 5, "system": f"{LINE}\n{PROMPT}", "messages": []}

    request = read_request(msgspec.json.encode(body), source="anthropic").request

    assert [PROMPT] == [part.text for part in request.system]


def body_of(first: str, **fields: Any) -> bytes:
    system_blocks = [
        {"type": "text", "text": first},
        {"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}},
    ]
    return msgspec.json.encode(
        {"model": "m", "max_tokens": 10, "system": system_blocks, "messages": [], **fields}
    )


def test_h1_bytes_that_are_passed_on_lose_the_line_and_nothing_else() -> None:
    stripped = strip_billing_body(
        b'{"model" : "m","tools":[{"name":"b", "input_schema":{"z":1.50,"a":2}}],"system":[{"text":"'
        + LINE.encode()
        + b'","type":"text"},{"type":"text" , "text":"Hi"}],"messages":[]}'
    )

    assert (
        b'{"model":"m","tools":[{"name":"b", "input_schema":{"z":1.50,"a":2}}],'
        b'"system":[{"type":"text" , "text":"Hi"}],"messages":[]}'
    ) == stripped


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{LINE}\n{PROMPT}", PROMPT),
        (LINE, None),
        ([{"type": "text", "text": LINE}], None),
        (
            [{"type": "text", "text": LINE + PROMPT, "cache_control": {"type": "ephemeral"}}],
            [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}],
        ),
    ],
)
def test_h1_every_form_of_system_in_bytes(before: Any, after: Any) -> None:
    stripped = msgspec.json.decode(
        strip_billing_body(msgspec.json.encode({"system": before, "model": "m"}))
    )

    assert after == stripped.get("system")
    assert "m" == stripped["model"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"system":"plain"}',
        b'{"system":7,"x":"x-anthropic-billing-header:"}',
        b'{"system":[],"x":"x-anthropic-billing-header:"}',
        b'{"system":[7],"x":"x-anthropic-billing-header:"}',
        b'{"system":"\xff","x":"x-anthropic-billing-header:"}',
        b'{"system":[{"type":"text"}],"x":"x-anthropic-billing-header:"}',
        b'{"messages":[{"role":"user","content":"x-anthropic-billing-header: a=b;"}]}',
    ],
)
def test_h1_bytes_without_the_line_pass_unchanged(body: bytes) -> None:
    assert body == strip_billing_body(body)


@pytest.mark.parametrize("target", ["anthropic", "chat", "responses"])
def test_h1_two_turns_share_a_prefix_to_the_byte(target: str) -> None:
    turn = {"role": "user", "content": "Hello"}
    more = [turn, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Go on"}]
    bodies = [
        body_of(f"x-anthropic-billing-header: cc_version=2.1; cch={nonce};", messages=messages)
        for nonce, messages in (("a1b2c", [turn]), ("00f9e", more))
    ]

    first, second = (
        translate_request(strip_billing_body(body), source="anthropic", target=target).body
        for body in bodies
    )

    common = next(n for n in range(len(first)) if first[n] != second[n])
    assert b"Hello" in first[:common]
    assert not any(b"cc_version" in one or b"cch=" in one for one in (first, second))


@given(st.text(max_size=200))
def test_h1_text_that_does_not_begin_with_the_name_is_never_touched(text: str) -> None:
    assert without_billing("!" + text) == "!" + text


def test_h1_a_long_hostile_line_takes_linear_time() -> None:
    text = "x-anthropic-billing-header:" + " a=" * 200_000 + "\x00"

    started = time.perf_counter()
    without_billing(text)

    assert time.perf_counter() - started < 2
