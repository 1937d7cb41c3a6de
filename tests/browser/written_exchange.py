"""An exchange as the page gets it, written by hand: a Kimi call in the reasoning, a stall, and a call that was cut.

The bytes are real bytes of both dialects, so that a range on the page can be compared with what it covers.
"""

import json
from typing import Any

Json = dict[str, Any]

ID = "req_7f3a91c2"
_CALL_1 = [
    # time, payload, markers in it, arguments in it
    (2110, "_section_begin|><|tool_call_b", [[0, 29]], None),
    (2130, "egin|>functions.Bash:0<|tool", [[0, 6], [22, 28]], None),
    (2170, '_call_argument_begin|>{"comm', [[0, 22]], '{"comm'),
    (2220, 'and": "pytest -q tests/te', [], 'and": "pytest -q tests/te'),
    (6420, 'st_dates.py", "timeout": 1', [], 'st_dates.py", "timeout": 1'),
    (6470, "20000}<|tool_call_end|>", [[6, 23]], "20000}"),
]


class WrittenExchange:
    """The exchange and its bytes. `parts` is the number of deltas in the arguments of the second call."""

    def __init__(self, parts: int = 150, text: str = "I fix it now.\n") -> None:
        self.upstream = bytearray()
        self.client = bytearray()
        self._up: list[Json] = []
        self._events: list[Json] = []
        self._sent: list[Json] = []
        self._links: list[Json] = []
        self._reasoning()
        self._first_call()
        self._text(text)
        self._second_call(parts)
        self._end()
        self.answer = self._answer()

    def marker(self, first: str, last: str) -> list[int]:
        """Return the upstream bytes from one text to the end of another."""
        start = self.upstream.find(first.encode())
        return [start, self.upstream.find(last.encode(), start) + len(last.encode())]

    # --- rows ------------------------------------------------------------------------------------

    def _take(self, at: float, kind: str, delta: Json, text: str, marks: Any = ()) -> int:
        chunk = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta}]}
        raw = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        row = {"from": len(self.upstream), "to": len(self.upstream) + len(raw), "at": at}
        self._up.append({**row, "kind": kind, "text": text, "marks": list(marks)})
        self.upstream += raw
        return len(self._up) - 1

    def _event(self, kind: str, text: str, level: str = "") -> int:
        self._events.append({"kind": kind, "text": text, "level": level})
        return len(self._events) - 1

    def _send(self, at: float, kind: str, data: Json, text: str) -> int:
        body = json.dumps({"type": kind, **data})
        raw = f"event: {kind}\ndata: {body}\n\n".encode()
        row = {"from": len(self.client), "to": len(self.client) + len(raw), "at": at}
        self._sent.append({**row, "kind": kind, "text": text})
        self.client += raw
        return len(self._sent) - 1

    def _link(self, block: int, up: list[int], events: list[int], client: list[int]) -> None:
        self._links.append({"block": block, "up": up, "ev": events, "client": client})

    # --- what happens ----------------------------------------------------------------------------

    def _reasoning(self) -> None:
        self._take(1840, "role", {"role": "assistant"}, "assistant")
        self._event("start", "kimi-k2-thinking")
        self._send(1840, "message_start", {"message": {"id": "msg_1"}}, "msg_1")
        start = [self._send(1860, "content_block_start", {"index": 0}, "0 thinking")]
        for at, text in ((1860, "The date test fails because "), (1910, "`parse_iso` drops it. ")):
            up = self._take(at, "reasoning", {"reasoning_content": text}, text)
            sent = self._send(at, "content_block_delta", {"delta": {"thinking": text}}, text)
            self._link(0, [up], [self._event("reasoning", text)], [*start, sent])
            start = []

    def _first_call(self) -> None:
        text, marker = "I run it first.\n", "<|tool_calls"
        marks = [[len(text), len(text + marker)]]
        up = self._take(
            2100, "reasoning", {"reasoning_content": text + marker}, text + marker, marks
        )
        sent = self._send(2100, "content_block_delta", {"delta": {"thinking": text}}, text)
        stop = self._send(2100, "content_block_stop", {"index": 0}, "0")
        self._link(0, [up], [self._event("reasoning", text)], [sent, stop])
        self._link(1, [up], [begin := self._event("marker", "section begin")], [])
        for at, payload, marks, arguments in _CALL_1:
            up = self._take(at, "reasoning", {"reasoning_content": payload}, payload, marks)
            if arguments is not None:
                event = self._event("arguments", arguments)
                data = {"delta": {"partial_json": arguments}}
                self._link(
                    1, [up], [event], [self._send(at, "content_block_delta", data, arguments)]
                )
            elif "Bash" in payload:
                event = self._event("call start", "Bash functions.Bash:0")
                name = "1 tool_use Bash toolu_1"
                self._link(
                    1, [up], [event], [self._send(at, "content_block_start", {"index": 1}, name)]
                )
            else:
                self._link(1, [up], [begin], [])
        payload = "<|tool_calls_section_end|>"
        up = self._take(
            6560, "reasoning", {"reasoning_content": payload}, payload, [[0, len(payload)]]
        )
        ends = [self._event("call end", "complete"), self._event("marker", "section end")]
        self._link(1, [up], ends, [self._send(6560, "content_block_stop", {"index": 1}, "1")])

    def _text(self, text: str) -> None:
        start = self._send(6800, "content_block_start", {"index": 2}, "2 text")
        up = self._take(6800, "content", {"content": text}, text)
        sent = self._send(6800, "content_block_delta", {"delta": {"text": text}}, text)
        stop = self._send(6810, "content_block_stop", {"index": 2}, "2")
        self._link(2, [up], [self._event("text", text)], [start, sent, stop])

    def _second_call(self, parts: int) -> None:
        call = {"id": "functions.Edit:1", "function": {"name": "Edit", "arguments": ""}}
        up = self._take(7400, "tool_calls", {"tool_calls": [call]}, "functions.Edit:1  Edit")
        event = self._event("call start", "Edit functions.Edit:1")
        name = "3 tool_use Edit toolu_2"
        self._link(3, [up], [event], [self._send(7400, "content_block_start", {"index": 3}, name)])
        for part in range(parts):
            at, text = 7500 + 1750 * part / parts, f" part {part} of the text"
            up = self._take(
                at, "tool_calls", {"tool_calls": [{"function": {"arguments": text}}]}, text
            )
            event = self._event("arguments", text)
            sent = self._send(at, "content_block_delta", {"delta": {"partial_json": text}}, text)
            self._link(3, [up], [event], [sent])
        self._links[-1]["ev"].append(self._event("call end", "truncated, not run", "error"))
        self._links[-1]["client"].append(self._send(9250, "content_block_stop", {"index": 3}, "3"))

    def _end(self) -> None:
        self._take(9310, "finish", {}, "length")
        self._event("finish", "length", "warn")
        reason = {"delta": {"stop_reason": "max_tokens"}}
        self._send(9320, "message_delta", reason, "stop_reason max_tokens")

    # --- the answer ------------------------------------------------------------------------------

    def _blocks(self) -> list[Json]:
        named = (
            ("reasoning", "Reasoning", None),
            ("call", "Bash", 0),
            ("text", "Text", None),
            ("call", "Edit", 1),
        )
        blocks = []
        for index, (kind, label, call) in enumerate(named):
            links = [link for link in self._links if link["block"] == index]
            block: Json = {"kind": kind, "label": label, "call": call}
            for column in ("up", "ev", "client"):
                rows = [row for link in links for row in link[column]]
                block[column] = [min(rows), max(rows)]
            block["up_bytes"] = [self._up[block["up"][0]]["from"], self._up[block["up"][1]]["to"]]
            ends = block["client"]
            block["client_bytes"] = [self._sent[ends[0]]["from"], self._sent[ends[1]]["to"]]
            blocks.append(block)
        return blocks

    def _lanes(self) -> list[Json]:
        def lane(kind: str, label: str, *spans: tuple[float, float], level: str = "") -> Json:
            made = [{"from": start, "to": end, "level": level, "label": ""} for start, end in spans]
            return {"kind": kind, "label": label, "spans": made, "ticks": []}

        def ticks(rows: list[Json]) -> list[list[float]]:
            return [[row["at"], row["to"] - row["from"]] for row in rows]

        attempts = lane("attempts", "Attempts", (620, 9460))
        attempts["spans"].insert(0, {"from": 0, "to": 210, "level": "failed", "label": "429"})
        return [
            attempts,
            {**lane("upstream", "Upstream bytes"), "ticks": ticks(self._up)},
            lane("reasoning", "Reasoning", (1860, 2080)),
            lane("text", "Text", (6800, 7320)),
            lane("call", "Bash", (2100, 2220), (6420, 6560)),
            lane("call", "Edit", (7400, 9250)),
            {**lane("client", "Client bytes"), "ticks": ticks(self._sent)},
        ]

    def _calls(self) -> list[Json]:
        markers = [
            ("<|tool_calls_section_begin|>", self.marker("<|tool_calls", "_section_begin|>")),
            ("<|tool_call_begin|>", self.marker("<|tool_call_b", "egin|>functions"[:6])),
            ("<|tool_call_end|>", self.marker("<|tool_call_end|>", "<|tool_call_end|>")),
        ]
        bash = {
            "name": "Bash",
            "upstream_id": "functions.Bash:0",
            "client_id": "toolu_1",
            "from_ms": 2100,
            "to_ms": 6560,
            "state": "complete",
            "repaired": True,
            "repeated": False,
            "found": {"channel": "reasoning", "family": "kimi_k2"},
            "arguments": '{"command": "pytest -q tests/test_dates.py", "timeout": 120000}',
            "schema": {"ok": True, "problems": []},
            "markers": [{"text": text, "from": at[0], "to": at[1]} for text, at in markers],
            "block": 1,
        }
        edit = {
            **bash,
            "name": "Edit",
            "upstream_id": "functions.Edit:1",
            "client_id": "toolu_2",
            "from_ms": 7400,
            "to_ms": 9250,
            "state": "truncated",
            "repaired": False,
            "found": None,
            "arguments": '{"file_path": "src/dates.py", "new_string": "return dateti',
            "schema": {"ok": None, "problems": []},
            "markers": [],
            "block": 3,
        }
        return [bash, edit]

    def _answer(self) -> Json:
        received = (
            '{\n  "model": "claude-sonnet-4-5",\n  "max_tokens": 1536,\n  "a": 1,\n  "b": 2\n}'
        )
        sent = '{\n  "model": "kimi-k2-thinking",\n  "max_completion_tokens": 1536,\n  "a": 1,\n  "b": 2\n}'
        left, right = received.split("\n"), sent.split("\n")
        diff = [
            {"kind": "same", "left": "{", "right": "{", "left_no": 1, "right_no": 1},
            *(
                {
                    "kind": "changed",
                    "left": left[line],
                    "right": right[line],
                    "left_no": line + 1,
                    "right_no": line + 1,
                    "left_parts": [[2, 10]],
                    "right_parts": [[2, 10]],
                }
                for line in (1, 2)
            ),
            {"kind": "folded", "count": 3},
        ]
        attempt = {"model": "kimi-k2-thinking", "profile": ""}
        warning = {"path": "", "level": "warn", "doc": ""}
        return {
            "row": {
                "id": ID,
                "time": 1763372878.041,
                "state": "done",
                "status": 200,
                "ended": "max_tokens",
                "level": "warn",
                "client": "Claude Code",
                "dialect": "messages",
                "upstream_dialect": "chat",
                "model": "kimi-k2-thinking",
                "asked": "claude-sonnet-4-5",
                "route": "claude-*",
                "upstream": "moonshot",
                "attempts": 2,
                "tokens_in": 24816,
                "tokens_cached": 0,
                "tokens_out": 1536,
                "estimated": False,
                "first_ms": 1840,
                "duration_ms": 9460,
                "stalls": [[2220, 6420]],
                "calls": 2,
                "problems": [],
                "cost": 0.0158,
                "family": "kimi_k2",
                "recorded": True,
                "conversation": "",
                "key": "",
            },
            "masked": False,
            "torn_at": None,
            "version": 1,
            "program": "",
            "conversation": {"id": "cv_1", "turn": 8, "turns": 9},
            "attempts": [
                {
                    **attempt,
                    "upstream": "openrouter",
                    "status": 429,
                    "at": 0,
                    "end": 210,
                    "reason": "It was rate limited (`retry-after`).",
                    "answered": False,
                },
                {
                    **attempt,
                    "upstream": "moonshot",
                    "status": 200,
                    "at": 620,
                    "end": 9460,
                    "reason": "",
                    "answered": True,
                },
            ],
            "timeline": {
                "end_ms": 9460,
                "first_ms": 1840,
                "stalls": [[2220, 6420]],
                "lanes": self._lanes(),
            },
            "upstream": {"dialect": "chat", "size": len(self.upstream), "rows": self._up},
            "meaning": {"rows": self._events},
            "client": {"dialect": "messages", "size": len(self.client), "rows": self._sent},
            "links": self._links,
            "blocks": self._blocks(),
            "calls": self._calls(),
            "vendor_calls": [],
            "warnings": [
                {
                    **warning,
                    "code": "native-call-repaired",
                    "title": "Tool call found in reasoning",
                    "text": "See.",
                },
                {
                    **warning,
                    "code": "stream-stalled",
                    "title": "The stream stalled for 4.2 s",
                    "text": "No bytes between 2.22 s and 6.42 s.",
                    "doc": "https://example.org/stream-stalled",
                },
            ],
            "request": {
                "received": {"size": len(received), "text": received},
                "sent": [{"attempt": 2, "upstream": "moonshot", "size": len(sent), "text": sent}],
                "diff": diff,
            },
            "curl": "curl http://127.0.0.1:8484/v1/messages -H 'x-api-key: $API_KEY'",
        }
