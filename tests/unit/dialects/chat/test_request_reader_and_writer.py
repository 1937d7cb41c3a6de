"""Requests of Chat clients, and the fields of requests for Chat upstreams."""

import msgspec
import pytest
from msgspec import Raw

from dragoman.dialects.chat import DIALECT
from dragoman.errors import MalformedError, TooLargeError, UntranslatableError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.request import (
    OutputFormat,
    ReasoningSettings,
    Request,
    Sampling,
    TextPart,
    Tool,
    ToolChoice,
)
from tests.unit.dialects.chat.support import PLAIN, codes, decode, encode, foreign, user

FUNCTION = {"type": "function", "function": {"name": "f"}}


def message(**fields: object) -> dict:
    return {"messages": [{"role": "user", "content": "hi"}, fields]}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": "hi"}, "$.messages"),
        ({"model": 5}, "$.model"),
        ({"temperature": "hot"}, "$.temperature"),
        (message(role="alien", content="x"), "$.messages[1].role"),
        (message(role="user", content=5), "$.messages[1].content"),
        (
            message(role="user", content=[{"type": "video", "url": "x"}]),
            "$.messages[1].content[0].type",
        ),
        (message(role="user", content=[{"type": "text"}]), "$.messages[1].content[0]"),
        (message(role="tool", content="x"), "$.messages[1]"),
        (message(role="assistant", tool_calls=[{"id": "a"}]), "$.messages[1].tool_calls[0]"),
        (message(role="assistant", reasoning_details={"x": 1}), "$.messages[1].reasoning_details"),
        (
            message(role="user", content=[{"type": "image_url", "image_url": {"url": "data:x"}}]),
            "$.messages[1].content[0].image_url.url",
        ),
        (
            message(role="user", content=[{"type": "file", "file": {}}]),
            "$.messages[1].content[0].file",
        ),
        ({"tools": [{"name": "f", "input_schema": {}}]}, "$.tools[0]"),
        ({"tools": [{"type": "function", "name": "f"}]}, "$.tools[0]"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "$.tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "$.tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": "{}"}}]},
            "$.tools[0].function.parameters",
        ),
        ({"tools": [FUNCTION], "tool_choice": "maybe"}, "$.tool_choice"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function"}}, "$.tool_choice"),
        (
            {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "$.tool_choice",
        ),
        ({"response_format": {"type": "json_schema"}}, "$.response_format"),
    ],
)
def test_p_7_what_is_wrong_is_refused_with_its_path(body: dict, path: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(body)

    assert path == caught.value.path


def test_what_is_no_request_is_refused() -> None:
    for body in (b"", b"null", b"[]", b"{", b'{"model":"m"}', b"[" * 100_000):
        with pytest.raises(MalformedError):
            DIALECT.decode_request(body, sealer=None, limits=DEFAULT_LIMITS)
    with pytest.raises(TooLargeError):
        DIALECT.decode_request(b"{}", sealer=None, limits=Limits(max_request_bytes=1))


def test_fields_find_their_place() -> None:
    request = decode(
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 5,
            "max_completion_tokens": 7,
            "temperature": 1,
            "top_p": 0.5,
            "top_k": 3,
            "seed": 4,
            "logit_bias": {"1": 2},
            "stop": "END",
            "n": 2,
            "logprobs": True,
            "top_logprobs": 2,
            "parallel_tool_calls": False,
            "reasoning_effort": "low",
            "verbosity": "high",
            "user": "u",
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "service_tier": "flex",
            "store": True,
            "metadata": {"a": "b"},
            "provider": {"order": ["x"]},
        }
    )

    assert request.stream
    assert request.include_usage
    assert 7 == request.max_output
    assert (1.0, 0.5, 3, 4) == (
        request.sampling.temperature,
        request.sampling.top_p,
        request.sampling.top_k,
        request.sampling.seed,
    )
    assert ("END",) == request.stop
    assert 2 == request.count
    assert (True, 2) == (request.logprobs, request.top_logprobs)
    assert request.parallel is False
    assert ReasoningSettings(mode="effort", effort="low") == request.reasoning
    assert ("high", "s", "k", "flex", True) == (
        request.verbosity,
        request.user_id,
        request.cache_key,
        request.tier,
        request.store,
    )
    assert ["provider"] == list(request.extensions)


def test_counts_are_not_wanted_unless_asked_for() -> None:
    assert not decode({"stream": True}).include_usage


def test_tools_and_choices() -> None:
    custom = {
        "type": "custom",
        "custom": {
            "name": "p",
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
        },
    }
    allowed = {"mode": "required", "tools": [FUNCTION]}
    request = decode(
        {
            "tools": [FUNCTION, custom, {"type": "web_search", "web_search": {"enable": True}}],
            "functions": [{"name": "old", "parameters": {"type": "object"}}],
            "web_search_options": {},
            "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed},
        }
    )

    assert ["f", "p", "web_search", "old", "web_search"] == [tool.name for tool in request.tools]
    assert ("lark", "x") == request.tools[1].grammar
    assert [False, False, True, False, True] == [tool.server for tool in request.tools]
    assert ToolChoice("required", allowed=("f",)) == request.tool_choice


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("any", ToolChoice("required")),
        ("none", ToolChoice("none")),
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("tool", "f")),
    ],
)
def test_spellings_of_the_tool_choice(choice: object, expected: ToolChoice) -> None:
    assert expected == decode({"tools": [FUNCTION], "tool_choice": choice}).tool_choice


def test_legacy_choice() -> None:
    functions = [{"name": "old"}]

    assert (
        ToolChoice("tool", "old")
        == decode({"functions": functions, "function_call": {"name": "old"}}).tool_choice
    )
    assert (
        ToolChoice("auto") == decode({"functions": functions, "function_call": "auto"}).tool_choice
    )


def test_unknown_formats_are_kept_for_their_server() -> None:
    body, _ = encode(decode({"response_format": {"type": "structural_tag", "x": 1}}))

    assert {"type": "structural_tag", "x": 1} == body["response_format"]


# --- for an upstream ------------------------------------------------------------------------------


def test_client_s_own_fields_return_to_a_server_of_the_dialect() -> None:
    given = {"provider": {"order": ["x"]}, "min_p": 0.1, "n": 2, "top_k": 5, "store": True}

    body, encoded = encode(decode(given))

    assert given == {name: body[name] for name in given}
    assert () == encoded.losses


def test_fields_of_another_dialect_are_reported_as_lost_or_refused() -> None:
    fields = {"context_management": Raw(b'{"edits":[]}'), "betas": Raw(b"[]")}
    _, encoded = encode(foreign(user(), extensions=fields))

    assert [("field_dropped", "$.context_management")] == [(x.code, x.path) for x in encoded.losses]
    with pytest.raises(UntranslatableError) as caught:
        encode(foreign(user(), extensions={"container": Raw(b'[{"url":"x"}]')}))
    assert "$.container" == caught.value.path


def test_several_answers_only_for_a_client_of_the_dialect() -> None:
    with pytest.raises(UntranslatableError):
        encode(foreign(user(), count=2))


def test_unknown_conversation_and_empty_answers_are_refused() -> None:
    with pytest.raises(UntranslatableError) as caught:
        encode(Request(dialect="responses", model="m", previous_id="resp_1"))
    assert ("$.previous_response_id", "previous_response_not_found") == (
        caught.value.path,
        caught.value.code,
    )
    with pytest.raises(UntranslatableError):
        encode(foreign(user(), max_output=0))


@pytest.mark.parametrize(
    ("profile", "fields", "expected", "lost"),
    [
        (Profile(name="x"), {"max_output": 9}, {"max_tokens": 9}, []),
        (
            Profile(name="x", max_tokens_field="max_completion_tokens"),
            {"max_output": 9},
            {"max_completion_tokens": 9},
            [],
        ),
        (
            Profile(name="x", max_output_tokens=5),
            {"max_output": 9},
            {"max_tokens": 5},
            ["value_clamped"],
        ),
        (
            Profile(name="x"),
            {"sampling": Sampling(temperature=1.0, top_p=0.9)},
            {"temperature": 1.0, "top_p": 0.9},
            [],
        ),
        (
            Profile(name="x", drop_sampling=True),
            {"sampling": Sampling(temperature=0.0)},
            {},
            ["sampling_dropped"],
        ),
        (
            Profile(name="x", max_temperature=1.0),
            {"sampling": Sampling(temperature=1.5)},
            {"temperature": 1.0},
            ["value_clamped"],
        ),
        (Profile(name="x"), {"sampling": Sampling(top_k=5)}, {}, ["sampling_dropped"]),
        (
            Profile(name="x", vendor_sampling=True),
            {"sampling": Sampling(top_k=5)},
            {"top_k": 5},
            [],
        ),
        (
            Profile(name="x", seed_field="random_seed"),
            {"sampling": Sampling(seed=5)},
            {"random_seed": 5},
            [],
        ),
        (
            Profile(name="x", seed_field="none"),
            {"sampling": Sampling(seed=5)},
            {},
            ["sampling_dropped"],
        ),
        (
            Profile(name="x"),
            {"stream": True},
            {"stream": True, "stream_options": {"include_usage": True}},
            [],
        ),
        (Profile(name="x", stream_usage=False), {"stream": True}, {"stream": True}, []),
        (Profile(name="x"), {"logprobs": True}, {"logprobs": True}, []),
        (Profile(name="x", supports_logprobs=False), {"logprobs": True}, {}, ["logprobs_dropped"]),
        (Profile(name="x"), {"verbosity": "low"}, {}, ["field_dropped"]),
        (
            Profile(name="x", supports_verbosity=True),
            {"verbosity": "low"},
            {"verbosity": "low"},
            [],
        ),
        (Profile(name="x"), {"cache_key": "k"}, {}, []),
        (
            Profile(name="x", supports_cache_key=True),
            {"cache_key": "k"},
            {"prompt_cache_key": "k"},
            [],
        ),
        (Profile(name="x"), {"tier": "flex"}, {}, ["field_dropped"]),
        (Profile(name="x"), {"tier": "auto"}, {}, []),
        (Profile(name="x", supports_store=True), {"tier": "flex"}, {"service_tier": "flex"}, []),
        (Profile(name="x"), {"user_id": "ann"}, {"user": "ann"}, []),
        (
            Profile(name="x", user_field="safety_identifier"),
            {"user_id": "ann"},
            {"safety_identifier": "ann"},
            [],
        ),
        (Profile(name="x", user_field="none"), {"user_id": "ann"}, {}, ["user_id_dropped"]),
        (Profile(name="x", extra_fields=(("tool_stream", "true"),)), {}, {"tool_stream": True}, []),
    ],
)
def test_f11_fields_as_the_upstream_takes_them(
    profile: Profile, fields: dict, expected: dict, lost: list[str]
) -> None:
    body, encoded = encode(foreign(user(), **fields), profile)

    assert {"model": "m", "messages": [{"role": "user", "content": "hi"}], **expected} == body
    assert lost == codes(encoded.losses)


def test_s9_model_is_the_upstream_s() -> None:
    assert "theirs" == encode(foreign(user()), model="theirs")[0]["model"]


def test_user_id_with_something_inside_is_known_by_its_digest() -> None:
    body, _ = encode(foreign(user(), user_id='{"device":"x"}'))

    assert 64 == len(body["user"])
    assert body["user"].isalnum()


def test_stop_sequences_beyond_the_limit_are_matched_here() -> None:
    body, encoded = encode(foreign(user(), stop=("a", "b", "c", "d", "e")))

    assert ["a", "b", "c", "d"] == body["stop"]
    assert ("e",) == encoded.stop
    assert ["stop_emulated"] == codes(encoded.losses)


SCHEMA = Raw(
    b'{"$schema":"x","type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}'
)
BARE = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}


def asked(kind: str = "json_schema", **more: object) -> Request:
    schema = SCHEMA if kind == "json_schema" else None
    return foreign(user(), format=OutputFormat(kind=kind, schema=schema, **more))


def test_json_schema_as_the_upstream_takes_it() -> None:
    native, _ = encode(asked())
    strict, _ = encode(asked(), Profile(name="x", supports_strict=True))
    weak, weaker = encode(asked(), Profile(name="x", json_schema="json_object"))
    instructed, teller = encode(asked(), Profile(name="x", json_schema="instruction"))

    assert {"name": "output", "schema": BARE} == native["response_format"]["json_schema"]
    assert strict["response_format"]["json_schema"]["strict"] is True
    assert {"type": "json_object"} == weak["response_format"]
    assert "response_format" not in instructed
    for body, encoded in ((weak, weaker), (instructed, teller)):
        assert '"required":["a"]' in body["messages"][0]["content"]
        assert ["schema_not_enforced"] == codes(encoded.losses)


def test_schema_that_is_not_strict_is_not_called_so() -> None:
    loose = foreign(
        user(), format=OutputFormat(kind="json_schema", schema=Raw(b'{"type":"object"}'))
    )
    body, _ = encode(loose, Profile(name="x", supports_strict=True))

    assert body["response_format"]["json_schema"]["strict"] is False


def test_json_object_as_the_upstream_takes_it() -> None:
    native, _ = encode(asked("json_object"))
    instructed, encoded = encode(asked("json_object"), Profile(name="x", json_schema="instruction"))

    assert {"type": "json_object"} == native["response_format"]
    assert "JSON object" in instructed["messages"][0]["content"]
    assert ["json_object_emulated"] == codes(encoded.losses)


def test_strict_target_refuses_what_would_be_lost() -> None:
    request = foreign(user(), sampling=Sampling(top_k=5))

    with pytest.raises(UntranslatableError) as caught:
        encode(request, strict=True)

    assert ("$.top_k", "sampling_dropped") == (caught.value.path, caught.value.code)


def test_h2_s_4_equal_requests_give_equal_bytes() -> None:
    tools = (Tool(name="f", schema=Raw(b'{"b" : 1,"a":2}')),)
    request = foreign(user(), system=(TextPart("s"),), tools=tools, stream=True, user_id="u")

    bodies = {encode(request)[1].body for _ in range(3)}

    assert 1 == len(bodies)
    assert b'{"b" : 1,"a":2}' in bodies.pop()


def test_chat_request_returns_as_it_was() -> None:
    given = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                ],
            },
            {
                "role": "assistant",
                "content": "ok",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": "thanks", "name": "ann"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "reasoning_effort": "low",
    }

    body, encoded = encode(decode(given), PLAIN)

    assert given == body
    assert () == encoded.losses
    assert msgspec.json.encode(given["messages"][2]) in encoded.body
