"""What every agent must get through; a test file of an agent says which program it is."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.agents.cells import cells_of
from tests.agents.programs import Program
from tests.agents.stage import Stage
from tests.agents.talk import DONE, Says, Talk, prompt_bytes, talk
from tests.support.gateway import DIALECTS
from tests.support.received import received

LINE = 'A line with "quotes", a \\ and an é.\n'
LARGE = LINE * (100 * 1024 // len(LINE.encode()) + 1)  # a little over 100 KB
# Gemini CLI ends a run, with exit code 0, where a model repeats itself.
LONG = " ".join(f"I will do step {step} of it." for step in range(24))


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a class's program with each of its cells."""
    if "cell" in metafunc.fixturenames:
        cells = cells_of(metafunc.cls.program.name)
        metafunc.parametrize("cell", cells, ids=["-".join(cell) for cell in cells])
    if "passing" in metafunc.fixturenames:
        metafunc.parametrize("passing", metafunc.cls.passing)


class Scenarios:
    """Tests that are the same for all agents."""

    program: Program
    thinker = ("chat", "kimi-k2-thinking")  # the upstream whose reasoning is carried
    failing = ("chat", "qwen3-coder")  # the upstream that fails
    lasting: tuple[str, ...] = ("error:500", "error-first", "error-in", "cut:700")
    passing: tuple[str, ...] = ("error:503", "cut")
    patient = False  # the agent retries a lasting failure for a minute or more
    most_requests = 12  # that a failing upstream may cost
    repeats = 5  # how often an upstream that gives all calls the same id is asked for one

    def test_a_task_of_three_turns_with_parallel_tools_is_done(
        self, stage: Stage, cell: tuple[str, str]
    ) -> None:
        shell = self.program.shell("echo from the shell > shell.txt; cat shell.txt")
        write = self.program.write(stage, "written.txt", "from the model\n")
        look = self.program.shell("cat written.txt")
        calls = (shell, write, look)

        done = talk(
            self.program,
            stage,
            cell,
            [Says("I will.", calls=(shell, write)), Says(calls=(look,)), Says(DONE)],
        )

        assert_done(done)
        assert "from the shell\n" == (stage.work / "shell.txt").read_text("utf-8")
        assert "from the model\n" == (stage.work / "written.txt").read_text("utf-8")
        assert [0, 2, 3] == [len(received(asked).results) for asked in done.asked]
        history = done.last
        assert [call.name for call in calls] == [name for _, name, _ in history.calls]
        assert [call.arguments for call in calls] == [one for *_, one in history.calls]
        assert history.ids == [call_id for call_id, _ in history.results]
        assert 3 == len(set(history.ids))
        assert "from the shell" in history.results[0][1]
        assert "from the model" in history.results[2][1]
        if cell[0] == "gemini":  # the other dialects have no names in results
            assert [call.name for call in calls] == list(history.result_names)
        # What a prefix cache of the upstream holds of a request is found again in the next one.
        prompts = [prompt_bytes(asked) for asked in done.asked]
        for earlier, later in pairwise(prompts):
            assert earlier == later[: len(earlier)]

    def test_a_call_with_100_kb_of_arguments_arrives_whole(self, stage: Stage) -> None:
        write = self.program.write(stage, "large.txt", LARGE)

        done = talk(
            self.program,
            stage,
            cells_of(self.program.name)[0],
            [Says(calls=(write,), quirks=("chunk:400",)), Says(DONE)],
        )

        assert_done(done)
        assert LARGE == (stage.work / "large.txt").read_text("utf-8")
        assert [write.arguments] == [one for *_, one in done.last.calls]

    def test_reasoning_is_carried_over_turns(self, stage: Stage) -> None:
        thoughts = ["First I look around.", "Now I write it down."]
        calls = [self.program.shell("echo looked"), self.program.shell("echo wrote")]

        done = talk(
            self.program,
            stage,
            self.thinker,
            [
                *(
                    Says(reasoning=one, calls=(call,))
                    for one, call in zip(thoughts, calls, strict=True)
                ),
                Says(DONE, reasoning="That was all."),
            ],
            profile="moonshot",
        )

        assert_done(done)
        assert thoughts == list(done.last.reasoning)
        assert 2 == len(done.last.results)

    @pytest.mark.parametrize("upstream", DIALECTS)
    def test_an_unknown_host_that_demands_reasoning_gets_it(
        self, stage: Stage, upstream: str
    ) -> None:
        thoughts = ["First I look around.", "Now I write it down."]
        calls = [self.program.shell("echo looked"), self.program.shell("echo wrote")]

        done = talk(
            self.program,
            stage,
            (upstream, "plain"),
            [
                *(
                    Says(reasoning=one, calls=(call,))
                    for one, call in zip(thoughts, calls, strict=True)
                ),
                Says(DONE, reasoning="That was all."),
            ],
            quirks="+needs-reasoning",
        )

        assert_done(done)
        # Some clients of Responses return the encrypted form alone.
        assert thoughts == list(done.last.reasoning)[:2] or 2 == len(done.last.state)
        assert 2 == len(done.last.results)

    def test_ids_stay_unique_although_the_upstream_repeats_them(self, stage: Stage) -> None:
        calls = [self.program.shell(f"echo {n} >> turns.txt") for n in range(self.repeats)]

        done = talk(
            self.program,
            stage,
            ("chat", "plain"),
            [*(Says(calls=(call,)) for call in calls), Says(DONE)],
            quirks="+ids:call_0+structural",
        )

        assert_done(done)
        expected = "".join(f"{n}\n" for n in range(self.repeats))
        assert expected == (stage.work / "turns.txt").read_text("utf-8")
        assert self.repeats + 1 == len(done.asked)
        assert [call.arguments for call in calls] == [one for *_, one in done.last.calls]
        assert done.last.ids == [call_id for call_id, _ in done.last.results]

    def test_an_upstream_that_always_fails_is_reported_and_ends_the_run(self, stage: Stage) -> None:
        """Meet all failures at the same time, because some agents retry each for a minute or two."""
        parts = {lasting: stage.part(f"failure-{at}") for at, lasting in enumerate(self.lasting)}
        with ThreadPoolExecutor(len(parts)) as pool:
            done = dict(zip(parts, pool.map(self.meet_failure, parts.values(), parts), strict=True))

        for lasting, one in done.items():
            assert not (parts[lasting].work / "ran.txt").exists(), lasting
            assert DONE not in one.ran.said, lasting
            assert 1 <= len(one.asked) <= self.most_requests, lasting
            self.judge_failure(one, lasting)

    def meet_failure(self, stage: Stage, lasting: str) -> Talk:
        call = self.program.shell("echo ran >> ran.txt")
        says = [Says(LONG, calls=(call,)), Says(DONE)]
        return talk(self.program, stage, self.failing, says, quirks=f"+{lasting}")

    def test_an_upstream_that_fails_once_before_or_inside_a_call_does_not_end_the_run(
        self, stage: Stage, passing: str
    ) -> None:
        call = self.program.shell("echo ran >> ran.txt")

        done = talk(
            self.program,
            stage,
            self.failing,
            # An agent may tell of the half call that it did not run, and so be a turn ahead.
            [Says(calls=(call,), quirks=("fail:1", passing)), Says(DONE), Says(DONE)],
        )

        assert_done(done)
        assert "ran\n" == (stage.work / "ran.txt").read_text("utf-8")
        assert len(done.asked) <= self.most_requests

    def judge_failure(self, done: Talk, lasting: str) -> None:
        """See that the agent said that it failed."""
        assert 0 != done.ran.code, lasting


def assert_done(done: Talk) -> None:
    assert 0 == done.ran.code, f"{done.ran.said}\n{done.log}"
    assert DONE in done.ran.out, f"{done.ran.said}\n{done.log}"
