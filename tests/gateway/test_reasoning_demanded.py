"""Unknown hosts (profile `generic`): reasoning goes back where it is wanted, in the field the host uses."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import FIXED_PATHS, Stand, settings_for, stand
from tests.support.received import received
from tests.support.simulator import WEATHER
from tests.support.talks import TALKS, ForgetfulChatTalk, MessagesTalk, ResponsesTalk, Said, Sdks

ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture
def unknown() -> Iterator[Stand]:
    """A gateway that has never seen its upstreams before."""
    with stand(settings_for) as found:
        yield found


class ForgetfulMessagesTalk(MessagesTalk):
    def _turn(self) -> Said:
        said = super()._turn()
        content = [one for one in self.history[-1]["content"] if one["type"] != "thinking"]
        self.history[-1] = {"role": "assistant", "content": content}
        return said


class ForgetfulResponsesTalk(ResponsesTalk):
    def _turn(self) -> Said:
        said = super()._turn()
        self.history = [one for one in self.history if one.get("type") != "reasoning"]
        return said


FORGETFUL = {
    "chat": ForgetfulChatTalk,
    "anthropic": ForgetfulMessagesTalk,
    "responses": ForgetfulResponsesTalk,
}
CLIENTS = [
    *((name, TALKS[name]) for name in FIXED_PATHS),
    *((f"forgetful-{name}", FORGETFUL[name]) for name in FIXED_PATHS),
]
clients = pytest.mark.parametrize(
    "talk", [one for _, one in CLIENTS], ids=[name for name, _ in CLIENTS]
)
upstreams = pytest.mark.parametrize("upstream", FIXED_PATHS)


def converse(found: Stand, talk: Any, model: str, *, stream: bool, rounds: int = 2) -> list[Any]:
    """Let a client call tools; return what the upstream took in the request after each call."""
    seen = []
    with Sdks(found.url) as sdks:
        client = sdks.anthropic if issubclass(talk, MessagesTalk) else sdks.openai
        conversation = talk(client, model, stream=stream, tools=(WEATHER,))
        for number in range(rounds):
            said = conversation.ask(f"How is it in Ulm? {number}")
            answered = conversation.answer(said, "sunny")
            assert conversation.done == answered.finish
            seen.append(received(found.simulator.exchanges[-1]))
    return seen


# A name of no known family, and one whose family wants its reasoning back.
@pytest.mark.parametrize("base", ["plain", "kimi-k2-thinking+structural"])
@upstreams
@clients
@ways
def test_a_host_that_demands_reasoning_gets_it(
    unknown: Stand, talk: Any, upstream: str, base: str, stream: bool
) -> None:
    seen = converse(unknown, talk, f"{upstream}/{base}+needs-reasoning", stream=stream)

    # Clients that send everything back also send what came before answers without calls.
    assert all(len(one.reasoning) > number for number, one in enumerate(seen))
    assert all(text.strip() for one in seen for text in one.reasoning)


class LastPieceTalk(TALKS["chat"]):
    """Keeps the last event of each field, as the `openai` package for Node does."""

    def _turn(self) -> Said:
        said = super()._turn()
        turn = self.history[-1]
        if "reasoning_content" in turn:
            self.history[-1] = turn | {"reasoning_content": turn["reasoning_content"][-4:]}
        return said


@ways
def test_a_client_that_returns_a_piece_of_reasoning_is_completed(
    unknown: Stand, stream: bool
) -> None:
    seen = converse(unknown, LastPieceTalk, "chat/plain+think", stream=stream)

    assert all(one.reasoning for one in seen)
    assert all(len(text) > 4 for one in seen for text in one.reasoning[:1])


def statuses(found: Stand) -> list[int]:
    return [one.status for one in found.simulator.exchanges]


FIELDS = ("reasoning_content", "reasoning", "reasoning_details")


@pytest.mark.parametrize("field", FIELDS)
@clients
@ways
def test_it_goes_back_in_the_field_that_the_host_used(
    unknown: Stand, talk: Any, field: str, stream: bool
) -> None:
    """A family that wants it gets it unasked: no request is refused."""
    model = f"chat/kimi-k2-thinking+structural+needs-reasoning+reasoning-field:{field}"
    converse(unknown, talk, model, stream=stream)

    turns = [one for one in unknown.simulator.exchanges[-1].json["messages"] if "tool_calls" in one]
    assert 2 == len(turns)
    assert all(one[field] for one in turns)
    if talk is not TALKS["chat"]:  # which sends a field of its own choice, at first
        assert {200} == set(statuses(unknown))


@clients
@ways
def test_a_host_that_refuses_reasoning_is_asked_once_more_without_it_and_remembered(
    unknown: Stand, talk: Any, stream: bool
) -> None:
    model = "chat/kimi-k2-thinking+structural+think+refuses:reasoning"
    seen = converse(unknown, talk, model, stream=stream)

    assert [(), ()] == [one.reasoning for one in seen]
    assert [200, 400, 200, 200, 200] == statuses(unknown)


@upstreams
@ways
def test_a_host_that_demands_reasoning_is_remembered(
    unknown: Stand, upstream: str, stream: bool
) -> None:
    """Of the first refusal alone: afterwards it gets what it wants at once."""
    converse(unknown, FORGETFUL["chat"], f"{upstream}/plain+needs-reasoning", stream=stream)

    assert [200, 200, 200] == [one for one in statuses(unknown) if one == 200][:3]
    assert statuses(unknown).count(400) <= 1


def test_a_model_of_no_such_family_gets_no_reasoning_unless_asked(unknown: Stand) -> None:
    seen = converse(unknown, TALKS["anthropic"], "chat/plain+think", stream=True)

    assert [(), ()] == [one.reasoning for one in seen]
    assert {200} == set(statuses(unknown))


def test_a_refusal_of_something_else_is_not_asked_again(unknown: Stand) -> None:
    model = "chat/kimi-k2+structural+refuses:tools"
    with Sdks(unknown.url) as sdks, pytest.raises(Exception, match="refuses `tools`"):
        sdks.talk("chat", model, stream=False, tools=(WEATHER,)).ask("Hello")

    assert [400] == statuses(unknown)
