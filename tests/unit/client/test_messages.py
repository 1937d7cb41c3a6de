"""Requests in few words."""

import base64
import json

import msgspec
import pytest

from dragoman import (
    MalformedError,
    MisuseError,
    answer_turn,
    assistant,
    request,
    result,
    system,
    tool,
    user,
)
from dragoman.client.encode import prepare
from dragoman.client.settings import Settings
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Citation, Fault, FaultKind, Opaque, OpaqueKind, Start
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Base64Source,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    ReasoningSettings,
    RefusalPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    UrlSource,
)

PNG = b"\x89PNG\r\n\x1a\n123"


def test_a_conversation_is_made_of_turns() -> None:
    asked = request(
        system("Be brief."),
        system("Be kind."),
        user("Look:", images=["https://example.org/a.png", PNG]),
        assistant("I see."),
        system("Go on."),
        result("c1", "12", is_error=True),
        model="m",
    )

    assert (TextPart("Be brief."), TextPart("Be kind.")) == asked.system
    assert [USER, ASSISTANT, SYSTEM, USER] == [turn.role for turn in asked.turns]
    assert (
        TextPart("Look:"),
        ImagePart(UrlSource("https://example.org/a.png")),
        ImagePart(Base64Source("image/png", base64.b64encode(PNG).decode())),
    ) == asked.turns[0].parts
    assert (ToolResultPart("c1", (TextPart("12"),), is_error=True),) == asked.turns[3].parts
    assert "m" == asked.model


def test_an_image_that_is_none_is_refused() -> None:
    with pytest.raises(MisuseError, match="neither PNG"):
        user(images=[b"%PDF"])


def test_what_a_request_asks_for_is_expressed_in_the_core_s_own_words() -> None:
    asked = request(
        user("x"),
        tools=[tool("look")],
        tool_choice="look",
        parallel=False,
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=["END"],
        reasoning="high",
        schema={"type": "object"},
    )

    assert ToolChoice("tool", "look") == asked.tool_choice
    assert asked.parallel is False
    assert 5 == asked.max_output
    assert (0.5, 0.9, 7) == (
        asked.sampling.temperature,
        asked.sampling.top_p,
        asked.sampling.seed,
    )
    assert ("END",) == asked.stop
    assert ReasoningSettings(mode="auto", effort="high") == asked.reasoning
    assert "json_schema" == asked.format.kind
    assert b'{"type":"object"}' == bytes(asked.format.schema)


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_choice_of_tools_may_be_a_word(choice: str) -> None:
    assert ToolChoice(choice) == request(user("x"), tool_choice=choice).tool_choice


def test_reasoning_may_be_switched_off_or_wished_for_exactly() -> None:
    wish = ReasoningSettings(mode="budget", budget=2000)

    assert ReasoningSettings(mode="off") == request(reasoning="off").reasoning
    assert wish is request(reasoning=wish).reasoning
    assert ReasoningSettings() == request().reasoning


@pytest.mark.parametrize("given", [{"type": "object"}, '{"type":"object"}', b'{"type":"object"}'])
def test_a_tool_may_be_a_name_and_a_schema(given) -> None:
    found = tool("f", description="does", schema=given, strict=True)

    assert ("f", "does", True) == (found.name, found.description, found.strict)
    assert b'{"type":"object"}' == bytes(found.schema)


def test_a_schema_given_as_text_stays_as_it_is() -> None:
    text = '{ "type" : "object" }'

    assert text.encode() == bytes(tool("f", schema=text).schema)

    def look() -> None: ...

    assert tool(look, schema=text).schema == tool("f", schema=text).schema


@pytest.mark.parametrize("given", ["no", b"\xff", "[1]", {"a": object()}])
def test_a_schema_that_is_no_json_object_is_refused(given) -> None:
    with pytest.raises(MisuseError, match="schema"):
        tool("f", schema=given)


def test_an_answer_becomes_a_turn_with_all_that_its_server_wants_back() -> None:
    raw = msgspec.Raw(b"{}")
    answer = Answer(
        Start(),
        (
            Block(
                BlockKind.REASONING,
                segments=(ReasoningSegment("Hm."),),
                opaque=(Opaque(0, OpaqueKind.SIGNATURE, "sig", "anthropic", "r1"),),
            ),
            Block(BlockKind.TEXT, "Hi", citations=(Citation(1, vendor="v", raw=raw),)),
            Block(
                BlockKind.TOOL_CALL,
                '{"a":1}',
                call_id="functions.f:0",
                name="f",
                namespace="n",
                opaque=(Opaque(2, OpaqueKind.TOOL_SIGNATURE, "s2", "gemini"),),
            ),
            Block(BlockKind.REFUSAL, "No."),
            Block(BlockKind.SERVER_CALL, vendor="v", raw=raw),
            Block(BlockKind.OPAQUE, vendor="v", raw=raw),
        ),
    )
    reasoning, text, call, refusal, server, opaque = answer_turn(answer).parts

    assert (
        ReasoningPart(
            (ReasoningSegment("Hm."),),
            (OpaqueState(OpaqueKind.SIGNATURE, "sig", "anthropic", "r1"),),
        )
        == reasoning
    )
    assert TextPart("Hi", citations=(raw,), vendor="v") == text
    assert isinstance(call, ToolCallPart)
    assert ("functions.f:0", "f", '{"a":1}', "n") == (
        call.id,
        call.name,
        call.arguments,
        call.namespace,
    )
    assert (OpaqueState(OpaqueKind.TOOL_SIGNATURE, "s2", "gemini"),) == call.opaque
    assert RefusalPart("No.") == refusal
    assert isinstance(server, ServerToolPart)
    assert isinstance(opaque, OpaquePart)


def test_an_answer_that_failed_is_not_built_upon() -> None:
    fault = Fault(FaultKind.TIMEOUT, "too late")

    with pytest.raises(MisuseError, match="too late"):
        answer_turn(Answer(Start(), fault=fault))


def test_a_call_that_was_cut_is_not_built_upon() -> None:
    block = Block(BlockKind.TOOL_CALL, '{"a', call_id="c1", name="f", complete=False)

    with pytest.raises(MisuseError, match="`c1` of `f` is incomplete"):
        answer_turn(Answer(Start(), (block,)))


def test_an_answer_has_its_text_reasoning_and_calls() -> None:
    call = Block(BlockKind.CUSTOM_CALL, "x", call_id="c", name="f")
    answer = Answer(
        Start(),
        (
            Block(BlockKind.REASONING, segments=(ReasoningSegment("a"), ReasoningSegment("b"))),
            Block(BlockKind.TEXT, "one"),
            call,
            Block(BlockKind.TEXT, " two"),
        ),
    )

    assert "one two" == answer.text
    assert "a\n\nb" == answer.reasoning
    assert (call,) == answer.call_blocks


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "f", "description": "does", "input_schema": {"type": "object"}},
        {"type": "function", "name": "f", "description": "does", "parameters": {"type": "object"}},
        {
            "type": "function",
            "function": {"name": "f", "description": "does", "parameters": {"type": "object"}},
        },
    ],
    ids=["anthropic", "responses", "chat"],
)
def test_a_tool_is_made_of_a_definition_of_any_dialect(definition: dict) -> None:
    made = tool(definition)

    assert ("f", "does", {"type": "object"}) == (
        made.name,
        made.description,
        json.loads(bytes(made.schema)),
    )
    assert (
        b'"f"'
        in prepare(request("x", tools=[made], model="m"), Settings("http://a"), stream=True).body
    )


def test_a_definition_that_fits_no_dialect_is_refused() -> None:
    with pytest.raises(MalformedError, match="fits no dialect"):
        tool({"a": 1})


def test_a_text_among_the_turns_is_a_user_turn() -> None:
    assert request(system("Be brief."), user("Hi")) == request(system("Be brief."), "Hi")


NAMESPACE = {
    "type": "namespace",
    "name": "files",
    "description": "Files.",
    "tools": [
        {"type": "function", "name": name, "parameters": {"type": "object"}} for name in "ab"
    ],
}


def unnamed(*, place: complex) -> None:
    """Do it."""


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: request([user("Hi")]),
            "a turn must be made by `user(…)` and the like, not `list`",
        ),
        (
            lambda: request({"role": "user"}),
            "a turn must be made by `user(…)` and the like, not `dict`",
        ),
        (
            lambda: request("Hi", tools=[unnamed]),
            "`unnamed`: the type of `place`, `complex`",
        ),
        (
            lambda: request("Hi", tools=[{"name": "f"}]),
            "`tools` holds `dict`: make a tool of it with",
        ),
        (lambda: request("Hi", temperature="hot"), "`temperature` is a number, not `str`"),
        (lambda: request("Hi", max_tokens=[]), "`max_tokens` is a number, not `list`"),
        (
            lambda: request("Hi", reasoning="very"),
            "`reasoning` is one of off, minimal, low, medium",
        ),
        (
            lambda: request("Hi", tool_choice="f"),
            "`tool_choice` names `f`, which is not a tool of this",
        ),
        (lambda: user(5), "a part is a text, an `ImagePart` or the like, not `int`"),
        (lambda: system(None), "a part is a text, an `ImagePart` or the like, not `NoneTy"),
        (lambda: result("c1", {"a": 1}), "a part is a text, an `ImagePart` or the like, not"),
        (lambda: tool(lambda a: a), "the function `<lambda>` has no name that a model can call"),
        (
            lambda: tool({"name": "f"}, description="does"),
            "a whole definition takes no other argument",
        ),
        (lambda: tool({"name": unnamed}), "a definition that is not JSON: "),
        (lambda: tool(NAMESPACE), "a definition of 2 tools: read it with `decode_tools`"),
        (lambda: tool(5), "`int` has no name that a model can call"),
        (lambda: tool(unnamed), "`unnamed`: the type of `place`, `complex`, has no JSON schema"),
    ],
)
def test_a_mistake_is_reported_in_words_of_the_caller(make, why: str) -> None:
    with pytest.raises(MisuseError) as caught:
        make()

    assert str(caught.value).startswith(why)
