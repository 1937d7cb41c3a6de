"""What a client demands of a Chat Completions stream: everything that decides its legality is here.

Theory of operation.  Two coupled machines: one for the stream, one for each choice.  A chunk is read as
one or two steps of its choices (`role`, `delta`, `finish`); an absent key in a table is the violation.
Beside the tables: clients join all strings of a delta over the chunks, so a value that is sent once must
not be sent again; and each chunk's usage replaces the one before, so it comes last.
"""

from enum import StrEnum
from typing import Final

from dragoman.checker.findings import (
    COUNT,
    FRAMING_RULES,
    LIST,
    NAME,
    OBJECT,
    TEXT,
    Arguments,
    Ending,
    Field,
    Findings,
    Json,
    UsedIds,
    check_fields,
    count_block,
    list_at,
    nullable,
    number_at,
    object_at,
    one_of,
    shown,
    text_at,
)
from dragoman.limits import Limits

RULES: Final[dict[str, str]] = {
    **FRAMING_RULES,
    "no-event-name": "events have no name: many clients ignore events with one",
    "event-order": "a choice has a role, deltas, a finish reason; the usage comes after all of them",
    "required-field": "each chunk has the fields that its readers use, of their types",
    "same-id": "all chunks have the same id and time of creation",
    "role-once": "the role is sent in the first chunk of a choice and not again: clients join strings",
    "empty-choices-carry-usage": "only the usage chunk has no choices",
    "usage-last": "no chunk follows the one with the usage: clients would overwrite the usage",
    "usage-counts": "the usage has prompt, completion and total tokens",
    "tool-index-contiguous": "calls have the indexes 0, 1, 2, … in the order they begin",
    "call-head": "the first delta of a call has its id, type and name",
    "id-once": "the id of a call is sent once: clients join strings",
    "name-once": "the name of a call is sent once: clients join strings",
    "call-id-unique": "no two calls have the same id",
    "partial-json-prefix": "the arguments of a call are a prefix of a JSON object after every delta",
    "arguments-whole": "the arguments of each call are a complete object at the finish, unless the finish"
    " reason is `length` or `content_filter`",
    "finish-reason-known": "the finish reason is one that Chat Completions has",
    "finish-reason-fits-calls": "`tool_calls` is not sent without a call, nor `stop` with one, unless the"
    " model refused",
    "done-marker": "`[DONE]` ends an answer, after the finish of every choice",
}


class State(StrEnum):
    OPEN = "the answer is open"
    COUNTED = "the usage was sent"
    FAILED = "an error was sent"
    ENDED = "`[DONE]` was sent"


class ChatStep(StrEnum):
    CHUNK = "chunk"
    USAGE = "usage chunk"
    ERROR = "error"
    DONE = "[DONE]"


STREAM: Final[dict[State, dict[ChatStep, State]]] = {
    State.OPEN: {
        ChatStep.CHUNK: State.OPEN,
        ChatStep.USAGE: State.COUNTED,
        ChatStep.ERROR: State.FAILED,
        ChatStep.DONE: State.ENDED,
    },
    State.COUNTED: {ChatStep.ERROR: State.FAILED, ChatStep.DONE: State.ENDED},
    State.FAILED: {ChatStep.DONE: State.ENDED},
    State.ENDED: {},
}


class ChoiceState(StrEnum):
    IDLE = "its role was not sent"
    OPEN = "it is open"
    FINISHED = "its finish reason was sent"


class ChoiceStep(StrEnum):
    ROLE = "role"
    DELTA = "delta"
    FINISH = "finish"


CHOICE: Final[dict[ChoiceState, dict[ChoiceStep, ChoiceState]]] = {
    ChoiceState.IDLE: {ChoiceStep.ROLE: ChoiceState.OPEN},
    ChoiceState.OPEN: {
        ChoiceStep.DELTA: ChoiceState.OPEN,
        ChoiceStep.FINISH: ChoiceState.FINISHED,
    },
    ChoiceState.FINISHED: {},
}

FINISH_REASONS: Final = frozenset(
    {"stop", "length", "tool_calls", "content_filter", "function_call"}
)
# Under these a call may be cut.
CUT_REASONS: Final = frozenset({"length", "content_filter"})

CHUNK: Final = (
    Field("id", NAME),
    Field("object", one_of("chat.completion.chunk")),
    Field("created", COUNT),
    Field("model", TEXT),
    Field("choices", LIST),
    Field("usage", nullable(OBJECT), optional=True),
)
CHOICE_FIELDS: Final = (
    Field("index", COUNT),
    Field("finish_reason", nullable(TEXT)),
    Field("delta", OBJECT),
    Field("delta.role", nullable(one_of("assistant")), optional=True),
    Field("delta.content", nullable(TEXT), optional=True),
    Field("delta.refusal", nullable(TEXT), optional=True),
    Field("delta.reasoning_content", nullable(TEXT), optional=True),
    Field("delta.reasoning", nullable(TEXT), optional=True),
    Field("delta.tool_calls", nullable(LIST), optional=True),
)
USAGE: Final = (
    Field("usage.prompt_tokens", COUNT, "usage-counts"),
    Field("usage.completion_tokens", COUNT, "usage-counts"),
    Field("usage.total_tokens", COUNT, "usage-counts"),
)
ERROR: Final = (Field("error", OBJECT), Field("error.message", TEXT))

# The first delta of a call, by its type, and those that follow.
CALL_HEADS: Final[dict[str, tuple[Field, ...]]] = {
    "function": (
        Field("id", NAME, "call-head"),
        Field("function", OBJECT, "call-head"),
        Field("function.name", NAME, "call-head"),
        Field("function.arguments", TEXT),
    ),
    "custom": (
        Field("id", NAME, "call-head"),
        Field("custom", OBJECT, "call-head"),
        Field("custom.name", NAME, "call-head"),
        Field("custom.input", TEXT),
    ),
}
CALL_TAIL: Final = (
    Field("function", OBJECT, optional=True),
    Field("function.arguments", TEXT, optional=True),
    Field("custom", OBJECT, optional=True),
    Field("custom.input", TEXT, optional=True),
)

# Fields of a delta whose text is a separate block to the user.
CHANNELS: Final = {
    "content": "text",
    "refusal": "refusal",
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
}


class CheckedChoice:
    """What is known of one choice."""

    def __init__(self) -> None:
        self.state = ChoiceState.IDLE
        self.calls: dict[int, Arguments | None] = {}  # by index; None for free-form input
        self.next_call = 0  # the expected index of a new call
        self.channels: set[str] = set()


class ChatGrammar:
    """Judge one Chat Completions stream."""

    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self.blocks: int = 0
        self.calls: int = 0
        self._findings = findings
        self._limits = limits
        self._state = State.OPEN
        self._choices: dict[int, CheckedChoice] = {}
        self._head: dict[str, object] | None = None  # what all chunks have in common
        self._call_ids = UsedIds("call-id-unique", "call")
        self._failed = False

    def read(self, name: str, event: Json, /) -> None:
        """Judge one chunk or error."""
        if name:
            self._findings.add("no-event-name", f"the event is named {shown(name)}")
        if event.get("error"):
            if self._step(ChatStep.ERROR):
                self._failed = True
                check_fields(ERROR, event, self._findings)
            return
        counted = event.get("usage") is not None
        choices = list_at(event, "choices")
        if not self._step(ChatStep.USAGE if counted else ChatStep.CHUNK):
            return
        check_fields(CHUNK, event, self._findings)
        self._check_head(event)
        for position, choice in enumerate(choices):
            self._read_choice(choice, f"$.choices[{position}]")
        if counted:
            check_fields(USAGE, event, self._findings)
            self._check_finished("event-order", "the usage is sent")
        elif choices == [] and isinstance(event.get("choices"), list):
            reason = "a chunk has neither choices nor usage"
            self._findings.add("empty-choices-carry-usage", reason, "$.choices")

    def read_done(self) -> None:
        """Judge the marker of the end."""
        if self._step(ChatStep.DONE) and not self._failed:
            self._check_finished("done-marker", "`[DONE]` is sent")

    def end(self) -> Ending:
        """Judge the end of the input."""
        if self._failed:
            return Ending.FAILURE
        if not self._finished:
            if self._state is not State.ENDED:
                self._findings.add("truncated", f"the stream stops while {self._state}")
            return Ending.TRUNCATED
        if self._state is not State.ENDED:
            self._findings.add("done-marker", "the stream stops before `[DONE]`")
        return Ending.FINISH

    @property
    def _finished(self) -> bool:
        states = [choice.state for choice in self._choices.values()]
        return bool(states) and all(state is ChoiceState.FINISHED for state in states)

    def _step(self, step: ChatStep) -> bool:
        """Follow the stream's table; return whether the event is worth a closer look."""
        following = STREAM[self._state].get(step)
        if following is not None:
            self._state = following
            return True
        if self._state is State.COUNTED:
            self._findings.add("usage-last", f"a {step} comes after the usage")
            return True
        self._findings.add("nothing-after-end", f"a {step} comes after {self._state}")
        return False

    def _check_finished(self, rule: str, what: str) -> None:
        if not self._finished:
            self._findings.add(rule, f"{what} before every choice has a finish reason")

    def _check_head(self, event: Json) -> None:
        head = {key: event.get(key) for key in ("id", "created")}
        if self._head is None:
            self._head = head
        for key, value in head.items():
            if value != self._head[key] and key in event:
                reason = f"`{key}` was {shown(self._head[key])} and is {shown(value)} now"
                self._findings.add("same-id", reason, f"$.{key}")

    def _read_choice(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            self._findings.add("required-field", f"a choice is {shown(value)}, not an object", path)
            return
        check_fields(CHOICE_FIELDS, value, self._findings, root=path)
        index = number_at(value, "index") or 0
        choice = self._choices.get(index)
        if choice is None:
            count_block(len(self._choices), self._limits)
            choice = self._choices[index] = CheckedChoice()
        delta = object_at(value, "delta")
        finish = text_at(value, "finish_reason")
        if delta.get("role") is not None:
            self._step_choice(choice, ChoiceStep.ROLE, path)
        elif not finish or choice.state is ChoiceState.IDLE:
            self._step_choice(choice, ChoiceStep.DELTA, path)
        self._read_channels(choice, delta)
        for position, call in enumerate(list_at(delta, "tool_calls")):
            self._read_call(choice, call, f"{path}.delta.tool_calls[{position}]")
        if isinstance(value.get("finish_reason"), str) and self._step_choice(
            choice, ChoiceStep.FINISH, path
        ):
            self._finish(choice, finish, path)

    def _step_choice(self, choice: CheckedChoice, step: ChoiceStep, path: str) -> bool:
        """Follow the choice's table; return whether the step was legal."""
        following = CHOICE[choice.state].get(step)
        if following is not None:
            choice.state = following
            return True
        if step is ChoiceStep.ROLE or choice.state is ChoiceState.IDLE:
            reason = f"a {step} comes for a choice while {choice.state}"
            self._findings.add("role-once", reason, f"{path}.delta.role")
        else:
            reason = f"a {step} comes for a choice although {choice.state}"
            self._findings.add("event-order", reason, path)
        if choice.state is ChoiceState.IDLE:
            choice.state = ChoiceState.OPEN
        return False

    def _read_channels(self, choice: CheckedChoice, delta: Json) -> None:
        for field, channel in CHANNELS.items():
            if text_at(delta, field) and channel not in choice.channels:
                choice.channels.add(channel)
                self.blocks = count_block(self.blocks, self._limits)

    def _read_call(self, choice: CheckedChoice, value: object, path: str) -> None:
        if not isinstance(value, dict):
            self._findings.add("required-field", f"a call is {shown(value)}, not an object", path)
            return
        check_fields((Field("index", COUNT),), value, self._findings, root=path)
        index = number_at(value, "index") or 0
        if index in choice.calls:
            check_fields(CALL_TAIL, value, self._findings, root=path)
            for key, rule in (("id", "id-once"), ("function.name", "name-once")):
                if text_at(value, key):
                    reason = f"`{key}` of call {index} is sent again"
                    self._findings.add(rule, reason, f"{path}.{key}")
        else:
            self._begin_call(choice, index, value, path)
        arguments = choice.calls[index]
        if arguments is not None:
            fragment = text_at(value, "function.arguments")
            arguments.feed(fragment, self._findings, f"{path}.function.arguments")

    def _begin_call(self, choice: CheckedChoice, index: int, value: Json, path: str) -> None:
        if index != choice.next_call:
            reason = f"call {index} begins where {choice.next_call} is next"
            self._findings.add("tool-index-contiguous", reason, f"{path}.index")
        choice.next_call = index + 1
        kind = text_at(value, "type")
        if kind not in CALL_HEADS:
            reason = f"the type of call {index} is {shown(value.get('type'))}"
            self._findings.add("call-head", reason, f"{path}.type")
            kind = "custom" if "custom" in value else "function"
        check_fields(CALL_HEADS[kind], value, self._findings, root=path)
        self._call_ids.add(text_at(value, "id"), self._findings, f"{path}.id")
        self.blocks = count_block(self.blocks, self._limits)
        self.calls += 1
        choice.calls[index] = Arguments(self._limits) if kind == "function" else None

    def _finish(self, choice: CheckedChoice, reason: str, path: str) -> None:
        path = f"{path}.finish_reason"
        if reason not in FINISH_REASONS:
            reason_text = f"there is no finish reason {shown(reason)}"
            self._findings.add("finish-reason-known", reason_text, path)
        if reason == "tool_calls" and not choice.calls:
            reason_text = "`tool_calls` although there is no call"
            self._findings.add("finish-reason-fits-calls", reason_text, path)
        if reason == "stop" and choice.calls and "refusal" not in choice.channels:
            reason_text = "`stop` although there are calls"
            self._findings.add("finish-reason-fits-calls", reason_text, path)
        if reason in CUT_REASONS:
            return
        for index, arguments in choice.calls.items():
            if arguments is not None and not (arguments.broken or arguments.whole):
                reason_text = f"the arguments of call {index} are not a whole object"
                self._findings.add("arguments-whole", reason_text, path)


GRAMMAR: Final = ChatGrammar
