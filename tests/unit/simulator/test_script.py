"""Replies from a file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.simulator.script import load_script
from dragoman.simulator.server import Simulator
from tests.support.simulator import PATHS, Got, answered, post, question


def replies(tmp_path: Path, text: str, *bodies: tuple[str, Any], name: str = "s.toml") -> list[Got]:
    """Return the answers to requests, in order, under a script."""
    script = tmp_path / name
    script.write_text(text)

    async def run() -> list[Got]:
        async with Simulator(script=script) as sim:
            return [await post(sim, PATHS[dialect], body) for dialect, body in bodies]

    return asyncio.run(run())


def text_of(got: Got) -> str:
    content = got.json["choices"][0]["message"]["content"]
    assert isinstance(content, str)
    return content


def asked(text: str = "Hello", model: str = "sim/plain") -> tuple[str, dict[str, Any]]:
    return "chat", question("chat", model, text, stream=False)


def test_first_reply_that_fits_answers(tmp_path: Path) -> None:
    script = """
        [[replies]]
        match = { model = "sim/kimi*" }
        text = "by model"
        [[replies]]
        match = { contains = "weather" }
        text = "by text"
        [[replies]]
        match = { path = "*/messages" }
        text = "by path"
        [[replies]]
        match = { turn = 2 }
        text = "by turn"
        [[replies]]
        text = "for all"
    """
    conversation = answered("chat", question("chat", text="Hello", stream=False))
    got = replies(
        tmp_path,
        script,
        asked(model="sim/kimi-k2"),
        asked("the weather?"),
        ("chat", conversation),
        asked(),
        ("anthropic", question("anthropic", text="Hello", stream=False)),
    )

    assert ["by model", "by text", "by turn", "for all"] == [text_of(one) for one in got[:4]]
    assert "by path" == got[4].json["content"][0]["text"]


def test_reply_may_wait_for_what_a_tool_returned(tmp_path: Path) -> None:
    script = """
        [[replies]]
        match = { returned = "mild" }
        text = "after the tool"
        [[replies]]
        text = "before it"
    """
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = question("chat", text="Hello", stream=False)
    body["messages"] += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "cold, then mild"},
    ]
    later = {**body, "messages": [*body["messages"], {"role": "user", "content": "And?"}]}

    got = replies(tmp_path, script, asked("mild"), ("chat", body), ("chat", later))

    assert ["before it", "after the tool", "after the tool"] == [text_of(one) for one in got]


def test_reply_may_be_used_so_many_times(tmp_path: Path) -> None:
    script = '[[replies]]\ntext = "twice"\ntimes = 2\n[[replies]]\ntext = "later"\n'

    got = replies(tmp_path, script, *[asked()] * 4)

    assert ["twice", "twice", "later", "later"] == [text_of(one) for one in got]


def test_without_a_reply_that_fits_the_model_answers_itself(tmp_path: Path) -> None:
    script = '[[replies]]\nmatch = { contains = "weather" }\ntext = "sunny"\n'

    [got] = replies(tmp_path, script, asked("Hello"))

    assert text_of(got).startswith("You said: Hello")


def test_reply_may_reason_and_call(tmp_path: Path) -> None:
    script = json.dumps(
        {
            "replies": [
                {
                    "reasoning": "hm",
                    "calls": [
                        {"name": "f", "arguments": {"a": [1]}, "id": "mine"},
                        {"name": "g"},
                    ],
                }
            ]
        }
    )

    [got] = replies(tmp_path, script, asked(), name="s.json")

    message = got.json["choices"][0]["message"]
    assert "hm" == message["reasoning_content"]
    assert [("f", '{"a":[1]}'), ("g", "{}")] == [
        (one["function"]["name"], one["function"]["arguments"]) for one in message["tool_calls"]
    ]
    assert "mine" == message["tool_calls"][0]["id"]


def test_reply_may_have_quirks_beside_those_of_the_name(tmp_path: Path) -> None:
    script = '[[replies]]\nquirks = ["error:429"]\n'

    [got] = replies(tmp_path, script, asked(model="plain+retry-after:3"))

    assert (429, "3") == (got.status, got.headers["retry-after"])


def test_reply_may_be_the_bytes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(b"data: \xff odd\r\r")
    script = """
        [[replies]]
        raw = "odd.bin"
        status = 207
        headers = { "X-Odd" = "yes", "Content-Type" = "text/odd" }
    """

    [got] = replies(tmp_path, script, asked())

    assert (207, b"data: \xff odd\r\r") == (got.status, got.body)
    assert ("yes", "text/odd") == (got.headers["x-odd"], got.headers["content-type"])


def test_kind_of_a_file_follows_from_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.sse").write_text("data: {}\n\n")
    script = '[[replies]]\nraw = "a.json"\ntimes = 1\n[[replies]]\nraw = "b.sse"\n'

    got = replies(tmp_path, script, asked(), asked())

    assert ["application/json", "text/event-stream; charset=utf-8"] == [
        one.headers["content-type"] for one in got
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[replies]\n", "not TOML"),
        ("replies = 1\n", r"Expected `array`, got `int` - at `\$.replies`"),
        ("[[reply]]\n", r"unknown field `reply`"),
        ("", "missing required field `replies`"),
        ("[[replies]]\nmatch = { modle = 'x' }\n", r"`modle` - at `\$.replies\[0\].match`"),
        ("[[replies]]\ncalls = [{}]\n", r"`name` - at `\$.replies\[0\].calls\[0\]`"),
        (
            "[[replies]]\n[[replies]]\nquirks = ['crlf', 'nosuch']\n",
            r"`replies\[1\].quirks\[1\]`: the simulator has no quirk `nosuch`",
        ),
        ("[[replies]]\nquirks = ['cut:x']\n", r"`replies\[0\].quirks\[0\]`: quirk `cut` takes"),
        ("[[replies]]\nraw = 'none.sse'\n", r"`replies\[0\].raw`: cannot read .*none.sse"),
        (
            "[[replies]]\nraw = 'x'\ntext = 'y'\n",
            r"`replies\[0\].raw`: use `raw` without text or quirks",
        ),
        ("[[replies]]\nstatus = 500\n", "`status` and `headers` go with `raw`"),
    ],
)
def test_wrong_script_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    script = tmp_path / "s.toml"
    script.write_text(text)

    with pytest.raises(ConfigError, match=says) as caught:
        load_script(script)

    assert str(caught.value).startswith(str(tmp_path))


def test_wrong_json_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "s.json"
    script.write_text("{")

    with pytest.raises(ConfigError, match="not JSON"):
        load_script(script)


def test_clearing_the_exchanges_makes_replies_fresh(tmp_path: Path) -> None:
    import aiohttp

    script = tmp_path / "s.toml"
    script.write_text('[[replies]]\ntext = "once"\ntimes = 1\n')

    async def run() -> list[str]:
        async with Simulator(script=script) as sim, aiohttp.ClientSession() as http:
            out = []
            for _ in range(2):
                out.append(text_of(await post(sim, PATHS["chat"], asked()[1])))
                async with http.delete(f"{sim.url}/sim/exchanges") as response:
                    await response.read()
            return out

    assert ["once", "once"] == asyncio.run(run())
