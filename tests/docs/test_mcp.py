"""The page on the MCP server says what there is."""

import asyncio
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from dragoman.cli.mcp import command
from dragoman.client.errors import STAGES
from dragoman.mcp_server.server import _LISTED
from dragoman.mcp_server.tool_types import Failure
from tests.support.mcp_talk import talk

PAGE = (Path(__file__).parent.parent.parent / "docs" / "mcp.md").read_text("utf-8")
JSON = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def understood(words: list[str]) -> bool:
    at = words.index("dragoman")
    assert "mcp" == words[at + 1]
    return bool(command.make_context("mcp", words[at + 2 :]).params)


def test_every_tool_is_in_the_table_with_all_it_takes_and_gives() -> None:
    for tool in _LISTED:
        takes = ", ".join(f"`{name}`" for name in tool.input_schema["properties"])
        gives = ", ".join(f"`{name}`" for name in tool.output_schema["properties"])

        assert f"| `{tool.name}` | {takes} | {gives} |".replace("|  |", "| |") in PAGE


def test_the_example_of_a_chat_gives_what_the_page_shows() -> None:
    async def ask() -> Any:
        async with talk() as one:
            asked = JSON[0] | {"model": JSON[0]["model"].replace("sim/", "chat/")}
            return await one.good("chat", **asked)

    assert JSON[1] == asyncio.run(ask())


def test_fields_of_errors_are_explained() -> None:
    for name in Failure.__struct_fields__:
        assert re.search(rf"^\| .*`{name}`.* \|", PAGE, re.MULTILINE)
    for stage in STAGES:
        assert f"`{stage}`" in PAGE


def test_commands_on_the_page_are_understood() -> None:
    lines = [
        shlex.split(line, comments=True)
        for line in re.findall(r"^dragoman mcp.*$", PAGE, re.MULTILINE)
    ]
    lines += [
        shlex.split(line)
        for line in re.findall(r"^claude mcp add dragoman -- (.*)$", PAGE, re.MULTILINE)
    ]
    entry = JSON[2]["mcpServers"]["dragoman"]
    lines.append([entry["command"], *entry["args"]])
    codex = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    entry = codex["mcp_servers"]["dragoman"]
    lines.append([entry["command"], *entry["args"]])
    lines.append(JSON[3]["mcp"]["dragoman"]["command"])

    assert 6 == len(lines)
    assert all(understood(line) for line in lines)
