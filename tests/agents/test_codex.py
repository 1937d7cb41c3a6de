"""Codex, which speaks Responses."""

from functools import partial

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Settings
from dragoman.simulator.script import ScriptCall
from tests.agents.programs import Codex
from tests.agents.scenarios import Scenarios, assert_done, parametrize
from tests.agents.stage import Stage
from tests.agents.talk import DONE, PROMPT, Says, Talk, scripted, talk, talk_of
from tests.support.gateway import settings_for, stand

pytest_generate_tests = parametrize

PATCH = """\
*** Begin Patch
*** Update File: old.txt
@@
 one
-two
+zwei, "quoted", with \\ and é
 three
*** End Patch
"""
CODE = 'const ran = await tools.exec_command({cmd: "echo ran > ran.txt; cat ran.txt"});\ntext(ran.output);\n'


class TestCodex(Scenarios):
    program = Codex()

    # Names that it knows bring other tools than those that it does not.

    @pytest.mark.parametrize("meant", ["chat/kimi-k2", "anthropic/minimax-m2", "responses/plain"])
    def test_a_free_form_patch_changes_a_file(self, stage: Stage, meant: str) -> None:
        file = stage.work / "old.txt"
        file.write_text("one\ntwo\nthree\n", "utf-8")
        call = ScriptCall(name="apply_patch", arguments=PATCH)

        done = self.talk_as(stage, "gpt-5.5", meant, call)

        assert_done(done)
        expected = 'one\nzwei, "quoted", with \\ and é\nthree\n'
        assert expected == file.read_text("utf-8")
        assert 2 == len(done.asked)
        assert b"M old.txt" in done.asked[1].body

    def test_a_host_without_custom_tools_gets_the_patch_as_a_function(self, stage: Stage) -> None:
        file = stage.work / "old.txt"
        file.write_text("one\ntwo\nthree\n", "utf-8")
        call = ScriptCall(name="apply_patch", arguments={"input": PATCH})
        meant = "responses/plain+refuses:custom-tools+refuses:server-tools"

        done = self.talk_as(stage, "gpt-5.5", meant, call)

        assert_done(done)
        assert 'one\nzwei, "quoted", with \\ and é\nthree\n' == file.read_text("utf-8")
        assert [200, 200] == [one.status for one in done.asked]
        assert [{"input": PATCH}] == [one for *_, one in done.last.calls]

    @pytest.mark.parametrize(
        ("meant", "name"),
        [
            ("chat/kimi-k2", "functions__exec"),
            ("anthropic/plain", "functions__exec"),
            ("responses/qwen3-coder", "functions__exec"),
            ("chat/plain", "exec"),  # as its prompt calls it
            ("anthropic/glm-4.7", "exec"),
        ],
    )
    def test_code_for_its_one_tool_is_run(self, stage: Stage, meant: str, name: str) -> None:
        call = ScriptCall(name=name, arguments=CODE)

        done = self.talk_as(stage, "gpt-6-astra", meant, call)

        assert_done(done)
        assert "ran\n" == (stage.work / "ran.txt").read_text("utf-8")
        assert 2 == len(done.asked)
        assert b"Script completed" in done.asked[1].body

    @pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
    def test_a_stream_that_breaks_behind_a_finished_message_is_asked_for_again(
        self, stage: Stage, dialect: str
    ) -> None:
        call = self.program.shell("echo ran >> ran.txt; true " + "x" * 2000)

        done = talk(
            self.program,
            stage,
            (dialect, "plain"),
            # The second request repeats the message that was finished, and ends with it.
            [Says("I will.", calls=(call,), quirks=("cut",)), Says(DONE)],
        )

        assert_done(done)
        assert not (stage.work / "ran.txt").exists()
        assert 2 == len(done.asked)
        assert b"I will." in done.asked[1].body

    @pytest.mark.parametrize("dialect", ["chat", "anthropic"])
    @pytest.mark.parametrize(
        ("fault", "requests"),
        # It repeats a request once after any status 5xx, and only then looks at the code.
        [(("fail:1", "error-in:529"), 2), (("fail:2", "error:529"), 3)],
        ids=["in a stream", "as a status"],
    )
    def test_an_overloaded_upstream_is_asked_again(
        self, stage: Stage, dialect: str, fault: tuple[str, ...], requests: int
    ) -> None:
        says = [Says(f"I have looked into it. {DONE}", quirks=fault)]

        done = talk(self.program, stage, (dialect, "plain"), says)

        assert_done(done)
        assert requests == done.log.count('"path":"/v1/responses"')

    def talk_as(self, stage: Stage, name: str, meant: str, call: ScriptCall) -> Talk:
        """Let it ask for a name that it knows, which means another model here."""
        model = meant.partition("/")[2]
        script = scripted(model, [Says(calls=(call,)), Says(DONE)], self.program.first)
        with stand(partial(aliased, name, meant), script=script) as both:
            start = self.program.start(stage, both.url, name, PROMPT)
            return talk_of(both, model, stage.run(start.command, start.environ))


def aliased(name: str, meant: str, url: str) -> Settings:
    return structs.replace(settings_for(url), aliases={name: meant})
