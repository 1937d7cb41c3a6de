"""What a client demands of a stream of `streamGenerateContent`: everything that decides its legality is here.

Theory of operation.  One machine follows the stream: chunks, one with the finish reason, and perhaps one more
with counts alone; or an error.  SDKs and Gemini CLI parse each event by hand and give up at a name, a comment
or `[DONE]`; the chats helper of the JavaScript SDK forgets an answer of which one chunk lacks its role or parts.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from dragoman.checker.findings import (
    COUNT,
    FRAMING_RULES,
    LIST,
    LIST_RULES,
    NAME,
    OBJECT,
    TEXT,
    Ending,
    Field,
    Findings,
    Json,
    UsedIds,
    check_fields,
    count_block,
    list_at,
    number_at,
    object_at,
    one_of,
    refuse_done,
    shown,
    text_at,
)
from dragoman.limits import Limits

RULES: Final[dict[str, str]] = {
    **FRAMING_RULES,
    **LIST_RULES,
    "no-event-name": "events have no name: SDKs read only lines that begin with `data: `",
    "no-comment": "there are no comments: the SDK for Python and Gemini CLI fail at them; blank lines keep a"
    " stream alive",
    "data-only": "events have no `id` and no `retry`: SDKs read only lines that begin with `data: `",
    "blank-after-data": "one blank follows `data:`: the SDK for Python fails without it",
    "one-line": "the data of an event are one line: the SDK for JavaScript fails at several",
    "line-ends": "lines end with LF, or CR and LF: the AI SDK loses the last event after a CR alone",
    "separators-escaped": "U+0085, U+2028 and U+2029 are escaped: the SDK for Python takes them for line ends",
    "required-field": "each chunk has a role and parts: an SDK forgets the whole answer without them",
    "one-payload": "each part has one payload, or a signature alone",
    "same-id": "all chunks have the same response id and model",
    "whole-call": "a call has its name and all of its arguments, as an object, in one part",
    "call-id-unique": "no two calls have the same id",
    "signature-base64": "a signature is base64: an SDK fails to read anything else",
    "finish-reason-known": "the finish reason is one that Google has",
    "finish-reason-fits-calls": "an answer with calls ends with `STOP`, unless it was truncated or filtered:"
    " clients run the calls only then",
    "usage-counts": "the counts come with the finish reason or after it, and their total is their sum",
    "done-marker": "`[DONE]` is not an event of this dialect",
}


class State(StrEnum):
    OPEN = "the answer is open"
    FINISHED = "the finish reason was sent"
    COUNTED = "the counts were sent"
    FAILED = "an error was sent"


class GeminiStep(StrEnum):
    CHUNK = "chunk"
    FINISH = "finish reason"
    USAGE = "chunk of counts"
    ERROR = "error"


STREAM: Final[dict[State, dict[GeminiStep, State]]] = {
    State.OPEN: {
        GeminiStep.CHUNK: State.OPEN,
        GeminiStep.FINISH: State.FINISHED,
        GeminiStep.ERROR: State.FAILED,
    },
    State.FINISHED: {GeminiStep.USAGE: State.COUNTED},
    State.COUNTED: {},
    State.FAILED: {},
}

FILTERED: Final = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "LANGUAGE",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
FINISH_REASONS: Final = FILTERED | {
    "STOP",
    "MAX_TOKENS",
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "OTHER",
    "NO_IMAGE",
    "IMAGE_OTHER",
    "CONTINUATION",
}
# Under these a client must expect that something is missing.
CUT_REASONS: Final = FILTERED | {"MAX_TOKENS"}

CHUNK: Final = (
    Field("candidates", LIST),
    Field("modelVersion", TEXT, optional=True),
    Field("responseId", TEXT, optional=True),
    Field("usageMetadata", OBJECT, "usage-counts", optional=True),
)
CANDIDATE: Final = (
    Field("content", OBJECT),
    Field("content.role", one_of("model")),
    Field("content.parts", LIST),
    Field("index", COUNT, optional=True),
    Field("finishReason", TEXT, optional=True),
)
USAGE: Final = tuple(
    Field(name, COUNT, "usage-counts", optional=name not in ("promptTokenCount", "totalTokenCount"))
    for name in (
        "promptTokenCount",
        "candidatesTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
        "totalTokenCount",
    )
)
SUMMED: Final = (
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)
CALL: Final = (
    Field("name", NAME, "whole-call"),
    Field("args", OBJECT, "whole-call"),
    Field("id", NAME, "whole-call", optional=True),
)
ERROR: Final = (
    Field("error", OBJECT),
    Field("error.code", COUNT),
    Field("error.message", TEXT),
    Field("error.status", NAME),
)
PAYLOADS: Final = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)


_BARE_CR: Final = re.compile(rb"\r(?!\n)")
_SEPARATORS: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


def judge_frame(raw: bytes, lines: Sequence[bytes], findings: Findings) -> None:
    """Judge the bytes of a frame: clients take them apart by hand."""
    fields = [line.partition(b":") for line in lines]
    if any(not name and colon for name, colon, _ in fields):
        findings.add("no-comment", "the event has, or is, a comment")
    for name, _, value in fields:
        if name == b"event":
            shown_name = shown(value.decode("utf-8", "replace").strip())
            findings.add("no-event-name", f"the event is named {shown_name}")
        elif name in (b"id", b"retry"):
            findings.add("data-only", f"a line begins with `{name.decode()}`")
    data = [value for name, _, value in fields if name == b"data"]
    if any(value[:1] != b" " for value in data):
        findings.add("blank-after-data", "`data:` is not followed by a blank")
    if len(data) > 1:
        findings.add("one-line", f"the data of the event are {len(data)} lines")
    if _BARE_CR.search(raw):
        findings.add("line-ends", "a line ends with a CR alone")
    if _SEPARATORS.search(raw):
        findings.add("separators-escaped", "a line or paragraph separator is not escaped")


class GeminiGrammar:
    """Judge one stream."""

    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self.blocks: int = 0
        self.calls: int = 0
        self._findings = findings
        self._limits = limits
        self._state = State.OPEN
        self._head: dict[str, object] = {}  # what all chunks have in common
        self._call_ids = UsedIds("call-id-unique", "call")
        self._kind = ""  # of the last part: neighbours of one kind are one block
        self._counted = False

    def read(self, _name: str, event: Json, /) -> None:
        """Judge one chunk or error; `judge_frame` has judged its name."""
        if "error" in event:
            if self._step(GeminiStep.ERROR):
                check_fields(ERROR, event, self._findings)
            return
        candidates = list_at(event, "candidates")
        first = candidates[0] if candidates and isinstance(candidates[0], dict) else {}
        step = GeminiStep.CHUNK
        if "finishReason" in first:
            step = GeminiStep.FINISH
        elif (
            self._state is State.FINISHED and "candidates" not in event and "usageMetadata" in event
        ):
            step = GeminiStep.USAGE
        if not self._step(step):
            return
        if step is not GeminiStep.USAGE:
            check_fields(CHUNK, event, self._findings)
            if isinstance(event.get("candidates"), list) and not candidates:
                self._findings.add("required-field", "a chunk has no candidates", "$.candidates")
        self._check_head(event)
        for position, candidate in enumerate(candidates):
            self._read_candidate(candidate, f"$.candidates[{position}]")
        if isinstance(event.get("usageMetadata"), dict):
            self._read_usage(object_at(event, "usageMetadata"))
        if step is GeminiStep.FINISH:
            self._finish(text_at(first, "finishReason"))

    def read_done(self) -> None:
        """Judge a marker that this dialect does not have."""
        refuse_done(self._findings)

    def end(self) -> Ending:
        """Judge the end of the input."""
        if self._state is State.FAILED:
            return Ending.FAILURE
        if self._state is State.OPEN:
            self._findings.add("truncated", f"the stream stops while {self._state}")
            return Ending.TRUNCATED
        if not self._counted:
            self._findings.add("usage-counts", "the stream ends without counts")
        return Ending.FINISH

    def _step(self, step: GeminiStep) -> bool:
        """Follow the stream's table; return whether the event is worth a closer look."""
        following = STREAM[self._state].get(step)
        if following is not None:
            self._state = following
            return True
        self._findings.add("nothing-after-end", f"a {step} comes although {self._state}")
        return False

    def _check_head(self, event: Json) -> None:
        for key in ("responseId", "modelVersion"):
            if key in event and event[key] != self._head.setdefault(key, event[key]):
                reason = f"`{key}` was {shown(self._head[key])} and is {shown(event[key])} now"
                self._findings.add("same-id", reason, f"$.{key}")

    def _read_candidate(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            self._findings.add(
                "required-field", f"a candidate is {shown(value)}, not an object", path
            )
            return
        check_fields(CANDIDATE, value, self._findings, root=path)
        parts = list_at(value, "content.parts")
        if isinstance(object_at(value, "content").get("parts"), list) and not parts:
            self._findings.add("required-field", "a chunk has no parts", f"{path}.content.parts")
        for position, part in enumerate(parts):
            self._read_part(part, f"{path}.content.parts[{position}]")

    def _read_part(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            self._findings.add("required-field", f"a part is {shown(value)}, not an object", path)
            return
        payloads = PAYLOADS & value.keys()
        signature = value.get("thoughtSignature")
        if len(payloads) > 1 or (not payloads and signature is None):
            found = ", ".join(sorted(payloads)) or "none"
            self._findings.add("one-payload", f"a part has these payloads: {found}", path)
        if signature is not None and not _is_base64(signature):
            reason = f"the signature is {shown(signature)}"
            self._findings.add("signature-base64", reason, f"{path}.thoughtSignature")
        if "text" in value and not isinstance(value["text"], str):
            reason = f"a text is {shown(value['text'])}"
            self._findings.add("required-field", reason, f"{path}.text")
        self._count(value, payloads)
        if "functionCall" in value:
            self._read_call(value["functionCall"], f"{path}.functionCall")

    def _count(self, part: Json, payloads: frozenset[str]) -> None:
        kind = "".join(sorted(payloads))
        if kind == "text":
            if not part["text"]:
                return
            kind = "thought" if part.get("thought") else "text"
        if kind and (kind not in ("text", "thought") or kind != self._kind):
            self.blocks = count_block(self.blocks, self._limits)
        self._kind = kind or self._kind

    def _read_call(self, call: object, path: str) -> None:
        self.calls += 1
        if not isinstance(call, dict):
            self._findings.add("whole-call", f"a call is {shown(call)}, not an object", path)
            return
        check_fields(CALL, call, self._findings, root=path)
        if "partialArgs" in call or call.get("willContinue"):
            self._findings.add("whole-call", "a call comes in pieces", path)
        self._call_ids.add(text_at(call, "id"), self._findings, f"{path}.id")

    def _read_usage(self, usage: Json) -> None:
        self._counted = self._state is not State.OPEN
        check_fields(USAGE, usage, self._findings, root="$.usageMetadata")
        total = number_at(usage, "totalTokenCount")
        summed = sum(number_at(usage, name) or 0 for name in SUMMED)
        if total is not None and total != summed:
            reason = f"the total is {total}, the sum {summed}"
            self._findings.add("usage-counts", reason, "$.usageMetadata.totalTokenCount")

    def _finish(self, reason: str) -> None:
        path = "$.candidates[0].finishReason"
        if reason not in FINISH_REASONS:
            self._findings.add("finish-reason-known", f"there is no {shown(reason)}", path)
        elif self.calls and reason != "STOP" and reason not in CUT_REASONS:
            text = f"{shown(reason)} although there are calls"
            self._findings.add("finish-reason-fits-calls", text, path)


def _is_base64(value: object) -> bool:
    if not isinstance(value, str) or not value.isascii():
        return False
    folded = value.replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(folded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


GRAMMAR: Final = GeminiGrammar
