"""A file of exact replies: the first reply that matches a request is sent.

[[replies]]
match = { model = "sim/*", contains = "weather", turn = 1, path = "/v1/messages" }
text = "It is sunny."
times = 1
"""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, MalformedError
from dragoman.simulator import quirks
from dragoman.simulator.answer import SimulatedAnswer, answer, request_ids
from dragoman.simulator.behaviour import directed_calls
from dragoman.simulator.conversation import DirectedCall, Prompt, prompts
from dragoman.simulator.model_names import parse_quirk
from dragoman.simulator.play import ReceivedRequest, Reply

_MAX_BYTES: Final = 64 * 1024 * 1024


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests a reply is for; an absent field matches every request."""

    model: str = "*"  # glob
    contains: str = ""  # in the user's last text
    returned: str = ""  # in a tool result anywhere in the conversation
    turn: int | None = None  # which answer of the conversation it would be, from 1
    path: str = "*"  # glob


class ScriptCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = {}  # text for a custom tool
    id: str = ""


class ScriptReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply: what the model says, or the bytes of a file."""

    match: Match = Match()
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptCall, ...] = ()
    quirks: tuple[str, ...] = ()
    raw: str = ""  # a file with the body, beside the script
    status: int = 200  # with `raw`
    headers: dict[str, str] = {}  # with `raw`
    times: int | None = None  # how often it is used; absent: unlimited

    def reply(self, asked: ReceivedRequest) -> Reply:
        """Return the reply that the model composes."""
        given = [DirectedCall(call.name, call.arguments) for call in self.calls]
        calls = tuple(
            msgspec.structs.replace(made, id=call.id or made.id)
            for made, call in zip(directed_calls(asked, given), self.calls, strict=True)
        )
        return Reply(
            reasoning=self.reasoning,
            text=self.text,
            calls=calls,
            finish="tool_calls" if calls else "stop",
        )

    @property
    def asked_quirks(self) -> tuple[tuple[str, str], ...]:
        return tuple(parse_quirk(one) for one in self.quirks)


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replies: tuple[ScriptReply, ...]


class Script:
    """The replies of a file, and how often each was used."""

    def __init__(self, replies: tuple[ScriptReply, ...], raw: dict[str, bytes]) -> None:
        self._replies = replies
        self._raw = raw  # the files that replies name
        self._uses = [0] * len(replies)

    def pick(self, asked: ReceivedRequest, path: str) -> ScriptReply | None:
        """Return the first reply that fits and is not used up, and count its use."""
        conversation = prompts(asked.request)
        for at, reply in enumerate(self._replies):
            match = reply.match
            if (
                fnmatchcase(asked.request.model, match.model)
                and fnmatchcase(path, match.path)
                and any(match.contains in text for text in (*conversation[-1].texts, ""))
                and _has_returned(conversation, match.returned)
                and match.turn in (None, len(conversation))
                and (reply.times is None or self._uses[at] < reply.times)
            ):
                self._uses[at] += 1
                return reply
        return None

    def answer(self, reply: ScriptReply, asked: ReceivedRequest, attempt: int) -> SimulatedAnswer:
        """Answer with a reply; `attempt` counts requests of the same bytes, from 1.

        Raises:
            MalformedError: a quirk's value is not one it takes.
        """
        if not reply.raw:
            chosen, more = reply.reply(asked), reply.asked_quirks
            return answer(asked, attempt, reply=chosen, more=more)
        body = self._raw[reply.raw]
        headers = request_ids(asked.id) | {"content-type": _content_type(reply.raw)}
        headers |= {name.lower(): value for name, value in reply.headers.items()}
        return SimulatedAnswer(status=reply.status, headers=headers, writes=[body], length=None)

    def reset(self) -> None:
        """Reset the counts of used replies."""
        self._uses = [0] * len(self._replies)


def _has_returned(conversation: list[Prompt], text: str) -> bool:
    return not text or any(text in one.text for prompt in conversation for one in prompt.results)


def load_script(path: Path) -> Script:
    """Read a script, TOML or JSON by the end of its name.

    Raises:
        ConfigError: it cannot be read, or is wrong somewhere; says where.
    """
    replies = _decode(path)
    raw: dict[str, bytes] = {}
    for at, reply in enumerate(replies):
        where = f"{path}: `replies[{at}]"
        for number, quirk in enumerate(reply.asked_quirks):
            try:
                quirks.check([quirk])
            except MalformedError as error:
                raise ConfigError(f"{where}.quirks[{number}]`: {error.reason}") from error
        if reply.raw and (reply.text or reply.reasoning or reply.calls or reply.quirks):
            raise ConfigError(f"{where}.raw`: use `raw` without text or quirks")
        if not reply.raw and (reply.status != 200 or reply.headers):
            raise ConfigError(
                f"{where}`: `status` and `headers` go with `raw`; for an error write "
                'quirks = ["error:429"]'
            )
        if reply.raw and reply.raw not in raw:
            raw[reply.raw] = _read(path.parent / reply.raw, f"{where}.raw`: ")
    return Script(replies, raw)


def _decode(path: Path) -> tuple[ScriptReply, ...]:
    data = _read(path, "")
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(data, type=_File).replies
        return msgspec.convert(tomllib.loads(data.decode()), _File).replies
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{path}: not {kind}: {error}") from error


def _read(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}cannot read {path}: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{where}{path} has more than {_MAX_BYTES} bytes")
    return data


def _content_type(name: str) -> str:
    return "application/json" if name.endswith(".json") else "text/event-stream; charset=utf-8"
