"""The hard table: what an agent makes of a situation that is hard, through the gateway and without it.

A scripted model has to run one or more shell commands.  Its first answers have a fault; after them it answers
well, and goes on until each command has run.  The outcome follows from what can be observed from outside: the
exit code, the output, what the commands wrote, and how many requests came.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from dragoman.gateway.config.settings import Settings, Timeouts, Upstream
from dragoman.simulator.script import Match, Script, ScriptReply
from tests.agents.programs import Program
from tests.agents.stage import Ran, Stage, TooSlowError
from tests.agents.talk import DONE, PROMPT, model_of
from tests.support.gateway import Stand, settings_for, stand

DIRECT: Final = "direct"
MODEL: Final = "plain"
THINKER: Final = "kimi-k2-thinking"  # a model whose family wants its reasoning back

_SECONDS: Final = 240.0  # that a run may take; on a free machine most take two to ten
_IDLE: Final = 3.0  # seconds of silence after which the gateway gives a stream up
_FILE: Final = "ran.txt"
_TALK: Final = "I look at what is here, and then I do what has to be done. " * 4
_FILLING: Final = "and so on " * 40
# Everything in one write, and the reset a second later: what was not read by then would be lost.
_RESET: Final = ("batch:100000", "pace:1000", "reset:end")
_SHOWN_ERROR: Final = re.compile(r"error|failed|overload|unavailable|rate.limit", re.IGNORECASE)


class Outcome(StrEnum):
    """What the agent made of it, best first."""

    FINISHED = "finished"  # all commands ran, and no request was needed beyond the least
    RETRIED = "retried"  # the same, after more requests
    ERROR = "error"  # it gave up and showed an error
    SILENT = "silent"  # it ended as if all was well, but the commands had not run
    ENDLESS = "endless"  # it had not ended when the time was up
    HARM = "harm"  # it ran a part of a command, or a command twice

    @property
    def rank(self) -> int:
        """Return 0 for the best."""
        return list(Outcome).index(self)


class Situation(NamedTuple):
    """What the model does wrong."""

    says: str  # one line for the table
    quirks: tuple[str, ...] = ()  # of the faulty answers
    times: int | None = 1  # how many answers are faulty; None: all
    text: str = _TALK
    reasoning: str = ""
    steps: int = 1  # commands, each in an answer of its own
    calls: bool = True  # the faulty answers hold a call
    lasting: tuple[str, ...] = ()  # quirks of all answers
    model: str = MODEL


def _statuses() -> dict[str, Situation]:
    often = {"once": 1, "twice": 2, "always": None}
    return {
        f"{status} {word}": Situation(f"status {status}, {word}", (f"error:{status}",), times)
        for status in (429, 503, 529)
        for word, times in often.items()
    }


SITUATIONS: Final[Mapping[str, Situation]] = {
    "reset in first block": Situation(
        "the connection is reset in the first block", ("ends-in:first", *_RESET)
    ),
    "reset in later block": Situation(
        "the connection is reset in the second block",
        ("ends-in:text", *_RESET),
        reasoning="I think about it first. " * 4,
    ),
    "reset in call": Situation(
        "the connection is reset in the arguments of a call", ("ends-in:call", *_RESET)
    ),
    "error in text": Situation("an error event in the text", ("ends-in:first", "error-end:529")),
    "error in call": Situation(
        "an error event in the arguments of a call", ("ends-in:call", "error-end:529")
    ),
    "clean end in call": Situation(
        "the stream ends in the arguments of a call, without a finish reason", ("ends-in:call",)
    ),
    "stall": Situation("the stream stalls in the text", ("ends-in:first", "stall:end")),
    "length in call": Situation("the token limit ends the response inside a call", ("length",)),
    "cut arguments": Situation(
        "the arguments end inside a string, but the finish reason is that of a complete call",
        ("cut-args",),
    ),
    "broken arguments": Situation("the arguments are not JSON", ("bad-json-args",)),
    "quoted arguments": Situation(
        "the arguments are a JSON string that contains the object", ("quoted-args",)
    ),
    **_statuses(),
    "empty answer": Situation("an empty response", text="", calls=False),
    "no body": Situation("status 200 without a body", ("empty",)),
    "ids repeated": Situation(
        "every call of the conversation has the same id", times=0, steps=3, lasting=("ids:call_0",)
    ),
    "reasoning demanded": Situation(
        "the upstream refuses requests without the reasoning that preceded a call",
        times=0,
        reasoning="I think about it first.",
        steps=2,
        lasting=("structural", "needs-reasoning"),
        model=THINKER,
    ),
}


class Facts(NamedTuple):
    """What was observed of a run."""

    ended: bool  # within the time
    code: int
    out: str
    said: str  # on both outputs
    begun: list[str]  # commands whose first part ran
    whole: list[str]  # commands that ran to their end
    requests: int
    seconds: float = 0.0


def outcome(facts: Facts, situation: Situation) -> Outcome:
    """Judge a run by what was observed."""
    wanted = [str(step) for step in range(situation.steps)]
    partly = facts.begun != facts.whole
    if partly or len(set(facts.whole)) != len(facts.whole):
        return Outcome.HARM
    if not facts.ended:
        return Outcome.ENDLESS
    if facts.whole == wanted and facts.code == 0 and DONE in facts.out:
        more = facts.requests > situation.steps + 1
        return Outcome.RETRIED if more else Outcome.FINISHED
    shown = facts.code != 0 or _SHOWN_ERROR.search(facts.said)
    return Outcome.ERROR if shown else Outcome.SILENT


def run(program: Program, stage: Stage, situation: Situation, column: str) -> Facts:
    """Let an agent meet a situation: on an upstream of a dialect behind the gateway, or directly."""
    with stand(_settings, script=_script(program, situation)) as both:
        url, model = both.url, f"{column}/{situation.model}"
        if column == DIRECT:
            url, model = both.simulator.url, situation.model
        start = program.start(stage, url, model, PROMPT)
        try:
            ran: Ran | None = stage.run(start.command, start.environ, seconds=_SECONDS)
        except TooSlowError:
            ran = None
        return _facts(both, situation, stage.work / _FILE, ran)


def _facts(both: Stand, situation: Situation, file: Path, ran: Ran | None) -> Facts:
    asked = [one for one in both.simulator.exchanges if model_of(one) == situation.model]
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return Facts(
        ended=ran is not None,
        code=ran.code if ran else -1,
        out=ran.out if ran else "",
        said=ran.said if ran else "",
        begun=[line.partition(" ")[2] for line in lines if line.startswith("begun ")],
        whole=[line.partition(" ")[2] for line in lines if line.startswith("ended ")],
        requests=len(asked),
        seconds=ran.seconds if ran else _SECONDS,
    )


def _settings(url: str) -> Settings:
    """Return the gateway's settings: those that it has by default, but for a shorter patience."""
    settings = settings_for(url)
    change = partial(
        structs.replace, retries=_default("retries"), timeouts=Timeouts(idle=_IDLE), profile=""
    )
    return structs.replace(
        settings, upstreams={name: change(one) for name, one in settings.upstreams.items()}
    )


def _default(name: str) -> int:
    value = getattr(Upstream(base_url="http://127.0.0.1"), name)
    assert isinstance(value, int)
    return value


def _command(step: int) -> str:
    """Return a command whose first part leaves a trace, and whose result is not a part of its text."""
    first, last = f"echo begun {step} >> {_FILE}", f"echo ended {step} >> {_FILE}"
    # Gemini CLI refuses commands with `$(`.
    return f"{first}; : {_FILLING}; {last}; printf result-%d {1000 + step:#x}"


def _script(program: Program, situation: Situation) -> Script:
    last = situation.steps - 1
    replies = [
        ScriptReply(
            match=Match(model=situation.model, returned=f"result-{1000 + last}"),
            text=DONE,
            reasoning=situation.reasoning,
            quirks=situation.lasting,
        )
    ]
    for step in range(last, -1, -1):
        returned = f"result-{1000 + step - 1}" if step else ""
        match = Match(model=situation.model, returned=returned)
        call = program.shell(_command(step))
        if not step and situation.times != 0:
            replies.append(
                ScriptReply(
                    match=match,
                    text=situation.text,
                    reasoning=situation.reasoning,
                    calls=(call,) if situation.calls else (),
                    quirks=(*situation.lasting, *situation.quirks),
                    times=situation.times,
                )
            )
        replies.append(
            ScriptReply(
                match=match,
                text=_TALK,
                reasoning=situation.reasoning,
                calls=(call,),
                quirks=situation.lasting,
            )
        )
    return Script(tuple(replies), {})
