"""Every policy, for every target dialect, from every client dialect that can ask for it.

A policy is decided once (`request_policy`, `history_policy`, `tool_policy`): where targets differ here, the
dialects themselves differ, and the row says how.  docs/decisions.md has the reasons.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import pytest
from msgspec import structs

from dragoman.errors import MalformedError, UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.translate_requests import TranslatedRequest, translate_request

DIALECTS: Final = ("chat", "anthropic", "responses")  # of the clients
TARGETS: Final = (*DIALECTS, "gemini")
PROFILE: Final = Profile(name="p")
LIMIT: Final = {
    "chat": "max_tokens",
    "anthropic": "max_tokens",
    "responses": "max_output_tokens",
    "gemini": "max_output_tokens",
}
GEMINI_NAMES: Final = {"maxOutputTokens": "max_output_tokens", "topP": "top_p"}
PARAMETERS: Final = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def pairs(*sources: str) -> Iterator[tuple[str, str]]:
    """Return every source with every other dialect as the target."""
    return ((one, two) for one, two in product(sources or DIALECTS, TARGETS) if one != two)


def each(*sources: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("source", "target"), list(pairs(*sources)))


def translated(
    source: str, target: str, body: Mapping[str, Any], profile: Profile = PROFILE, **options: Any
) -> TranslatedRequest:
    history = {"input" if source == "responses" else "messages": [{"role": "user", "content": "q"}]}
    whole = {"model": "m", LIMIT[source]: 64_000, **history, **body}
    raw = json.dumps(whole).encode()
    return translate_request(raw, source=source, target=target, profile=profile, **options)


def refused(
    source: str, target: str, body: Mapping[str, Any], profile: Profile = PROFILE, **options: Any
) -> tuple[str, str, str]:
    with pytest.raises(UntranslatableError) as error:
        translated(source, target, body, profile, **options)
    return error.value.code, error.value.path, str(error.value)


def losses(done: TranslatedRequest) -> list[tuple[str, str, str]]:
    return [(loss.code, loss.path, loss.detail) for loss in done.losses]


def written(done: TranslatedRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.body)
    return found


def settings(target: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that holds sampling and limits, by the names of the other dialects."""
    if target != "gemini":
        return dict(body)
    return {GEMINI_NAMES.get(name, name): one for name, one in config(body).items()}


def config(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return Gemini's `generationConfig`."""
    return body.get("generationConfig") or {}


def tools_in(target: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    declared = body.get("tools") or []
    if target != "gemini":
        return list(declared)
    return [one for entry in declared for one in entry["functionDeclarations"]]


def choice_in(target: str, body: Mapping[str, Any]) -> Any:
    if target != "gemini":
        return body.get("tool_choice")
    return (body.get("toolConfig") or {}).get("functionCallingConfig")


def conversation(source: str, *messages: tuple[str, str]) -> dict[str, Any]:
    said = [{"role": role, "content": text} for role, text in messages]
    return {"input" if source == "responses" else "messages": said}


def tool(source: str, name: str = "t") -> dict[str, Any]:
    if source == "chat":
        return {"type": "function", "function": {"name": name, "parameters": PARAMETERS}}
    if source == "anthropic":
        return {"name": name, "input_schema": PARAMETERS}
    return {"type": "function", "name": name, "parameters": PARAMETERS}


def texts(target: str, body: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return role and texts of every message."""
    if target == "gemini":
        roles = {"model": "assistant"}
        return [
            (roles.get(one["role"], one["role"]), [part["text"] for part in one["parts"]])
            for one in body["contents"]
        ]
    found = []
    for message in body["input" if target == "responses" else "messages"]:
        content = message.get("content")
        parts = [content] if isinstance(content, str) else [one["text"] for one in content]
        found.append((message["role"], parts))
    return found


# --- thinking ---------------------------------------------------------------------------------------

BUDGETS: Final = {
    0: "low",
    1: "low",
    4095: "low",
    4096: "medium",
    16_383: "medium",
    16_384: "high",
    32_767: "high",
    32_768: "xhigh",
    10**15: "xhigh",
}
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def asks_budget(source: str, tokens: int) -> dict[str, Any]:
    if source == "anthropic":
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    return {"reasoning": {"max_tokens": tokens}}


def asks_effort(source: str, effort: str) -> dict[str, Any]:
    if source == "anthropic":
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    return {"reasoning_effort": effort} if source == "chat" else {"reasoning": {"effort": effort}}


def by_effort(target: str) -> Profile:
    control: Any = "adaptive" if target == "anthropic" else "reasoning_effort"
    return structs.replace(PROFILE, reasoning_control=control, supported_efforts=EFFORTS)


def effort_in(target: str, body: Mapping[str, Any]) -> str | None:
    match target:
        case "chat":
            return body.get("reasoning_effort")
        case "anthropic":
            return (body.get("output_config") or {}).get("effort")
        case "gemini":
            level = (config(body).get("thinkingConfig") or {}).get("thinkingLevel")
            return level.lower() if level else None
        case _:
            return (body.get("reasoning") or {}).get("effort")


THINKING: Final = {
    "anthropic": "$.thinking",
    "chat": "$.reasoning_effort",
    "responses": "$.reasoning.effort",
}


@each("chat", "anthropic")
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_budget_becomes_an_effort_and_that_is_reported(
    source: str, target: str, budget: int
) -> None:
    done = translated(source, target, asks_budget(source, budget), by_effort(target))

    assert BUDGETS[budget] == effort_in(target, written(done))
    detail = f"budget {budget} became effort {BUDGETS[budget]}"
    assert [("thinking_converted", THINKING[source], detail)] == losses(done)


@each("chat", "anthropic")
def test_a_budget_becomes_the_nearest_effort_that_the_upstream_knows(
    source: str, target: str
) -> None:
    profile = structs.replace(by_effort(target), supported_efforts=("low", "medium"))
    done = translated(source, target, asks_budget(source, 10**15), profile)

    assert "medium" == effort_in(target, written(done))
    assert ["budget 1000000000000000 became effort medium"] == [
        detail for _, _, detail in losses(done)
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_a_budget_below_zero_is_a_400_from_a_messages_client(target: str) -> None:
    with pytest.raises(MalformedError) as error:
        translated("anthropic", target, asks_budget("anthropic", -1))

    assert "$.thinking.budget_tokens" == error.value.path
    assert 400 == error.value.http_status


@each("chat")
def test_a_budget_below_zero_lets_the_model_decide_from_a_chat_client(
    source: str, target: str
) -> None:
    done = translated(source, target, asks_budget(source, -1), by_effort(target))

    assert effort_in(target, written(done)) is None
    assert [] == losses(done)


@pytest.mark.parametrize("budget", [0, 1, 1023, 10**15])
def test_a_budget_stays_within_the_bounds_of_an_upstream_that_takes_one(budget: int) -> None:
    profile = structs.replace(PROFILE, reasoning_control="budget")
    done = translated("chat", "anthropic", asks_budget("chat", budget), profile)

    kept = written(done)["thinking"]["budget_tokens"]
    assert max(1024, min(budget, 63_999)) == kept
    detail = f"budget {budget} became {kept}"
    assert [("value_clamped", "$.reasoning_effort", detail)] == losses(done)


@pytest.mark.parametrize("source", ["chat", "responses"])
def test_an_effort_becomes_a_budget_and_that_is_reported(source: str) -> None:
    profile = structs.replace(PROFILE, reasoning_control="budget")
    done = translated(source, "anthropic", asks_effort(source, "medium"), profile)

    assert 8192 == written(done)["thinking"]["budget_tokens"]
    detail = "effort medium became budget 8192"
    assert [("thinking_converted", THINKING[source], detail)] == losses(done)


SWITCHES: Final = {
    "thinking_type": {"thinking": {"type": "enabled"}},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": True}},
    "enable_thinking": {"enable_thinking": True},
}


@pytest.mark.parametrize("source", ["anthropic", "responses"])
@pytest.mark.parametrize("control", SWITCHES)
def test_an_effort_that_becomes_a_switch_is_reported(source: str, control: Any) -> None:
    profile = structs.replace(PROFILE, reasoning_control=control, supported_efforts=())
    done = translated(source, "chat", asks_effort(source, "low"), profile)

    assert SWITCHES[control].items() <= written(done).items()
    assert [("thinking_converted", THINKING[source], "effort low became on")] == losses(done)


@each("chat", "responses")
def test_an_unknown_effort_becomes_high_and_that_is_reported(source: str, target: str) -> None:
    done = translated(source, target, asks_effort(source, "silly"), by_effort(target))

    assert "high" == effort_in(target, written(done))
    detail = "silly is unknown and became high"
    assert [("effort_adjusted", THINKING[source], detail)] == losses(done)


@pytest.mark.parametrize("target", TARGETS)
def test_an_unknown_effort_is_a_400_from_a_messages_client(target: str) -> None:
    with pytest.raises(MalformedError):
        translated("anthropic", target, asks_effort("anthropic", "silly"))


@each()
@pytest.mark.parametrize(
    ("known", "effort", "expected"),
    [
        (("low", "medium", "high"), "max", "high"),
        (("low", "high"), "medium", "low"),
        (("none", "high"), "low", "high"),  # no thinking is not a low effort
        (("medium", "high"), "low", "medium"),
    ],
)
def test_an_effort_that_the_upstream_lacks_becomes_the_nearest(
    source: str, target: str, known: tuple[str, ...], effort: str, expected: str
) -> None:
    profile = structs.replace(by_effort(target), supported_efforts=known)
    done = translated(source, target, asks_effort(source, effort), profile)

    assert expected == effort_in(target, written(done))
    detail = f"{effort} became {expected}"
    assert [("effort_adjusted", THINKING[source], detail)] == losses(done)


OFF: Final = {
    "chat": {"reasoning_effort": "none"},
    "anthropic": {"thinking": {"type": "disabled"}},
    "responses": {"reasoning": {"effort": "none"}},
}


@each()
@pytest.mark.parametrize("on", [True, False])
def test_thinking_settings_are_reported_where_the_upstream_has_none(
    source: str, target: str, on: bool
) -> None:
    profile = structs.replace(PROFILE, reasoning_control="none")
    asked = asks_effort(source, "high") if on else OFF[source]
    done = translated(source, target, asked, profile)

    assert effort_in(target, written(done)) is None
    assert [("thinking_dropped", THINKING[source], "")] == losses(done)


# --- a forced tool with thinking --------------------------------------------------------------------

FORCED: Final = {
    "chat": {"type": "function", "function": {"name": "t"}},
    "anthropic": {"type": "tool", "name": "t"},
    "responses": {"type": "function", "name": "t"},
    "gemini": {"mode": "ANY", "allowedFunctionNames": ["t"]},
}
ANY: Final = {
    "chat": "required",
    "anthropic": {"type": "any"},
    "responses": "required",
    "gemini": {"mode": "ANY"},
}
AUTO: Final = {
    "chat": "auto",
    "anthropic": {"type": "auto"},
    "responses": "auto",
    "gemini": {"mode": "AUTO"},
}
NONE: Final = {
    "chat": "none",
    "anthropic": {"type": "none"},
    "responses": "none",
    "gemini": {"mode": "NONE"},
}


def forced(source: str) -> dict[str, Any]:
    return {
        "tools": [tool(source), tool(source, "u")],
        "tool_choice": FORCED[source],
        **asks_effort(source, "high"),
    }


def conflicted(target: str, policy: Any) -> Profile:
    return structs.replace(
        by_effort(target),
        forced_tool_choice_with_thinking=False,
        forced_tool_choice_policy=policy,
    )


@each()
def test_forced_tool_with_thinking_may_be_refused(source: str, target: str) -> None:
    code, path, reason = refused(source, target, forced(source), conflicted(target, "error"))

    assert ("unsupported_parameter", "$.tool_choice") == (code, path)
    assert "combine a forced tool call with thinking" in reason


@each()
def test_forced_tool_with_thinking_may_leave_the_choice_to_the_model(
    source: str, target: str
) -> None:
    done = translated(source, target, forced(source), conflicted(target, "downgrade"))

    assert AUTO[target] == choice_in(target, written(done))
    assert "high" == effort_in(target, written(done))
    detail = "a forced tool became auto"
    assert [("tool_choice_adjusted", "$.tool_choice", detail)] == losses(done)


@each()
def test_forced_tool_with_thinking_may_turn_thinking_off(source: str, target: str) -> None:
    done = translated(source, target, forced(source), conflicted(target, "disable_thinking"))
    body = written(done)

    assert FORCED[target] == choice_in(target, body)
    off = body["thinking"] == {"type": "disabled"} if target == "anthropic" else None
    assert off or effort_in(target, body) == "none"
    assert [("thinking_disabled_by_tool_choice", THINKING[source], "")] == losses(done)


@each()
def test_forced_tool_alone_changes_nothing_in_messages_and_turns_thinking_off_elsewhere(
    source: str, target: str
) -> None:
    # Without a word about thinking a Messages model does not think; DeepSeek and Moonshot do, in Chat.
    asked = {"tools": [tool(source)], "tool_choice": FORCED[source]}
    done = translated(source, target, asked, conflicted(target, "disable_thinking"))

    expected = [] if target == "anthropic" else ["thinking_disabled_by_tool_choice"]
    assert expected == [code for code, _, _ in losses(done)]


# --- tool choice ------------------------------------------------------------------------------------


@each()
def test_none_is_written_where_the_upstream_knows_it(source: str, target: str) -> None:
    done = translated(source, target, {"tools": [tool(source)], "tool_choice": NONE[source]})

    assert NONE[target] == choice_in(target, written(done))


@each()
def test_none_leaves_the_tools_out_where_the_upstream_does_not_know_it(
    source: str, target: str
) -> None:
    profile = structs.replace(PROFILE, tool_choice_none=False)
    asked = {"tools": [tool(source)], "tool_choice": NONE[source]}
    body = written(translated(source, target, asked, profile))

    assert [] == tools_in(target, body)
    assert choice_in(target, body) is None


HISTORIES: Final[dict[str, dict[str, Any]]] = {
    "chat": {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ]
    },
    "anthropic": {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}],
            },
        ]
    },
    "responses": {
        "input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
        ]
    },
}


@each()
def test_none_becomes_auto_if_the_history_has_calls(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, tool_choice_none=False)
    asked = {"tools": [tool(source)], "tool_choice": NONE[source], **HISTORIES[source]}
    done = translated(source, target, asked, profile)

    assert choice_in(target, written(done)) is None
    assert 1 == len(tools_in(target, written(done)))
    assert [("tool_choice_adjusted", "$.tool_choice", "none became auto")] == losses(done)


@each()
@pytest.mark.parametrize("strength", ["strings_only", "auto_only"])
def test_a_forced_tool_that_cannot_be_named_is_the_only_one_declared(
    source: str, target: str, strength: Any
) -> None:
    profile = structs.replace(PROFILE, tool_choice=strength)
    asked = {"tools": [tool(source), tool(source, "u")], "tool_choice": FORCED[source]}
    done = translated(source, target, asked, profile)
    body = written(done)

    assert 1 == len(tools_in(target, body))
    narrowed = strength == "strings_only"
    assert (ANY if narrowed else AUTO)[target] == choice_in(target, body)
    expected = (
        ("tool_choice_narrowed", "$.tool_choice", "t")
        if narrowed
        else ("tool_choice_adjusted", "$.tool_choice", "a forced tool became auto")
    )
    assert [expected] == losses(done)


@each()
def test_any_tool_becomes_auto_where_nothing_can_be_forced(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, tool_choice="auto_only")
    asked = {"tools": [tool(source), tool(source, "u")], "tool_choice": ANY[source]}
    done = translated(source, target, asked, profile)

    assert 2 == len(tools_in(target, written(done)))
    assert [("tool_choice_adjusted", "$.tool_choice", "required became auto")] == losses(done)


@each()
def test_a_choice_without_tools_is_dropped(source: str, target: str) -> None:
    done = translated(source, target, {"tool_choice": AUTO[source]})

    assert choice_in(target, written(done)) is None
    assert [("tool_choice_dropped", "$.tool_choice", "")] == losses(done)


SEARCH: Final = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "responses": {"type": "web_search"},
}


@each("anthropic", "responses")
def test_a_forced_tool_that_the_upstream_does_not_run_is_refused(source: str, target: str) -> None:
    asked = {
        "tools": [SEARCH[source], tool(source)],
        "tool_choice": {"type": "tool", "name": "web_search"}
        if source == "anthropic"
        else {"type": "web_search"},
    }
    code, _, reason = refused(source, target, asked)

    assert "server_tool_unavailable" == code
    assert "web_search" in reason


SERIAL: Final[dict[str, dict[str, Any]]] = {
    "chat": {"parallel_tool_calls": False},
    "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    "responses": {"parallel_tool_calls": False},
}


@each()
def test_parallel_calls_that_cannot_be_turned_off_are_reported(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, supports_parallel_flag=False)
    done = translated(source, target, {"tools": [tool(source)], **SERIAL[source]}, profile)

    assert ["parallel_not_enforced"] == [code for code, _, _ in losses(done)]


@each()
@pytest.mark.parametrize("strict", [True, False, None])
@pytest.mark.parametrize("enforced", [True, False])
def test_a_strict_tool_stays_so_only_where_the_upstream_enforces_schemas(
    source: str, target: str, strict: bool | None, enforced: bool
) -> None:
    enforced = enforced and target != "gemini"  # which has no such field
    profile = structs.replace(PROFILE, supports_strict=enforced)
    declared = tool(source)
    (declared["function"] if source == "chat" else declared)["strict"] = strict
    done = translated(source, target, {"tools": [declared]}, profile)

    (out,) = tools_in(target, written(done))
    sent = (out["function"] if target == "chat" else out).get("strict")
    assert bool(strict and enforced) == bool(sent)
    expected = [("tool_option_dropped", "$.tools[0]", "strict")] if strict and not enforced else []
    assert expected == losses(done)


# --- what every target refuses ----------------------------------------------------------------------


@each("chat")
@pytest.mark.parametrize("number", [2, 0, -1])
def test_another_number_of_answers_than_one_is_refused(
    source: str, target: str, number: int
) -> None:
    code, path, reason = refused(source, target, {"n": number})

    assert ("unsupported_parameter", "$.n") == (code, path)
    assert "one answer per request" in reason


@each("responses")
def test_a_previous_response_is_refused(source: str, target: str) -> None:
    code, path, reason = refused(source, target, {"previous_response_id": "resp_1"})

    assert ("previous_response_not_found", "$.previous_response_id") == (code, path)
    assert "`resp_1` is not stored here" in reason


@each()
def test_an_answer_of_no_tokens_goes_to_messages_upstreams_only(source: str, target: str) -> None:
    asked = {LIMIT[source]: 0}
    if target == "anthropic":  # it only reads the prompt into the cache
        assert 0 == written(translated(source, target, asked))["max_tokens"]
        return
    code, _, reason = refused(source, target, asked)

    assert "unsupported_parameter" == code
    assert "only fills a prompt cache" in reason


FOREIGN: Final[dict[str, dict[str, Any]]] = {
    "chat": {"prediction": {"type": "content", "content": "x"}, "min_p": 0.1, "vendors_own": 1},
    "anthropic": {"context_management": {"edits": [1]}, "workspace_id": "w"},
    "responses": {"truncation": "auto", "vendors_own": 1},
}


@each()
def test_fields_that_the_target_lacks_are_reported(source: str, target: str) -> None:
    done = translated(source, target, FOREIGN[source])

    assert {("field_dropped", f"$.{name}", "") for name in FOREIGN[source]} == {*losses(done)}
    assert not FOREIGN[source].keys() & written(done).keys()


@each()
@pytest.mark.parametrize("value", [None, False, [], {}, ""])
def test_fields_that_ask_for_nothing_are_not_reported(
    source: str, target: str, value: object
) -> None:
    assert [] == losses(translated(source, target, dict.fromkeys(FOREIGN[source], value)))


@each("chat")
def test_a_way_to_ask_for_thinking_is_reported_only_if_it_was_not_understood(
    source: str, target: str
) -> None:
    profile = by_effort(target)
    understood = translated(source, target, {"reasoning": {"effort": "high"}}, profile)
    other = translated(source, target, {"chat_template_kwargs": {"style": "x"}}, profile)

    assert [] == losses(understood)
    assert [("field_dropped", "$.chat_template_kwargs", "")] == losses(other)


NEEDED: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "chat": (
        {"audio": {"voice": "alloy", "format": "wav"}},
        {"modalities": ["text", "audio"]},
    ),
    "anthropic": tuple(
        {name: value}
        for name, value in (
            ("container", "c"),
            ("thread", {"id": "t"}),
            ("compaction", {"on": True}),
        )
    ),
}


@each("chat", "anthropic")
def test_fields_that_the_answer_depends_on_are_refused(source: str, target: str) -> None:
    for asked in NEEDED[source]:
        (name,) = asked
        code, path, reason = refused(source, target, asked)

        assert ("unsupported_parameter", f"$.{name}") == (code, path)
        assert f"the target has no `{name}`" in reason


# --- sampling ---------------------------------------------------------------------------------------


@each()
@pytest.mark.parametrize("most", [1.0, 0.5])
def test_a_temperature_beyond_the_range_is_clamped(source: str, target: str, most: float) -> None:
    profile = structs.replace(PROFILE, max_temperature=most)
    done = translated(source, target, {"temperature": 1.5}, profile)

    assert most == settings(target, written(done))["temperature"]
    assert [("value_clamped", "$.temperature", f"1.5 became {most:g}")] == losses(done)


@each()
def test_messages_takes_no_temperature_above_one(source: str, target: str) -> None:
    body = settings(target, written(translated(source, target, {"temperature": 1.5})))

    assert (1.0 if target == "anthropic" else 1.5) == body["temperature"]


@each()
def test_sampling_that_the_upstream_refuses_is_dropped(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, drop_sampling=True)
    done = translated(source, target, {"temperature": 1.0, "top_p": 0.9}, profile)

    assert not {"temperature", "top_p"} & settings(target, written(done)).keys()
    assert [
        ("sampling_dropped", "$.temperature", ""),
        ("sampling_dropped", "$.top_p", ""),
    ] == losses(done)


@each("chat")
def test_sampling_that_the_dialect_lacks_is_dropped(source: str, target: str) -> None:
    done = translated(source, target, {"seed": 1, "frequency_penalty": 1, "logit_bias": {"1": 2}})

    kept = ("seed", "frequency_penalty") if target == "gemini" else ()
    assert [
        ("sampling_dropped", f"$.{name}", "")
        for name in ("seed", "frequency_penalty", "logit_bias")
        if name not in kept
    ] == losses(done)


@each()
def test_an_output_limit_beyond_the_most_is_clamped(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, max_output_tokens=100)
    done = translated(source, target, {LIMIT[source]: 200}, profile)

    assert 100 == settings(target, written(done))[LIMIT[target]]
    assert [("value_clamped", "200 became 100")] == [
        (code, detail) for code, _, detail in losses(done)
    ]


# --- JSON output ------------------------------------------------------------------------------------

JSON_ONLY: Final = "Respond with a single JSON object and nothing else."


def asks_json(source: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    if source == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    if schema is None:
        kind = {"type": "json_object"}
        return {"response_format": kind} if source == "chat" else {"text": {"format": kind}}
    named = {"name": "output", "schema": schema}
    if source == "chat":
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"text": {"format": {"type": "json_schema", **named}}}


def json_format(target: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    match target:
        case "chat":
            return body.get("response_format")
        case "anthropic":
            return (body.get("output_config") or {}).get("format")
        case "gemini":
            is_json = config(body).get("responseMimeType") == "application/json"
            return {"type": "json_object"} if is_json else None
        case _:
            return (body.get("text") or {}).get("format")


def instructions(target: str, body: Mapping[str, Any]) -> str:
    match target:
        case "chat":
            first = body["messages"][0]
            return str(first["content"]) if first["role"] == "system" else ""
        case "anthropic":
            return "".join(block["text"] for block in body.get("system") or ())
        case "gemini":
            system = body.get("systemInstruction") or {"parts": []}
            return "".join(part["text"] for part in system["parts"])
        case _:
            return str(body.get("instructions") or "")


@each()
@pytest.mark.parametrize("level", ["json_object", "instruction"])
def test_a_schema_that_is_not_enforced_becomes_the_same_instruction(
    source: str, target: str, level: Any
) -> None:
    profile = structs.replace(PROFILE, json_schema=level)
    done = translated(source, target, asks_json(source, PARAMETERS), profile)
    body = written(done)

    head, schema = instructions(target, body).split("\n", 1)
    assert f"{JSON_ONLY} It must match this JSON schema:" == head
    assert PARAMETERS == json.loads(schema)
    # Messages has no format for any JSON object.
    some = level == "json_object" and target != "anthropic"
    assert ({"type": "json_object"} if some else None) == json_format(target, body)
    assert ["schema_not_enforced"] == [code for code, _, _ in losses(done)]


@each("chat", "responses")
@pytest.mark.parametrize("level", ["native", "json_object", "instruction"])
def test_any_json_object_is_a_format_or_an_instruction(
    source: str, target: str, level: Any
) -> None:
    profile = structs.replace(PROFILE, json_schema=level)
    done = translated(source, target, asks_json(source, None), profile)
    body = written(done)

    if level == "instruction" or target == "anthropic":
        assert JSON_ONLY == instructions(target, body)
        assert json_format(target, body) is None
        assert ["json_object_emulated"] == [code for code, _, _ in losses(done)]
    else:
        assert "" == instructions(target, body)
        assert {"type": "json_object"} == json_format(target, body)
        assert [] == losses(done)


FANCY: Final = {
    **PARAMETERS,
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {"a": {"type": "string", "format": "uri"}},
}


@each()
def test_schemas_are_rewritten_for_an_upstream_of_another_flavour_and_that_is_reported(
    source: str, target: str
) -> None:
    if target == "anthropic":
        return  # whose schemas are any
    profile = structs.replace(PROFILE, schema_dialect="plain")
    named = json.loads(json.dumps(tool(source)).replace(json.dumps(PARAMETERS), json.dumps(FANCY)))
    for asked in ({"tools": [named]}, asks_json(source, FANCY)):
        done = translated(source, target, asked, profile)
        body = done.body.decode()

        assert ["schema_rewritten"] == [code for code, _, _ in losses(done)]
        assert not any(word in body for word in ("$schema", '"uri"', "additionalProperties"))


@each()
def test_the_draft_of_a_schema_stays_with_the_client(source: str, target: str) -> None:
    done = translated(source, target, asks_json(source, FANCY))

    assert ('"$schema"' in done.body.decode()) == (target == "anthropic")
    assert [] == losses(done)


# Targets with a flag for strict schemas and a field for a short user id.
OPENAI: Final = [pair for pair in pairs() if pair[1] in ("chat", "responses")]
OPEN: Final = {**PARAMETERS, "additionalProperties": True}
SCHEMAS: Final = {
    "closed": (PARAMETERS, True),
    "open": (OPEN, False),
    "optional property": ({**PARAMETERS, "required": []}, False),
    "open inside": ({**PARAMETERS, "properties": {"a": OPEN}}, False),
    "open in a list": (
        {**PARAMETERS, "properties": {"a": {"type": "array", "items": OPEN}}},
        False,
    ),
    "open in definitions": ({**PARAMETERS, "$defs": {"b": OPEN}}, False),
    "data that looks open": ({**PARAMETERS, "default": {"type": "object"}}, True),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize(("source", "target"), OPENAI)
def test_a_schema_is_strict_if_every_level_of_it_is(source: str, target: str, name: str) -> None:
    schema, strict = SCHEMAS[name]
    profile = structs.replace(PROFILE, supports_strict=True)
    form = json_format(
        target, written(translated(source, target, asks_json(source, schema), profile))
    )

    assert form is not None
    assert strict == (form["json_schema"] if target == "chat" else form)["strict"]


# --- the user id ------------------------------------------------------------------------------------

USER_IDS: Final = {
    "u": True,
    "u" * 64: True,
    "ann@example.org": True,
    "u" * 65: False,
    "a b": False,
    '{"device":"x"}': False,
    "jürg": False,
}


def asks_user(source: str, user_id: str) -> dict[str, Any]:
    return {"metadata": {"user_id": user_id}} if source == "anthropic" else {"user": user_id}


@pytest.mark.parametrize("user_id", USER_IDS)
def test_one_user_has_one_id_at_chat_and_responses_upstreams(user_id: str) -> None:
    sent = {
        written(translated(source, target, asks_user(source, user_id)))["user"]
        for source, target in OPENAI
    }

    (only,) = sent
    assert USER_IDS[user_id] == (only == user_id)
    assert len(only) <= 64


@each("chat", "responses")
def test_messages_takes_any_user_id(source: str, target: str) -> None:
    if target == "anthropic":
        body = written(translated(source, target, asks_user(source, "a b")))

        assert {"user_id": "a b"} == body["metadata"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("source", "target"), [pair for pair in pairs() if pair[1] != "anthropic"])
def test_a_user_id_without_a_field_is_reported_and_never_refused(
    source: str, target: str, strict: bool
) -> None:
    profile = structs.replace(PROFILE, user_field="none")
    done = translated(source, target, asks_user(source, "u"), profile, strict=strict)

    assert "user" not in written(done)
    assert ["user_id_dropped"] == [code for code, _, _ in losses(done)]


# --- the conversation -------------------------------------------------------------------------------


@each("anthropic")
@pytest.mark.parametrize("strict", [False, True])
def test_a_prefill_is_refused(source: str, target: str, strict: bool) -> None:
    asked = conversation(source, ("user", "q"), ("assistant", "a"))
    code, path, _ = refused(source, target, asked, strict=strict)

    assert ("prefill_not_supported", "$.messages") == (code, path)


@each("anthropic")
def test_a_prefill_may_be_emulated_but_not_for_a_strict_target(source: str, target: str) -> None:
    asked = conversation(source, ("user", "q"), ("assistant", "a"))
    done = translated(source, target, asked, prefill="continue")

    assert ("user", ["Continue."]) == texts(target, written(done))[-1]
    assert [("prefill_emulated", "$.messages", "")] == losses(done)
    assert "prefill_emulated" == refused(source, target, asked, prefill="continue", strict=True)[0]


REMINDER: Final = "<system-reminder>\nS\n</system-reminder>"


@each()
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "profile",
    [
        structs.replace(PROFILE, midturn_system=False),
        structs.replace(PROFILE, merge_system=True),
    ],
    ids=["no instructions between turns", "one system message"],
)
def test_an_instruction_between_turns_becomes_marked_text_of_the_user(
    source: str, target: str, profile: Profile, strict: bool
) -> None:
    after_user = conversation(source, ("user", "q"), ("system", "S"))
    before_user = conversation(
        source, ("user", "q"), ("assistant", "a"), ("system", "S"), ("user", "r")
    )
    one = translated(source, target, after_user, profile, strict=strict)
    two = translated(source, target, before_user, profile, strict=strict)

    assert [("user", ["q", REMINDER])] == texts(target, written(one))
    assert ("user", [REMINDER, "r"]) == texts(target, written(two))[-1]
    field = "input" if source == "responses" else "messages"
    assert [("system_midturn_emulated", f"$.{field}[1]", "")] == losses(one)
    assert [("system_midturn_emulated", f"$.{field}[2]", "")] == losses(two)


@each()
def test_an_instruction_between_turns_is_kept_where_it_is_taken(source: str, target: str) -> None:
    asked = conversation(source, ("user", "q"), ("system", "S"))
    done = translated(source, target, asked)

    if target == "gemini":  # it has no role for it
        assert [("user", ["q", REMINDER])] == texts(target, written(done))
        assert ["system_midturn_emulated"] == [code for code, _, _ in losses(done)]
    else:
        assert [("user", ["q"]), ("system", ["S"])] == texts(target, written(done))
        assert [] == losses(done)


NAMES: Final = {
    "chat": "$.messages[1].tool_calls[0].function.name",
    "anthropic": "$.messages[1].content[0].name",
    "responses": "$.input[1].name",
}


@pytest.mark.parametrize(("source", "target"), list(product(DIALECTS, TARGETS)))
def test_a_call_without_a_name_in_the_history_is_a_400(source: str, target: str) -> None:
    history = json.loads(json.dumps(HISTORIES[source]).replace('"name": "t"', '"name": ""'))
    with pytest.raises(MalformedError) as error:
        translated(source, target, history)

    assert (NAMES[source], "a tool call needs a name") == (error.value.path, error.value.reason)
    assert 400 == error.value.http_status


SEARCH_RESULT: Final = {
    "type": "search_result",
    "source": "https://e.example",
    "title": "E",
    "content": [{"type": "text", "text": "x"}],
}
IMAGE: Final = {"type": "image", "source": {"type": "url", "url": "https://e.example/i.png"}}
# Parts of a Messages client's history, with the losses for every other target.
FOREIGN_PARTS: Final[dict[str, tuple[str, dict[str, Any], list[tuple[str, str, str]]]]] = {
    "a search result": (
        "user",
        SEARCH_RESULT,
        [("content_flattened", "$.messages[1]", "a search result became text")],
    ),
    "a search result to be cited": (
        "user",
        {**SEARCH_RESULT, "citations": {"enabled": True}},
        [
            ("content_flattened", "$.messages[1]", "a search result became text"),
            ("citations_dropped", "$.messages[1]", ""),
        ],
    ),
    "a file in an assistant's turn": (
        "assistant",
        IMAGE,
        [("content_dropped", "$.messages[1]", "only user messages may contain files")],
    ),
    "a block that is unknown": (
        "assistant",
        {"type": "hologram", "shape": "cube"},
        [("content_dropped", "$.messages[1]", "")],
    ),
    "a summary that can be read": (
        "assistant",
        {"type": "compaction", "content": "so far"},
        [("content_flattened", "$.messages[1]", "")],
    ),
}


def with_part(role: str, part: Mapping[str, Any]) -> dict[str, Any]:
    said = {"type": "text", "text": "said"}
    return {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": role, "content": [said, part]},
            {"role": "user", "content": "r"},
        ]
    }


@each("anthropic")
@pytest.mark.parametrize("name", FOREIGN_PARTS)
def test_a_part_that_only_messages_has_is_reported_in_the_same_words(
    source: str, target: str, name: str
) -> None:
    role, part, lost = FOREIGN_PARTS[name]
    done = translated(source, target, with_part(role, part))

    assert lost == losses(done)
    assert ("so far" in done.body.decode()) == (part["type"] == "compaction")


@each("anthropic")
def test_a_part_that_the_request_needs_and_only_its_vendor_reads_is_refused(
    source: str, target: str
) -> None:
    found = refused(source, target, with_part("assistant", {"type": "compaction", "content": None}))

    assert (
        "unsupported_content_block",
        "$.messages[1].content[1]",
        "the target cannot read this part of the history",
    ) == (found[0], found[1], found[2].partition(" (")[0].partition(" at ")[0])


# --- what a strict target refuses -------------------------------------------------------------------

HARMFUL: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "effort_adjusted": ({"reasoning_effort": "max"}, {}),
    "thinking_converted": ({"reasoning": {"max_tokens": 4096}}, {}),
    "value_clamped": ({"temperature": 2.0}, {"max_temperature": 1.0}),
    "sampling_dropped": ({"seed": 1, "temperature": 1}, {"drop_sampling": True}),
    "schema_not_enforced": (asks_json("chat", PARAMETERS), {"json_schema": "instruction"}),
    "tool_choice_adjusted": (
        {"tools": [tool("chat")], "tool_choice": "required"},
        {"tool_choice": "auto_only"},
    ),
    "parallel_not_enforced": (
        {"tools": [tool("chat")], "parallel_tool_calls": False},
        {"supports_parallel_flag": False},
    ),
    "logprobs_dropped": ({"logprobs": True}, {"supports_logprobs": False}),
}


@each("chat")
@pytest.mark.parametrize("code", HARMFUL)
def test_a_strict_target_refuses_a_change_of_meaning(source: str, target: str, code: str) -> None:
    body, facts = HARMFUL[code]
    control: Any = "adaptive" if target == "anthropic" else "reasoning_effort"
    profile = structs.replace(PROFILE, reasoning_control=control, **facts)

    found, path, _ = refused(source, target, body, profile, strict=True)

    assert code == found
    assert path.startswith("$.")


@each("chat", "responses")
def test_a_strict_target_takes_what_keeps_the_meaning(source: str, target: str) -> None:
    profile = structs.replace(PROFILE, json_schema="instruction", midturn_system=False)
    asked = {
        **asks_json(source, None),
        **conversation(source, ("user", "q"), ("system", "S")),
        "tool_choice": "auto",
    }
    done = translated(source, target, asked, profile, strict=True)

    assert {"json_object_emulated", "system_midturn_emulated", "tool_choice_dropped"} == {
        code for code, _, _ in losses(done)
    }
