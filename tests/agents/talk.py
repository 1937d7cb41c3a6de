"""One run of an agent through the gateway, with a model that says exactly what a test wants."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import structs

from dragoman.gateway.config.settings import Settings
from dragoman.simulator.exchanges import RecordedExchange
from dragoman.simulator.script import Match, Script, ScriptCall, ScriptReply
from tests.agents.programs import Program
from tests.agents.stage import Ran, Stage
from tests.support.gateway import Stand, settings_for, stand
from tests.support.received import Received, received

PROMPT = "Do what has to be done here."
DONE = "All of it is done."
# Clients mark how far a prefix may be cached, and move the mark along; it is no part of the prompt.
_MARK = re.compile(rb',?"cache_control":\{[^{}]*\}')


class Says(NamedTuple):
    """One answer of the model."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptCall, ...] = ()
    quirks: tuple[str, ...] = ()  # of this answer alone


class Talk(NamedTuple):
    """How the agent ended, and what the simulator received, without small tasks such as titles."""

    ran: Ran
    asked: list[RecordedExchange]
    log: str  # of the gateway

    @property
    def last(self) -> Received:
        return received(self.asked[-1])


def talk(
    program: Program,
    stage: Stage,
    upstream: tuple[str, str],
    says: list[Says],
    *,
    quirks: str = "",
    profile: str = "generic",
    prompt: str = PROMPT,
) -> Talk:
    """Let an agent work with an upstream's dialect and model."""
    dialect, model = upstream
    with serving(model, says, first=program.first, profile=profile) as both:
        start = program.start(stage, both.url, f"{dialect}/{model}{quirks}", prompt)
        ran = stage.run(start.command, start.environ)
        return talk_of(both, model, ran)


@contextmanager
def serving(
    model: str, says: list[Says], *, first: int = 1, profile: str = "generic"
) -> Iterator[Stand]:
    """Run a gateway whose upstreams follow a script."""
    with stand(partial(_settings, profile), script=scripted(model, says, first)) as both:
        yield both


def talk_of(both: Stand, model: str, ran: Ran) -> Talk:
    """Return what happened, leaving aside what was asked of other models."""
    asked = [one for one in both.simulator.exchanges if model_of(one).startswith(model)]
    return Talk(ran, asked, both.log.getvalue())


def _settings(profile: str, url: str) -> Settings:
    settings = settings_for(url)
    upstreams = {
        name: structs.replace(one, profile=profile) for name, one in settings.upstreams.items()
    }
    return structs.replace(settings, upstreams=upstreams)


def scripted(model: str, says: list[Says], first: int) -> Script:
    replies = tuple(
        ScriptReply(
            match=Match(model=f"{model}*", turn=turn),
            text=one.text,
            reasoning=one.reasoning,
            calls=one.calls,
            quirks=one.quirks,
        )
        for turn, one in enumerate(says, first)
    )
    return Script(replies, {})


def model_of(exchange: RecordedExchange) -> str:
    body: Any = exchange.json
    _, named, rest = exchange.path.partition("/models/")
    if named:  # in Gemini the path names the model
        return unquote(rest.rpartition(":")[0])
    return body["model"] if isinstance(body, dict) else ""


class _Prompt(msgspec.Struct):
    tools: msgspec.Raw = msgspec.Raw(b"")
    system: msgspec.Raw = msgspec.Raw(b"")
    instructions: msgspec.Raw = msgspec.Raw(b"")
    messages: list[msgspec.Raw] = []
    input: list[msgspec.Raw] = []
    system_instruction: msgspec.Raw = msgspec.field(
        default=msgspec.Raw(b""), name="systemInstruction"
    )
    contents: list[msgspec.Raw] = []


def prompt_bytes(exchange: RecordedExchange) -> list[bytes]:
    """Return what a model is prompted with, in order, byte by byte and unchanged."""
    body = msgspec.json.decode(exchange.body, type=_Prompt)
    head = [body.tools, body.system, body.instructions, body.system_instruction]
    parts = [*head, *body.messages, *body.input, *body.contents]
    return [_MARK.sub(b"", bytes(part)) for part in parts]
