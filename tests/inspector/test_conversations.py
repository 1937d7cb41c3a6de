"""Conversations: turns by their shared history, results beside calls, repeats, side requests, cache breaks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.settings import Record, Settings
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.waiting import until

API = "/inspector/api/conversations"
EXCHANGES = "/inspector/api/exchanges"
AGENT = {"user-agent": "claude-cli/2.0 (external, cli)"}
TOOL = {"name": "run", "input_schema": {"type": "object", "properties": {"c": {"type": "string"}}}}
PROMPT = (
    "Fix the tests\nsim: call run {'c': 'pytest'}\nsim: then\nsim: call run {'c': 'pytest'}\nsim: then\n"
    "sim: call run {'c': 'pytest'}\nsim: then\nsim: say Done."
).replace("'", '"')


def system(minute: int) -> list[dict[str, Any]]:
    text = f"Current time: 2026-11-16T09:{minute}:49Z\n" + "Be careful. " * 300
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


def body(messages: list[Any], minute: int = 46, **more: Any) -> dict[str, Any]:
    return {
        "model": "chat/plain",
        "max_tokens": 999,
        "system": system(minute),
        "messages": messages,
        "tools": [TOOL],
        **more,
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A gateway that has served an agent for four turns, its side request, and another question."""
    folder = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(folder)))

    with stand(make) as gateway:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        for turn in range(1, 5):
            asked = body(messages, minute=47 if turn >= 3 else 46)
            answer = post(gateway, "anthropic", asked, headers=AGENT).json()
            messages = [*messages, {"role": "assistant", "content": answer["content"]}]
            results = [
                {"type": "tool_result", "tool_use_id": use["id"], "content": "2 failed"}
                for use in answer["content"]
                if use["type"] == "tool_use"
            ]
            messages.append({"role": "user", "content": results})
            if turn == 2:
                title = body([{"role": "user", "content": "Write a title"}], system="Short.")
                post(gateway, "anthropic", title | {"tools": []}, headers=AGENT)
        post(gateway, "chat")
        until(lambda: len(finished(folder)) == 6)
        yield gateway


def finished(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if b'"line":"outcome"' in file.read_bytes()]


def agents_run(runs: Stand) -> Any:
    rows = get(runs, API).json()["rows"]
    found = next(row for row in rows if row["client"] == "Claude Code")
    return get(runs, f"{API}/{found['id']}").json()


def test_rows_of_the_list_name_their_conversation(runs: Stand) -> None:
    get(runs, EXCHANGES)
    until(lambda: all(row["conversation"] for row in rows_of(runs)))
    (agent, *_) = get(runs, API).json()["rows"][-1:]
    assert agent["id"] in {row["conversation"] for row in rows_of(runs)}


def rows_of(runs: Stand) -> list[Any]:
    return get(runs, EXCHANGES).json()["rows"]


def test_turns_that_share_a_history_are_one_conversation(runs: Stand) -> None:
    rows = get(runs, API).json()["rows"]
    assert sorted((row["client"], row["turns"]) for row in rows) == [
        ("Claude Code", 4),
        ("python-httpx2", 1),
    ]
    assert get(runs, f"{API}?text=fix%20THE").json()["rows"][0]["title"] == "Fix the tests"
    assert get(runs, f"{API}?text=elsewhere").json()["rows"] == []
    assert get(runs, f"{API}/cv_nothing").status_code == 404


def test_each_turn_has_what_was_added_and_results_beside_calls(runs: Stand) -> None:
    turns = agents_run(runs)["turns"]
    assert [turn["added"]["results"] for turn in turns] == [0, 1, 1, 1]
    assert [turn["added"]["messages"] for turn in turns] == [1, 0, 0, 0]
    calls = [call for turn in turns for call in turn["calls"]]
    assert [call["name"] for call in calls] == ["run"] * 3
    assert [call["repeated"] for call in calls] == ["", "same result as turn 1", "3rd time"]
    assert {call["result"]["text"] for call in calls} == {"2 failed"}
    assert turns[3]["text"] == "Done."


def test_a_side_request_is_beside_the_turn_that_started_it(runs: Stand) -> None:
    found = agents_run(runs)
    assert found["side_requests"] == 1
    (side,) = found["turns"][1]["side"]
    assert (side["kind"], side["title"], side["turns"]) == ("side request", "Write a title", 1)
    assert side["exchange"]


def test_the_byte_that_broke_the_prompt_cache_is_shown(runs: Stand) -> None:
    turns = agents_run(runs)["turns"]
    assert [turn["turn"] for turn in turns if turn["cache_break"]] == [3]
    broke = turns[2]["cache_break"]
    before, after = system(46)[0]["text"], system(47)[0]["text"]
    at = next(n for n, (one, other) in enumerate(zip(before, after, strict=True)) if one != other)
    assert (broke["byte"], broke["path"]) == (at, "$.system[0].text")
    assert broke["before"]["text"][broke["before"]["at"]] == "6"
    assert broke["after"]["text"][broke["after"]["at"]] == "7"
    assert broke["cause"] == "This looks like a timestamp."
    assert turns[2]["lost"] == broke["tokens"] > 0
    assert {"kind": "cache", "label": "cache broke", "level": "warn"} in turns[2]["problems"]


def test_an_exchange_names_its_turn(runs: Stand) -> None:
    found = agents_run(runs)
    exchange = found["turns"][2]["exchange"]
    seen = get(runs, f"/inspector/api/exchanges/{exchange}").json()
    assert seen["conversation"] == {"id": found["row"]["id"], "turn": 3, "turns": 4}


def test_the_list_marks_the_exchange_that_broke_the_prompt_cache(runs: Stand) -> None:
    found = agents_run(runs)
    broken = {row["id"]: row for row in get(runs, f"{EXCHANGES}?problem=cache").json()["rows"]}
    assert [found["turns"][2]["exchange"]] == list(broken)
    (row,) = broken.values()
    assert "warn" == row["level"]
    assert [{"kind": "cache", "label": "cache broke", "level": "warn"}] == [
        one for one in row["problems"] if one["kind"] == "cache"
    ]
    facets = get(runs, "/inspector/api/facets").json()["problem"]
    assert {"value": "cache", "count": 1} in facets
    assert ("cache broke", "warn") == (found["row"]["flag"], found["row"]["level"])
