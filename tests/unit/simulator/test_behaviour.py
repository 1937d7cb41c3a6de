"""What the model says, and what directives make it say."""

import base64
import json
from typing import Any

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import MalformedError
from dragoman.simulator.answer import read
from dragoman.simulator.behaviour import compose
from dragoman.simulator.conversation import DirectedAnswer, DirectedCall, parse_directives
from dragoman.simulator.play import Reply, SimulatedImage, SimulatedSearch
from tests.support.simulator import CLOCK, SERVERS, WEATHER, answered, ask, question

each_dialect = pytest.mark.parametrize("dialect", DIALECT_NAMES)
TOOL_CHOICES: dict[str, dict[str, Any]] = {
    "chat": {
        "none": "none",
        "required": "required",
        "named": {"type": "function", "function": {"name": "get_time"}},
    },
    "anthropic": {
        "none": {"type": "none"},
        "required": {"type": "any"},
        "named": {"type": "tool", "name": "get_time"},
    },
    "responses": {
        "none": "none",
        "required": "required",
        "named": {"type": "function", "name": "get_time"},
    },
    "gemini": {
        "none": {"mode": "NONE"},
        "required": {"mode": "ANY"},
        "named": {"mode": "ANY", "allowedFunctionNames": ["get_time"]},
    },
}


def said(dialect: str, body: dict[str, Any]) -> Reply:
    return compose(read(dialect, json.dumps(body).encode()))


def called(reply: Reply) -> list[str]:
    return [call.name for call in reply.calls]


@each_dialect
def test_without_tools_it_answers_with_the_users_text(dialect: str) -> None:
    reply = said(dialect, question(dialect, text="Good\n morning"))

    assert reply.text.startswith(
        "You said: Good morning I count 2 words, and this is answer number 1."
    )
    assert ("", (), "stop") == (reply.reasoning, reply.calls, reply.finish)


def test_long_words_are_cut() -> None:
    reply = said("chat", question("chat", text="x" * 500))

    assert f"You said: {'x' * 120}… I count" in reply.text


@each_dialect
def test_tool_that_the_user_names_is_called_or_else_the_first(dialect: str) -> None:
    tools = [WEATHER, CLOCK]

    assert ["get_weather"] == called(said(dialect, question(dialect, text="Hi", tools=tools)))
    assert ["get_time"] == called(
        said(dialect, question(dialect, text="call get_time now", tools=tools))
    )


@each_dialect
@pytest.mark.parametrize(
    ("choice", "first", "after"),
    [
        ("none", [], []),
        ("required", ["get_weather"], ["get_weather"]),
        ("named", ["get_time"], ["get_time"]),
    ],
)
def test_choice_of_tools_is_honoured(
    dialect: str, choice: str, first: list[str], after: list[str]
) -> None:
    chosen: dict[str, Any] = {"tool_choice": TOOL_CHOICES[dialect][choice]}
    if dialect == "gemini":
        chosen = {"toolConfig": {"functionCallingConfig": TOOL_CHOICES[dialect][choice]}}
    body = question(dialect, tools=[WEATHER, CLOCK], **chosen)

    assert first == called(said(dialect, body))
    assert after == called(said(dialect, answered(dialect, body)))


def test_allowed_tools_are_the_only_ones() -> None:
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_time"}],
    }
    body = question("responses", tools=[WEATHER, CLOCK], tool_choice=allowed)

    assert ["get_time"] == called(said("responses", body))


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])  # Gemini has no such switch
def test_one_call_at_a_time_if_the_request_wants_it(dialect: str) -> None:
    one = {"parallel_tool_calls": False}
    if dialect == "anthropic":
        one = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    body = question(dialect, "plain+parallel:4", tools=[WEATHER], stream=False)

    many, single = ask(dialect, body).body, ask(dialect, body | one).body

    assert [4, 1] == [
        answer.count(b'"name":"get_weather"') - answer.count(b'"strict"')
        for answer in (many, single)
    ]


def test_ids_of_calls_differ_from_turn_to_turn() -> None:
    body = question("chat", tools=[WEATHER], tool_choice="required")

    ids = {
        call.id for asked in (body, answered("chat", body)) for call in said("chat", asked).calls
    }

    assert 2 == len(ids)


@pytest.mark.parametrize(
    ("dialect", "wish", "thinks"),
    [
        ("chat", {"reasoning_effort": "low"}, True),
        ("chat", {"reasoning_effort": "none"}, False),
        ("anthropic", {"thinking": {"type": "adaptive"}}, True),
        ("anthropic", {"thinking": {"type": "disabled"}}, False),
        ("responses", {"reasoning": {"summary": "auto"}}, True),
        ("responses", {"reasoning": {"effort": "none"}}, False),
    ],
)
def test_it_thinks_if_it_is_asked_to(dialect: str, wish: Any, thinks: bool) -> None:
    assert thinks == bool(said(dialect, question(dialect, **wish)).reasoning)


def test_answer_in_a_schema_fits_it() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    assert '{"city":"Paris"}' == said("chat", question("chat", response_format=form)).text
    assert '{"answer":"Hi"}' == (
        said("chat", question("chat", text="Hi", response_format={"type": "json_object"})).text
    )


def test_notes_of_agents_are_not_the_users_text() -> None:
    blocks = [
        {"type": "text", "text": "Hello"},
        {"type": "text", "text": "<system-reminder>\nbe kind\n</system-reminder>"},
    ]
    body = question("anthropic") | {"messages": [{"role": "user", "content": blocks}]}

    assert said("anthropic", body).text.startswith("You said: Hello ")


DIRECTED = """Do this:
  sim: think first I look
sim: call get_weather {"city": "Rome"}
sim: call get_time
sim: then
sim: say "two\\nlines"
sim: then
sim: call apply_patch "*** Begin"
"""


def test_directives_are_steps() -> None:
    assert [
        DirectedAnswer(
            think="first I look",
            calls=(DirectedCall("get_weather", {"city": "Rome"}), DirectedCall("get_time", {})),
        ),
        DirectedAnswer(text="two\nlines"),
        DirectedAnswer(calls=(DirectedCall("apply_patch", "*** Begin"),)),
    ] == parse_directives(DIRECTED)


@each_dialect
@pytest.mark.parametrize(
    "prompt",
    [
        # `opencode run` sends its argument in quotes, and escapes those inside.
        '"sim: call get_weather {\\"city\\": \\"Ro\\\\"me\\"}"',
        """'sim: call get_weather {"city": "Ro\\"me"}'""",
        '> sim: call get_weather {"city": "Ro\\"me"}',
        '"Look, please.\nsim: call get_weather {\\"city\\": \\"Ro\\\\"me\\"}"',
    ],
    ids=["double", "single", "markdown", "second line"],
)
def test_directives_work_in_a_quoted_prompt(dialect: str, prompt: str) -> None:
    (call,) = said(dialect, question(dialect, text=prompt, tools=[WEATHER])).calls

    assert ("get_weather", {"city": 'Ro"me'}) == (call.name, json.loads(call.arguments))


def test_text_that_only_mentions_directives_has_none() -> None:
    assert [] == parse_directives("Please sim: say nothing. My sim:card is lost.")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sim: dance", "no directive `sim: dance`"),
        ("sim: call", "needs the name"),
        ("sim: call f {", "not JSON"),
        ("sim: call f [1]", "neither an object nor a string"),
    ],
)
def test_directive_that_is_not_understood_is_refused(line: str, says: str) -> None:
    with pytest.raises(MalformedError, match=says):
        parse_directives(line)


@each_dialect
def test_directives_are_followed_step_by_step(dialect: str) -> None:
    first = question(dialect, text=DIRECTED, tools=[WEATHER])
    second = answered(dialect, first)
    third = answered(dialect, second)
    fourth = answered(dialect, third)

    replies = [said(dialect, body) for body in (first, second, third, fourth)]

    assert ["get_weather", "get_time"] == called(replies[0])
    assert ("first I look", "") == (replies[0].reasoning, replies[0].text)
    assert ("two\nlines", ()) == (replies[1].text, replies[1].calls)
    assert ["apply_patch"] == called(replies[2])
    assert replies[3].text.startswith("The tools have answered.")


def test_text_beside_results_does_not_end_the_steps() -> None:
    body = answered("anthropic", question("anthropic", text=DIRECTED, tools=[WEATHER]))
    body["messages"][-1]["content"].append(
        {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    )

    assert "two\nlines" == said("anthropic", body).text


def test_new_words_of_the_user_end_the_steps() -> None:
    body = question("chat", text=DIRECTED)
    body["messages"] += [
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "Hello"},
    ]

    assert said("chat", body).text.startswith("You said: Hello ")


NEEDED: dict[str, dict[str, Any]] = {
    "chat": {"tools": [{"type": "openrouter:web_search"}]},
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "responses": {"tools": [{"type": "web_search"}]},
    "gemini": {"tools": [{"googleSearch": {}}]},
}


@each_dialect
def test_a_request_that_needs_a_search_gets_one_for_the_users_words(dialect: str) -> None:
    reply = said(dialect, question(dialect, text="Snow in Oslo?") | NEEDED[dialect])

    assert ["Snow in Oslo?"] == [one.query for one in reply.searches]
    assert ("https://source1.example/snow-in-oslo", "Result 1 for snow-in-oslo") == reply.cited
    assert () == said(dialect, question(dialect, text="Snow in Oslo?")).searches


@each_dialect
def test_a_directive_makes_the_vendor_search(dialect: str) -> None:
    text = "sim: search oslo\nsim: search bergen\nsim: say Cold."

    reply = said(dialect, question(dialect, text=text))
    assert ["oslo", "bergen"] == [one.query for one in reply.searches]
    assert "Cold." == reply.text


def test_only_searches_of_words_have_words_in_their_addresses() -> None:
    assert "https://source1.example/nothing" == SimulatedSearch("東京").sources[0][0]


# --- MCP servers and images -----------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", SERVERS)
def test_the_first_server_is_called_if_the_request_or_a_directive_needs_it(
    dialect: str,
) -> None:
    text = 'sim: mcp find {"about": "tea"}\nsim: say Found.'
    plain, directed = (
        said(dialect, question(dialect, text=one) | SERVERS[dialect]) for one in ("Notes?", text)
    )

    assert [("notes", "list_notes")] == [(one.server, one.name) for one in plain.mcp_calls]
    (call,) = directed.mcp_calls
    assert ("notes", "find", {"about": "tea"}) == (
        call.server,
        call.name,
        json.loads(call.arguments),
    )
    assert "Found." == directed.text
    assert () == said(dialect, question(dialect, text=text)).mcp_calls


@pytest.mark.parametrize(
    ("dialect", "wish"),
    [
        ("responses", {"tools": [{"type": "image_generation"}]}),
        ("chat", {"tools": [{"type": "openrouter:image_generation"}]}),
        ("chat", {"modalities": ["image", "text"]}),
        ("gemini", {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}),
    ],
)
def test_a_request_that_asks_for_an_image_gets_one_of_the_users_words(
    dialect: str, wish: dict[str, Any]
) -> None:
    reply = said(dialect, question(dialect, text="A red square") | wish)

    assert (SimulatedImage("A red square"),) == reply.images
    assert reply.text.startswith("You said: A red square ")
    assert () == said(dialect, question(dialect, text="A red square")).images


@pytest.mark.parametrize("dialect", ["responses", "chat", "gemini"])
def test_a_directive_makes_the_vendor_draw(dialect: str) -> None:
    text = 'sim: image "a\\nb"\nsim: image c\nsim: say Two.'

    reply = said(dialect, question(dialect, text=text))
    assert ["a\nb", "c"] == [one.prompt for one in reply.images]
    assert "Two." == reply.text


def test_messages_refuses_an_image_because_it_has_no_place_for_one() -> None:
    with pytest.raises(MalformedError, match="Messages has no images"):
        said("anthropic", question("anthropic", text="sim: image a cat"))


def test_google_is_asked_for_images_but_not_for_sound() -> None:
    config = {"responseModalities": ["IMAGE", "AUDIO"]}

    with pytest.raises(MalformedError) as caught:
        said("gemini", question("gemini", generationConfig=config))
    assert "$.generationConfig.responseModalities" == caught.value.path


def test_images_of_different_prompts_are_different_files() -> None:
    one, same, other = (
        base64.b64decode(SimulatedImage(prompt).data) for prompt in ("a cat", "a cat", "a dog")
    )

    assert one == same != other
    assert one.startswith(b"\x89PNG\r\n\x1a\n")
    assert one.endswith(b"IEND\xaeB`\x82")
