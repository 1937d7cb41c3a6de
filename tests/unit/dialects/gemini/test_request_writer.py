"""Settings of any client for a Gemini upstream."""

import json

import pytest
from msgspec import Raw, structs

from dragoman.dialects.gemini.request_writer import count_question, split_request
from dragoman.errors import UntranslatableError
from dragoman.profiles import profile
from dragoman.translate_requests import translate_request
from dragoman.turn.request import USER as ROLE
from dragoman.turn.request import (
    OutputFormat,
    ReasoningSettings,
    Request,
    Sampling,
    TextPart,
    Turn,
)
from tests.unit.dialects.gemini.support import GEMINI, target, written


def said(**more):
    known = {"dialect": "chat", "model": "m", "turns": (Turn(ROLE, (TextPart("x"),)),)}
    return Request(**(known | more))


def config(request, to=None):
    body, losses = written(request, to)
    return body.get("generationConfig", {}), losses


def test_the_least_request():
    body, losses = written(said(stream=True, system=(TextPart("a"), TextPart("b"))))

    assert {
        "model": "gemini-3-pro",
        "stream": True,
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]},
    } == body
    assert [] == losses


def test_sampling_and_limits():
    found, losses = config(
        said(
            sampling=Sampling(
                temperature=0.5, top_p=0.9, top_k=40, seed=7, frequency_penalty=0.1,
                presence_penalty=0.2, logit_bias=Raw(b'{"1":2}'),
            ),
            max_output=100_000,
            logprobs=True,
            top_logprobs=2,
        )
    )  # fmt: skip

    assert {
        "temperature": 0.5, "topP": 0.9, "topK": 40, "seed": 7, "frequencyPenalty": 0.1,
        "presencePenalty": 0.2, "maxOutputTokens": 65_536, "responseLogprobs": True, "logprobs": 2,
    } == found  # fmt: skip
    assert ["sampling_dropped", "value_clamped"] == losses


def test_more_stop_sequences_than_google_takes_are_matched_here():
    encoded = GEMINI.encode_request(said(stop=("a", "b", "c", "d", "e", "f")), target())

    assert ["a", "b", "c", "d", "e"] == json.loads(encoded.body)["generationConfig"][
        "stopSequences"
    ]
    assert ("f",) == encoded.stop
    assert ["stop_emulated"] == [loss.code for loss in encoded.losses]


@pytest.mark.parametrize(
    ("thinking", "model", "expected", "codes"),
    [
        (ReasoningSettings(), "gemini-3-pro", None, []),
        (ReasoningSettings(show="summary"), "gemini-3-pro", {"includeThoughts": True}, []),
        (
            ReasoningSettings(mode="effort", effort="high", show="summary"),
            "gemini-3-pro",
            {"includeThoughts": True, "thinkingLevel": "HIGH"},
            [],
        ),
        (
            ReasoningSettings(mode="effort", effort="xhigh"),
            "gemini-3-pro",
            {"thinkingLevel": "HIGH"},
            ["effort_adjusted"],
        ),
        (
            ReasoningSettings(mode="off"),
            "gemini-3-flash",
            {"thinkingLevel": "MINIMAL"},
            ["effort_adjusted"],
        ),
        (
            ReasoningSettings(mode="budget", budget=8192),
            "gemini-3-flash",
            {"thinkingLevel": "MEDIUM"},
            ["thinking_converted"],
        ),
        (ReasoningSettings(mode="auto"), "gemini-3-flash", None, []),
        (
            ReasoningSettings(mode="effort", effort="minimal"),
            "gemini-3-flash",
            {"thinkingLevel": "MINIMAL"},
            [],
        ),
        *(  # only Flash models have the lowest level
            (thinking, "gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}, ["effort_adjusted"])
            for thinking in (
                ReasoningSettings(mode="off"),
                ReasoningSettings(mode="effort", effort="minimal"),
            )
        ),
        (ReasoningSettings(mode="off"), "gemini-2.5-flash", {"thinkingBudget": 0}, []),
        (
            ReasoningSettings(mode="off"),
            "gemini-2.5-pro",
            {"thinkingBudget": 128},
            ["effort_adjusted"],
        ),
        (ReasoningSettings(mode="auto"), "gemini-2.5-pro", {"thinkingBudget": -1}, []),
        (
            ReasoningSettings(mode="budget", budget=50_000),
            "gemini-2.5-pro",
            {"thinkingBudget": 32_768},
            ["value_clamped"],
        ),
        (
            ReasoningSettings(mode="effort", effort="max"),
            "gemini-2.5-flash",
            {"thinkingBudget": 24_576},
            ["thinking_converted"],
        ),
        (ReasoningSettings(mode="auto"), "gemma-3", None, ["thinking_dropped"]),
    ],
)
def test_thinking(thinking, model, expected, codes):
    found, losses = config(said(reasoning=thinking), target(model))

    assert expected == found.get("thinkingConfig")
    assert codes == losses


def test_formats_of_the_answer():
    schema = Raw(b'{"$schema":"x","type":"object","properties":{"a":{"const":1}}}')
    wanted = OutputFormat(kind="json_schema", name="n", schema=schema)

    assert (
        {
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "properties": {"a": {"const": 1}}},
        },
        [],
    ) == config(said(format=wanted))
    assert ({"responseMimeType": "application/json"}, []) == config(
        said(format=OutputFormat(kind="json_object"))
    )


def test_what_google_has_no_field_for_is_reported():
    _, losses = written(
        said(verbosity="low", user_id="u", extensions={"prediction": Raw(b'{"a":1}')}, tier="scale")
    )

    assert ["field_dropped", "user_id_dropped", "field_dropped", "field_dropped"] == losses


def test_metadata_are_labels_at_vertex_and_nothing_at_ai_studio():
    noted = said(metadata=Raw(b'{"team":"a-1","Team":"a","b":"B c","n":1}'))
    vertex, losses = written(noted, target(upstream="vertex"))

    assert {"team": "a-1"} == vertex["labels"]
    assert ["field_dropped"] * 3 == losses
    assert (
        "labels" not in written(said(metadata=Raw(b'{"Team":"a"}')), target(upstream="vertex"))[0]
    )
    assert ({}, []) == (written(noted)[0].get("labels", {}), written(noted)[1])


def test_a_profile_changes_what_its_upstream_gets():
    plain = target()
    limited = structs.replace(
        plain,
        profile=structs.replace(
            plain.profile,
            supports_logprobs=False,
            schema_dialect="gemini",
            max_stop_sequences=0,
            extra_fields=(("safetySettings", "[]"), ("model", '"x"')),
        ),
    )
    schema = Raw(b'{"type":"object","properties":{"a":{"const":"b"}}}')
    body, losses = written(
        said(
            logprobs=True,
            stop=("A",),
            tier="scale",
            format=OutputFormat(kind="json_schema", name="o", schema=schema),
        ),
        limited,
    )

    assert ("gemini-3-pro", []) == (body["model"], body["safetySettings"])
    assert {"responseMimeType", "responseSchema"} == body["generationConfig"].keys()
    assert {"a": {"type": "string", "enum": ["b"]}} == (
        body["generationConfig"]["responseSchema"]["properties"]
    )
    assert {"logprobs_dropped", "stop_emulated", "schema_rewritten", "field_dropped"} == set(losses)


def test_a_question_for_tokens_is_whole_at_ai_studio_and_bare_at_vertex():
    asked = {"model": "a/b c", "stream": True, "contents": [], "tool_config": {}, "labels": {}}
    studio, vertex = (
        count_question(json.dumps(asked).encode(), profile(name))
        for name in ("gemini-api", "vertex")
    )

    assert "/models/a/b%20c:countTokens" == studio[0] == vertex[0]
    assert {
        "generateContentRequest": {"model": "models/a/b%20c", "contents": [], "toolConfig": {}}
    } == json.loads(studio[1])
    assert {"contents": []} == json.loads(vertex[1])


@pytest.mark.parametrize("count", [2, -1])
def test_gemini_itself_judges_how_many_answers_its_client_asks_for(count):
    body, _ = written(said(dialect="gemini", count=count))

    assert count == body["generationConfig"]["candidateCount"]


@pytest.mark.parametrize("count", [2, -1])
def test_another_number_of_answers_than_one_is_refused(count):
    with pytest.raises(UntranslatableError, match="one answer"):
        written(said(count=count))


def test_a_strict_target_refuses_a_loss():
    with pytest.raises(UntranslatableError, match="thinking"):
        written(said(reasoning=ReasoningSettings(mode="auto")), target("gemma-3", strict=True))


def test_a_request_is_split_into_its_path_and_what_google_takes():
    body = b'{"model":"a b/qwen3:8b","stream":true,"contents":[]}'

    assert ("/models/a%20b/qwen3:8b:streamGenerateContent?alt=sse", b'{"contents":[]}') == (
        split_request(body)
    )
    assert "/models/m:generateContent" == split_request(b'{"model":"m"}')[0]


# --- arguments in pieces ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"stream": True}, {"streamFunctionCallArguments": True}),
        (
            {"stream": True, "tool_choice": "required"},
            {"mode": "ANY", "streamFunctionCallArguments": True},
        ),
        ({"stream": True, "tool_choice": "none"}, {"mode": "NONE"}),
        ({"stream": False}, None),  # Google refuses it
        ({"stream": True, "tools": []}, None),
    ],
)
def test_arguments_are_asked_for_in_pieces_if_the_profile_has_the_setting(more, expected):
    tools = [{"type": "function", "function": {"name": "f"}}]
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools} | more
    vertex = structs.replace(profile("vertex"), stream_args=True)

    def config(upstream):
        body = json.dumps(asked).encode()
        made = translate_request(
            body, source="chat", target="gemini", profile=upstream, model="gemini-3-pro"
        )
        return json.loads(made.body).get("toolConfig", {}).get("functionCallingConfig")

    assert expected == config(vertex)
    assert "streamFunctionCallArguments" not in (config("vertex") or {})
