"""Claude Code, which speaks Messages."""

import json
import sys

import pytest

from tests.agents.programs import ClaudeCode
from tests.agents.scenarios import Scenarios, assert_done, parametrize
from tests.agents.stage import Stage
from tests.agents.talk import DONE, PROMPT, Says, prompt_bytes, serving, talk, talk_of
from tests.support.received import received

pytest_generate_tests = parametrize


class TestClaudeCode(Scenarios):
    program = ClaudeCode()
    # After an error event in its first block it asks again without streaming, where this fault does not exist.
    lasting = ("error:500", "error-first", "cut:700")

    def test_every_call_has_an_id_of_its_own_at_the_agent(self, stage: Stage) -> None:
        calls = [self.program.shell(f"echo {n} >> turns.txt") for n in range(5)]

        done = talk(
            self.program,
            stage,
            ("anthropic", "plain"),
            [*(Says(calls=(call,)) for call in calls), Says(DONE)],
            quirks="+ids:call_0+structural",
        )

        assert_done(done)
        assert 5 == len(set(ids_seen(done.ran.out)))
        assert "0\n1\n2\n3\n4\n" == (stage.work / "turns.txt").read_text("utf-8")
        assert [call.arguments for call in calls] == [one for *_, one in done.last.calls]

    def test_signed_thinking_of_a_messages_upstream_comes_back_signed(self, stage: Stage) -> None:
        call = self.program.shell("echo looked")

        done = talk(
            self.program,
            stage,
            ("anthropic", "plain"),
            [Says(reasoning="I look around.", calls=(call,)), Says(DONE, reasoning="Done.")],
        )

        assert_done(done)
        assert ["I look around."] == list(done.last.reasoning)
        assert 1 == len([one for one in done.last.state if one])

    def test_yesterdays_prompt_is_a_prefix_of_todays(self, stage: Stage) -> None:
        call = self.program.shell("echo looked")

        with serving("glm-4.6", [Says(calls=(call,)), Says(DONE), Says(DONE)]) as both:
            start = self.program.start(stage, both.url, "chat/glm-4.6", PROMPT)
            stage.run(start.command, start.environ)
            again = self.program.start(stage, both.url, "chat/glm-4.6", "And once more.")
            ran = stage.run([*again.command, "--continue"], again.environ)
            done = talk_of(both, "glm-4.6", ran)

        assert_done(done)
        one, two, three = (prompt_bytes(exchange) for exchange in done.asked)
        assert one == two[: len(one)]
        assert two == three[: len(two)]
        assert 1 == len(received(done.asked[2]).results)

    def test_names_of_its_own_are_answered_by_the_model_of_a_route(self, stage: Stage) -> None:
        call = self.program.shell("echo looked > looked.txt")

        with serving("claude-sonnet-4-5", [Says(calls=(call,)), Says(DONE)]) as both:
            start = self.program.start(stage, both.url, "claude-sonnet-4-5", PROMPT)
            done = talk_of(both, "claude-sonnet-4-5", stage.run(start.command, start.environ))

        assert_done(done)
        assert (stage.work / "looked.txt").exists()

    def test_dragoman_run_starts_it(self, stage: Stage) -> None:
        call = self.program.shell("echo looked > looked.txt")

        with serving("kimi-k2", [Says(calls=(call,)), Says(DONE)]) as both:
            flags = ["--gateway", both.url, "--model", "chat/kimi-k2"]
            own = ["-p", PROMPT, "--allowedTools", "Bash"]
            ran = stage.run(
                [sys.executable, "-m", "dragoman.cli.main", "run", "claude", *flags, "--", *own]
            )
            done = talk_of(both, "kimi-k2", ran)

        assert_done(done)
        assert (stage.work / "looked.txt").exists()
        assert 2 == len(done.asked)

    @pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
    @pytest.mark.parametrize("fault", ["error-in", "cut"])
    def test_a_stream_that_breaks_in_its_first_block_is_asked_for_again(
        self, stage: Stage, dialect: str, fault: str
    ) -> None:
        call = self.program.shell("echo ran >> ran.txt")
        broken = Says("I will do it. " * 40, calls=(call,), quirks=("fail:1", fault))

        done = talk(self.program, stage, (dialect, "plain"), [broken, Says(DONE)])

        assert_done(done)
        assert "ran\n" == (stage.work / "ran.txt").read_text("utf-8")

    @pytest.mark.parametrize("fault", ["error-in", "cut"], ids=str)
    def test_a_stream_that_breaks_behind_a_finished_block_is_reported(
        self, stage: Stage, fault: str
    ) -> None:
        call = self.program.shell("echo ran >> ran.txt")

        done = talk(
            self.program,
            stage,
            self.failing,
            [Says("I will.", calls=(call,)), Says(DONE)],
            quirks=f"+fail:1+{fault}",
        )

        assert 0 != done.ran.code
        assert "API Error" in done.ran.out
        assert not (stage.work / "ran.txt").exists()


def ids_seen(out: str) -> list[str]:
    """Return the ids of calls that the agent reports."""
    lines = [json.loads(line) for line in out.splitlines()]
    blocks = [
        block for one in lines if one["type"] == "assistant" for block in one["message"]["content"]
    ]
    return [block["id"] for block in blocks if block["type"] == "tool_use"]
