"""Reasoning of the history: who gets it back, and in which field."""

import msgspec
import pytest

from dragoman.context import Rendering
from dragoman.dialects.chat import DIALECT
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import fold
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Finish,
    FinishReason,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.request import (
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    ReasoningSettings,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from tests.unit.dialects.chat.support import codes, decode, encode, exchange, foreign, user

SIGNED = OpaqueState(OpaqueKind.SIGNATURE, "SIG", "anthropic")


def thought(text: str, *states: OpaqueState) -> ReasoningPart:
    return ReasoningPart((ReasoningSegment(text),) if text else (), states)


def called(call_id: str, *before: object) -> tuple[Turn, Turn]:
    parts = (*before, ToolCallPart(call_id, "f", "{}"))
    return Turn(Role.ASSISTANT, parts), Turn(
        Role.USER, (ToolResultPart(call_id, (TextPart("r"),)),)
    )


def replayed(*turns: Turn, profile: Profile, **fields: object) -> tuple[list, list[str]]:
    """Return the reasoning fields of each assistant message."""
    body, encoded = encode(foreign(*turns, **fields), profile)
    out = [
        {name: one[name] for name in one if name.startswith("reasoning")}
        for one in body["messages"]
        if one["role"] == "assistant"
    ]
    return out, codes(encoded.losses)


HISTORY = (
    user("one"),
    Turn(Role.ASSISTANT, (thought("A"), TextPart("a"))),
    user("two"),
    *called("x", thought("B")),
    Turn(Role.ASSISTANT, (thought("C"), TextPart("c"))),
    user("three"),
)


@pytest.mark.parametrize(
    ("policy", "expected", "lost"),
    [
        ("never", ["", "", ""], ["reasoning_dropped"]),
        ("tool_turns", ["", "B", ""], ["reasoning_dropped"]),
        ("always", ["A", "B", "C"], []),
        ("current_turn", ["", "", ""], ["reasoning_dropped"]),
    ],
)
def test_e3_r9_r10_policies(policy: str, expected: list[str], lost: list[str]) -> None:
    out, losses = replayed(*HISTORY, profile=Profile(name="x", replay_reasoning=policy))

    assert expected == [one.get("reasoning_content", "") for one in out]
    assert lost == losses


def test_current_turn_is_the_tool_loop_that_runs() -> None:
    turns = (*HISTORY[:-1], user("three"), *called("y", thought("D")), *called("z", thought("E")))

    out, _ = replayed(*turns, profile=Profile(name="x", replay_reasoning="current_turn"))

    assert ["", "", "", "D", "E"] == [one.get("reasoning_content", "") for one in out]


def test_e1_thinking_of_a_messages_client_becomes_the_upstream_s_field() -> None:
    turns = (user(), *called("x", thought("why", SIGNED)))
    for field in ("reasoning_content", "reasoning"):
        profile = Profile(name="x", replay_reasoning="tool_turns", reasoning_field=field)

        out, lost = replayed(*turns, profile=profile)

        assert [{field: "why"}] == out
        assert ["opaque_dropped"] == lost


def test_plain_reasoning_returns_without_a_word() -> None:
    plain = OpaqueState(OpaqueKind.PLAIN, "", "x")
    out, lost = replayed(
        user(),
        *called("x", thought("why", plain)),
        profile=Profile(name="x", replay_reasoning="always"),
    )

    assert [{"reasoning_content": "why"}] == out
    assert [] == lost


def test_r9_filler_where_reasoning_is_demanded_and_missing() -> None:
    profile = Profile(name="x", replay_reasoning="tool_turns", reasoning_filler=" ")
    turns = (user(), *called("x"), Turn(Role.ASSISTANT, (TextPart("a"),)), user())

    out, lost = replayed(*turns, profile=profile)
    off, none = replayed(
        *turns, profile=profile, reasoning=ReasoningSettings(mode="off", effort="none")
    )

    assert [{"reasoning_content": " "}, {}] == out
    assert ["reasoning_filled"] == lost
    assert [{}, {}] == off
    assert "reasoning_filled" not in none


def test_e2_later_calls_of_a_chain_carry_its_last_reasoning() -> None:
    profile = Profile(
        name="x", replay_reasoning="tool_turns", carry_reasoning=True, reasoning_filler=" "
    )
    turns = (
        user(),
        *called("x", thought("first")),
        *called("y"),
        *called("z", thought("second")),
        Turn(Role.ASSISTANT, (TextPart("done"),)),
        user("next"),
        *called("w"),
    )

    out, _ = replayed(*turns, profile=profile)

    carried = [one.get("reasoning_content", "") for one in out]
    assert ["first", "first", "second", "", " "] == carried


def test_e4_no_part_types_of_other_dialects_reach_the_upstream() -> None:
    redacted = ReasoningPart((), (OpaqueState(OpaqueKind.REDACTED, "DATA", "anthropic"),))
    _, encoded = encode(foreign(user(), *called("x", thought("why", SIGNED), redacted)))

    for word in (b"thinking", b"SIG", b"DATA", b"tool_use", b"tool_result"):
        assert word not in encoded.body


def test_r4_details_return_to_their_origin() -> None:
    data = '[{"type":"reasoning.text","text":"why","signature":"S","index":0}]'
    router = Profile(
        name="openrouter", replay_reasoning="always", reasoning_field="reasoning_details"
    )

    def out_for(origin: str) -> tuple[list, list[str]]:
        state = OpaqueState(OpaqueKind.DETAILS, data, origin)
        return replayed(user(), *called("x", thought("why", state)), profile=router)

    assert [{"reasoning_details": msgspec.json.decode(data)}] == out_for("openrouter")[0]
    assert [{"reasoning_details": msgspec.json.decode(data)}] == out_for("chat")[0]
    assert ([{}], ["opaque_dropped"]) == out_for("elsewhere")


def test_text_without_details_goes_into_the_plain_field() -> None:
    router = Profile(
        name="openrouter", replay_reasoning="always", reasoning_field="reasoning_details"
    )

    out, lost = replayed(user(), *called("x", thought("why")), profile=router)

    assert [{"reasoning": "why"}] == out
    assert [] == lost


# --- through a Chat client --------------------------------------------------------------------------


def history_of(message: dict) -> tuple[Turn, ...]:
    return decode({"messages": [{"role": "user", "content": "hi"}, message]}).turns


def test_reasoning_that_a_client_sends_back() -> None:
    for name in ("reasoning_content", "reasoning"):
        turns = history_of({"role": "assistant", "content": "a", name: "why"})
        assert thought("why") == turns[1].parts[0]


def test_r4_details_that_a_client_sends_back() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "s"},
        {"type": "reasoning.encrypted", "data": "E"},
    ]
    part = history_of({"role": "assistant", "content": "a", "reasoning_details": details})[1].parts[
        0
    ]

    assert (ReasoningSegment("s", Channel.SUMMARY),) == part.segments
    assert (OpaqueKind.DETAILS, "chat") == (part.opaque[0].kind, part.opaque[0].origin)


def test_e5_envelopes_in_details_open_again_and_never_go_upstream() -> None:
    known = exchange(rendering=Rendering(chat_reasoning="details"))
    events = [
        Start("m", "x", 1),
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "why"),
        Opaque(0, OpaqueKind.SIGNATURE, "SIG", "anthropic"),
        BlockEnd(0),
        BlockStart(1, BlockKind.REASONING),
        Opaque(1, OpaqueKind.REDACTED, "RED", "anthropic"),
        BlockEnd(1),
        BlockStart(2, BlockKind.TEXT),
        TextDelta(2, "so"),
        BlockEnd(2),
        Usage(1, 1, final=True),
        Finish(FinishReason.STOP),
    ]
    body = msgspec.json.decode(DIALECT.encode_body(fold(events), known, []))
    message = body["choices"][0]["message"]

    request = decode(
        {"messages": [{"role": "user", "content": "hi"}, message, {"role": "user", "content": "b"}]}
    )
    _, encoded = encode(
        request, Profile(name="x", replay_reasoning="always", reasoning_field="reasoning_details")
    )

    signed, redacted, _ = request.turns[1].parts
    assert (thought("why", SIGNED)) == signed
    assert (OpaqueState(OpaqueKind.REDACTED, "RED", "anthropic"),) == redacted.opaque
    assert b"dgm1." not in encoded.body


def test_e5_changed_text_makes_an_envelope_worthless() -> None:
    sealed = exchange().sealer.seal
    from dragoman.envelopes import Envelope, text_digest

    envelope = sealed(
        Envelope("anthropic", OpaqueKind.SIGNATURE, data="SIG", digest=text_digest("why"))
    )
    details = [{"type": "reasoning.text", "text": "changed", "signature": envelope}]
    request = decode(
        {"messages": [{"role": "assistant", "content": "a", "reasoning_details": details}]}
    )

    assert () == request.turns[0].parts[0].opaque
    assert ["opaque_invalid"] == codes(request.losses)
