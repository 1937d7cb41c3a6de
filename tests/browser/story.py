"""One story as recordings: an agent works for nine turns, and around it exchanges of other clients go wrong.

A real gateway records them over the simulator, which answers at once.  Times, tokens and names of models are then
changed to those of a real upstream, so that pictures of the page show what a user would see.
"""

import json
import random
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anthropic
from msgspec import structs

from dragoman.gateway.config.settings import Match, Record, Route, Settings, Upstream
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, question

TITLE = "Make the failing date tests pass"
TURNS = 9
BREAK = 6  # the turn whose request differs from the turn before in its system prompt
FALLBACK = 8
FRESH_PRICE, CACHED_PRICE, OUTPUT_PRICE = 0.6, 0.15, 2.5  # dollars for a million tokens
CLIENTS = {
    "Claude Code": "claude-cli/2.0.31 (external, cli)",
    "Codex": "codex_cli_rs/0.58.0 (Linux)",
    "opencode": "opencode/1.0.12",
    "OpenAI SDK": "OpenAI/Python 2.7.1",
    "LangGraph": "langgraph-sdk 0.3",
}
_KIMI = "kimi-k2+leak-reasoning+think+pace:4"
_BUSY = "+error:429+retry-after:30"
_RESULT = "2 failed, 14 passed in 0.61s"
_TESTS = ("Bash", {"command": "pytest -q tests/test_dates.py"}, _RESULT)
_LINES = "41  def parse_iso(text: str) -> datetime:\n42      parts, offset = _split(text)\n43      return datetime(*parts)"
_EDIT = {
    "file_path": "src/dates.py",
    "old_string": "return datetime(*parts)",
    "new_string": "return datetime(*parts, tzinfo=offset)",
}
# What the model answers in each turn: reasoning, text, calls with their results.
_PLAN: list[tuple[str, str, list[tuple[str, dict[str, Any], str]]]] = [
    ("The tests come first.", "I look at the failing tests.", [_TESTS]),
    ("", "I read the parser.", [("Read", {"file_path": "src/dates.py", "limit": 40}, _LINES)]),
    ("", "Who calls it?", [("Grep", {"pattern": "parse_iso", "path": "src"}, "src/dates.py:42\nsrc/cli.py:7")]),
    ("", "I look at the caller.", [("Read", {"file_path": "src/cli.py"}, "from dates import parse_iso")]),
    (
        "The offset is split off, but is it used?",
        "The offset is parsed but never applied. I look at how the tests call it.",
        [("Read", {"file_path": "src/dates.py", "offset": 40, "limit": 52}, _LINES), ("Bash", {"command": "git log -3"}, "a1b2c3 Parse offsets")],
    ),
    ("Negative offsets?", "Two tests fail on negative offsets.", [("Grep", {"pattern": "_split\\(", "path": "src"}, "src/dates.py:42\nsrc/dates.py:88")]),
    ("", "I run the tests again to be sure.", [_TESTS]),
    ("", "The offset is lost in `parse_iso`. I fix it now.", [("Edit", _EDIT, "Updated src/dates.py")]),
    ("", "All tests pass now.", []),
]  # fmt: skip
_PARAMETERS = {
    "Bash": ("command", "timeout"),
    "Read": ("file_path", "offset", "limit"),
    "Grep": ("pattern", "path"),
    "Edit": ("file_path", "old_string", "new_string"),
}
_NUMBERS = ("timeout", "offset", "limit")
_TOOLS = [
    {
        "name": name,
        "description": f"{name}.",
        "input_schema": {
            "type": "object",
            "properties": {
                one: {"type": "integer" if one in _NUMBERS else "string"} for one in names
            },
            "required": [names[0]],
        },
    }
    for name, names in _PARAMETERS.items()
]
_PROMPT = TITLE + "\n" + "sim: then\n".join(
    (f"sim: think {think}\n" if think else "") + f"sim: say {text}\n" + "".join(f"sim: call {name} {json.dumps(given)}\n" for name, given, _ in calls)
    for think, text, calls in _PLAN
)  # fmt: skip
# Exchanges of other clients: the upstream, what the simulator does, the model as the list names it, the question.
_OTHERS = [
    ("vllm-local", "qwen3-coder", "qwen3-coder-30b", "Port the CLI to argparse"),
    ("vllm-local", "plain+error:500", "mistral-small-3.2", "Classify 40 support mails"),
    ("anthropic", "plain+think", "claude-sonnet-4-5", "Why does the import take 4 seconds?"),
    ("vllm-local", "plain+cut-args", "gpt-oss-120b", "Summarise the release notes"),
    ("deepseek", "deepseek-v31", "deepseek-v3.2", "Add retries to the uploader"),
    ("openrouter", "plain+error:429", "glm-4.6", "Find the memory leak in the worker"),
    ("deepseek", "plain+cut", "deepseek-v3.2", "Write tests for the tokenizer"),
    ("vllm-local", "glm45", "glm-4.6", "Explain the build graph"),
    ("vllm-local", "hermes", "hermes-4-70b", "Rename Block to ToolCall"),
    ("openrouter", "plain+length", "glm-4.6", "Review the open merge request"),
    ("vllm-local", "plain+interleave+parallel:3", "qwen3-coder-30b", "Compare three cities"),
    ("anthropic", "plain+text:2", "claude-sonnet-4-5", "Describe the parser"),
    ("vllm-local", "mistral", "mistral-small-3.2", "Sort the tickets"),
    ("vllm-local", "plain+no-usage", "qwen3-coder-30b", "What is new in 3.14?"),
    ("deepseek", "plain+garbage", "deepseek-v3.2", "Translate the manual"),
    ("vllm-local", "gpt-oss", "gpt-oss-120b", "Is the cache warm?"),
]
_NAMES = {model: name for _, model, name, _ in _OTHERS} | {_KIMI: "kimi-k2-thinking"}


def record_story(folder: Path) -> None:
    """Record the story into a folder."""

    def make(url: str) -> Settings:
        made = settings_for(url, record=Record(dir=str(folder)))
        names = ("openrouter", "moonshot", "vllm-local", "deepseek")
        more = {
            name: Upstream(base_url=f"{url}/v1", dialect="chat", retries=0, models=("x",))
            for name in names
        }
        routes = (
            Route(name="claude", match=Match(model="claude-busy"), to=(f"openrouter/{_KIMI}{_BUSY}", f"moonshot/{_KIMI}")),
            *(Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in names),
        )  # fmt: skip
        return structs.replace(
            made, upstreams={**made.upstreams, **more}, routes=(*routes, *made.routes)
        )

    with stand(make) as gateway:
        _run_agent(gateway)
        clients = [one for name, one in CLIENTS.items() if name != "Claude Code"]
        for number, (upstream, model, _, text) in enumerate(_OTHERS):
            client = FIXED_PATHS[number % 3]
            asked = question(client, f"{upstream}/{model}", text, tools=[WEATHER])
            post(gateway, client, asked, headers={"user-agent": clients[number % len(clients)]})
    _make_real(folder)


def _run_agent(gateway: Stand) -> None:
    """Run the plan as an agent does: each request has the answer before and the results of its calls."""
    headers = {"user-agent": CLIENTS["Claude Code"]}
    client = anthropic.Anthropic(base_url=gateway.url, api_key="x", default_headers=headers)
    messages: list[Any] = [{"role": "user", "content": _PROMPT}]
    for turn, (_, _, calls) in enumerate(_PLAN, 1):
        now = "09:46:49Z" if turn < BREAK else "09:47:06Z"
        system = "You are a coding agent.\n" + "Be careful with files. " * 50
        system += f"\nbranch: main\nCurrent time: 2026-11-16T{now}\nYou are in /repo"
        with client.messages.stream(
            model="claude-busy" if turn == FALLBACK else f"openrouter/{_KIMI}",
            max_tokens=1536,
            system=[{"type": "text", "text": system}],
            messages=messages,
            tools=_TOOLS,
        ) as stream:
            blocks = stream.get_final_message().content
        used = [block for block in blocks if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": result}
            for block, (_, _, result) in zip(used, calls, strict=True)
        ]
        messages = [*messages, {"role": "assistant", "content": blocks}]
        if results:
            messages = [*messages, {"role": "user", "content": results}]
        if turn == 5:
            title = "Write a title for this session\nsim: say Fix date tests"
            aside = [{"role": "user", "content": title}]
            client.messages.create(model="vllm-local/glm45", max_tokens=32, messages=aside)
            explore = 'Find every caller of parse_iso\nsim: say I search.\nsim: call Grep {"pattern": "parse_iso"}'
            client.messages.create(
                model="vllm-local/qwen3-coder",
                max_tokens=512,
                system="You are an explorer.",
                messages=[{"role": "user", "content": explore}],
                tools=_TOOLS,
            )
    client.close()


def _make_real(folder: Path) -> None:
    """Give the recordings times, tokens and costs as of real upstreams, the last one a minute ago."""
    files = _mixed(sorted(folder.glob("*.dragoman")))
    chance = random.Random(4)
    begin = time.time() - 60 - len(files) * 17
    turn = before = 0
    for number, file in enumerate(files):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        record = lines[-1]["record"]
        _slow_down(lines, chance)
        lines[0]["time"] = record["time"] = begin + number * 17
        model = record.get("upstream_model")
        record["upstream_model"] = _NAMES.get(model, model)
        if record.get("tokens_in"):
            tokens = record["tokens_in"] * 17 + 900
            cached = int(tokens * chance.choice((0.3, 0.8, 0.95)))
            if model == _KIMI:
                turn += 1
                cached, before = _cached(turn, before), tokens
            else:
                tokens, cached = tokens * (number % 5 + 1), cached * (number % 5 + 1)
            cost = (tokens - cached) * FRESH_PRICE + cached * CACHED_PRICE
            cost += record.get("tokens_out", 0) * OUTPUT_PRICE
            record |= {"tokens_in": tokens, "tokens_cached": cached, "cost": round(cost / 1e6, 6)}
        file.write_text("".join(_renamed(line) + "\n" for line in lines))


def _renamed(line: dict[str, Any]) -> str:
    """Return a line that has the name of a real model in the place of the simulator's."""
    name = _NAMES[_KIMI]
    if line["line"] == "read":
        line["size"] += line["data"].get("text", "").count(_KIMI) * (len(name) - len(_KIMI))
    return json.dumps(line).replace(f"{_KIMI}{_BUSY}", name).replace(_KIMI, name)


def _slow_down(lines: list[dict[str, Any]], chance: random.Random) -> None:
    """Stretch the times of an exchange: the first event comes after a while, and the end after some seconds."""
    record = lines[-1]["record"]
    duration = chance.uniform(1500, 12_000)
    first = duration * chance.uniform(0.08, 0.35)
    attempts = [number for number, line in enumerate(lines) if line["line"] == "attempt"]
    asked = lines[attempts[0]]["at"] if attempts else 0.0
    answer = lines[attempts[-1] :] if attempts else []
    begin = next((line["at"] for line in answer if line["line"] == "read"), lines[-1]["at"])
    rest = max(lines[-1]["at"] - begin, 0.001)
    for line in lines:
        if "at" in line and line["at"] < begin:
            waited = max(line["at"] - asked, 0.0) / max(begin - asked, 0.001)
            line["at"] = round(0.4 + waited * first * 0.9, 3)
        elif "at" in line:
            line["at"] = round(first + (line["at"] - begin) / rest * (duration - first), 3)
    record["duration_ms"] = round(duration, 1)
    if record.get("first_event_ms"):
        record["first_event_ms"] = round(first, 1)


def _mixed(files: list[Path]) -> list[Path]:
    """Return the files with those of other clients between the turns of the agent."""
    agent, others = files[: TURNS + 2], files[TURNS + 2 :]
    return [
        one for pair in zip_longest(others[: len(agent)], agent) for one in pair if one
    ] + others[len(agent) :]


def _cached(turn: int, before: int) -> int:
    """Return how much of the agent's turn its upstream had in its cache."""
    return {BREAK: 3072, FALLBACK: 0}.get(turn, before // 128 * 128)
