"""The vendors' own SDKs for Node, each with a small loop of tools."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.turn.answer import fold
from dragoman.turn.events import Event
from tests.agents.programs import LOOP, NodeLoop
from tests.agents.scenarios import Scenarios, parametrize
from tests.agents.stage import Stage
from tests.properties.strategies import streams
from tests.support.gemini_content import content, unsigned, written
from tests.support.sdks import joined_parts

pytest_generate_tests = parametrize


class Loop(Scenarios):
    passing = ("error:503",)  # what breaks inside a stream they tell, and ask no second time


class TestOpenaiChat(Loop):
    program = NodeLoop("npm openai (Chat)", "openai-chat")


class TestOpenaiResponses(Loop):
    program = NodeLoop("npm openai (Responses)", "openai-responses")


class TestAnthropic(Loop):
    program = NodeLoop("npm @anthropic-ai/sdk", "anthropic-messages")


class TestGoogleStream(Loop):
    program = NodeLoop("npm @google/genai (stream)", "google-stream")


class TestGoogleChats(Loop):
    program = NodeLoop("npm @google/genai (chats)", "google-chats")


@settings(
    max_examples=5,  # each starts Node and reads all of its streams
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(streams("gemini"), min_size=20, max_size=40))
def test_google_sdk_reads_the_content_that_was_written(
    stage: Stage, turns: list[list[Event]]
) -> None:
    given_streams = [written(events).decode() for events in turns]
    ran = stage.run(
        ["node", str(LOOP.with_name("read.mjs"))],
        {"DRAGOMAN_AGENTS": str(stage.installed)},
        stdin=json.dumps(given_streams),
    )

    assert 0 == ran.code, ran.err
    for events, read in zip(turns, json.loads(ran.out), strict=True):
        answer = fold(events)
        if answer.fault is not None:
            assert answer.fault.message in read["failure"]
        else:
            assert content(answer) == unsigned(joined_parts(read["parts"]))
