"""Write the endings of responses that clients receive now, and the page that lists them.

    python -m tools.endings [name]...    into tests/gateway/endings, all or the named ones
    python -m tools.endings --page       docs/endings.md, from these files

Read the result before you commit it: it is the specification from then on.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support import endings
from tests.support.endings import ENDINGS, Ending, Seen
from tests.support.gateway import DIALECTS, stand

PAGE = Path(__file__).parent.parent / "docs" / "endings.md"
TITLES = {
    "anthropic": "Messages client",
    "chat": "Chat client",
    "responses": "Responses client",
    "gemini": "Gemini client",
}
INTRODUCTION = """\
# How responses end

What a client receives for every way in which an upstream's response can end.
The gateway's tests play each ending with the simulator, compare the client's bytes with the files in \
[tests/gateway/endings](../tests/gateway/endings), and check the files against the rules of each dialect \
([tests/gateway/test_endings.py](../tests/gateway/test_endings.py)).
`python -m tools.endings --page` writes this page from these files; a test fails while it is out of date.

* A number is the HTTP status, followed by the type and the code of the error.
* "stream:" and "body:" say what the client receives if it asked for a stream or for a complete body. Where neither is named, both are the same, or only one of them is possible.
* "block open": the block in which the stream broke is not closed, so that no client takes it for complete.
* What follows a `+` is the header `x-dragoman-warnings`: what was repaired or dropped.
* A fallback, if the route has one, is asked before the client receives any of this, as long as no content has been sent.
"""


def main(arguments: list[str]) -> None:
    if arguments == ["--page"]:
        PAGE.write_text(page())
        return
    with stand(endings.settings) as found:
        texts = found.do(endings.ask_all(found, arguments), timeout=120)
    endings.ROOT.mkdir(exist_ok=True)
    for (ending, dialect), text in texts.items():
        endings.file_of(ending, dialect).write_text(text)
    print(len(texts), "files")


def page() -> str:
    """Return docs/endings.md: one table for each dialect of upstreams."""
    parts = [INTRODUCTION]
    for upstream, title in (
        ("chat", "Chat upstream"),
        ("anthropic", "Messages upstream"),
        ("responses", "Responses upstream"),
        ("gemini", "Gemini upstream"),
    ):
        # The upstream `strict` of the tests speaks Chat.
        rows = [
            one
            for one in ENDINGS
            if (one.upstream if one.upstream in TITLES else "chat") == upstream
        ]
        heads = " | ".join(TITLES[dialect] for dialect in DIALECTS)
        lines = [
            f"## {title}",
            "",
            f"| The upstream sends | {heads} |",
            "|---" * (len(DIALECTS) + 1) + "|",
        ]
        lines += [
            f"| {one.meaning} | {' | '.join(_cell(one, name) for name in DIALECTS)} |"
            for one in rows
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(ending: Ending, dialect: str) -> str:
    seen = endings.read(endings.file_of(ending, dialect).read_text())
    said = {way: _outcome(dialect, answer) for way, answer in seen.items()}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "<br>".join(f"{'body' if way == 'whole' else way}: {text}" for way, text in said.items())


def _outcome(dialect: str, answer: Seen) -> str:
    if answer.status != 200:
        wait = (
            f", `retry-after: {answer.headers['retry-after']}`"
            if "retry-after" in answer.headers
            else ""
        )
        return f"{answer.status} {_error(json.loads(answer.body)['error'])}{wait}"
    if answer.headers["content-type"] == "application/json":
        warnings = answer.headers.get("x-dragoman-warnings")
        return BODIES[dialect](json.loads(answer.body)) + (f" + `{warnings}`" if warnings else "")
    return STREAMS[dialect](list(_events(answer.body)))


def _events(body: str) -> Iterator[dict]:
    for line in body.split("\n"):
        if line.startswith("data: {"):
            try:
                yield json.loads(line.removeprefix("data: "))
            except ValueError:  # a malformed event that the same dialect on both sides forwards
                continue


def _error(error: dict) -> str:
    words = dict.fromkeys(
        error.get(key) for key in ("type", "status", "code")
    )  # often the same word twice
    return " ".join(f"`{word}`" for word in words if word and isinstance(word, str))


def _chat_body(body: dict) -> str:
    return f"`finish_reason: {body['choices'][0]['finish_reason']}`"


def _chat_stream(events: list[dict]) -> str:
    if "error" in events[-1]:
        return f"`error` {_error(events[-1]['error'])}, `[DONE]`"
    reasons = [
        one["finish_reason"] for event in events for one in event["choices"] if one["finish_reason"]
    ]
    return f"`finish_reason: {reasons[-1]}`"


def _messages_body(body: dict) -> str:
    return f"`stop_reason: {body['stop_reason']}`"


def _messages_stream(events: list[dict]) -> str:
    kinds = [event["type"] for event in events]
    if kinds[-1] == "error":
        is_open = kinds.count("content_block_start") > kinds.count("content_block_stop")
        return f"{'block open, ' if is_open else ''}`event: error` {_error(events[-1]['error'])}"
    delta = next(event for event in reversed(events) if event["type"] == "message_delta")
    return _messages_body(delta["delta"])


def _responses_body(body: dict) -> str:
    if body["status"] == "incomplete":
        return f"`incomplete` `{body['incomplete_details']['reason']}`"
    return f"`{body['status']}`"


def _responses_stream(events: list[dict]) -> str:
    last = events[-1]
    error = last["response"]["error"]
    return f"`{last['type']}`" + (f" {_error(error)}" if error else _reason(last["response"]))


def _reason(response: dict) -> str:
    details = response["incomplete_details"]
    return f" `{details['reason']}`" if details else ""


def _gemini_body(body: dict) -> str:
    return f"`finishReason: {body['candidates'][0]['finishReason']}`"


def _gemini_stream(events: list[dict]) -> str:
    if "error" in events[-1]:
        return f"`error` {_error(events[-1]['error'])}, twice"
    return _gemini_body(events[-1])


BODIES = {
    "chat": _chat_body,
    "anthropic": _messages_body,
    "responses": _responses_body,
    "gemini": _gemini_body,
}
STREAMS = {
    "chat": _chat_stream,
    "anthropic": _messages_stream,
    "responses": _responses_stream,
    "gemini": _gemini_stream,
}


if __name__ == "__main__":
    main(sys.argv[1:])
