"""Secrets that a model writes in pieces: no piece looks like one, and no recording has them joined."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.settings import Record, Settings
from dragoman.recorder.cut_secrets import PiecesWatch
from dragoman.recorder.recording import Recording
from dragoman.redaction import Blotter
from tests.support.asking import post
from tests.support.gateway import DIALECTS, settings_for, stand
from tests.support.recordings import recorded
from tests.support.simulator import WEATHER, question

SECRETS = ("sk-ant-planted0123456789abcdef", "correct-horse-battery-staple", "ACME-4711-4711")
SAID = f"Größe: the key is {SECRETS[0]}, password: {SECRETS[1]}, {SECRETS[2]}. That is all."


def joined(recording: Recording) -> dict[str, str]:
    """Return all text of the answer, as the upstream sent it, as it was understood, and as the client got it."""
    attempt = recording.answered
    assert attempt is not None
    events = [json.loads(bytes(one)) for one in attempt.events]
    return {
        "events": "".join(str(one.get("text", "")) + str(one.get("json", "")) for one in events),
        "upstream": "".join(strings(b"".join(attempt.pieces()))),
        "client": "".join(strings(b"".join(one.data.data for one in recording.written))),
    }


def strings(stream: bytes) -> list[str]:
    """Return the text of deltas."""
    lines = [line.partition(b"data: ")[2] for line in stream.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith(b"{")]
    return [text for one in found for text in deltas(one)]


def deltas(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in deltas(one)]
    if not isinstance(value, dict):
        return []
    own = [
        str(value[key])
        for key in ("text", "content", "partial_json", "arguments", "city")
        if isinstance(value.get(key), str)
    ]
    own += [value["delta"]] if isinstance(value.get("delta"), str) else []
    return own + [text for one in value.values() for text in deltas(one)]


@pytest.mark.parametrize("client", DIALECTS)
def test_a_secret_in_pieces_is_overwritten_and_the_recording_replays(
    tmp_path: Path, client: str
) -> None:
    def make(url: str) -> Settings:
        record = Record(dir=str(tmp_path), secrets=(r"ACME-\d+-\d+",))
        return settings_for(url, record=record)

    call = json.dumps({"city": SAID})
    with stand(make) as gateway:
        for upstream in DIALECTS:
            for words in (f"sim: say {SAID}", f"sim: call get_weather {call}"):
                asked = question(client, f"{upstream}/plain", words, tools=[WEATHER], stream=True)
                answer = post(gateway, client, asked)
                assert answer.status_code == 200
    found = recorded(tmp_path)
    assert len(found) == 2 * len(DIALECTS)
    for one in found:
        for side, text in joined(one).items():
            assert "****" in text, (one.opening.id, side)
            assert "That is all." in text
            for secret in SECRETS:
                assert secret not in text, (one.opening.id, side)
    result = CliRunner().invoke(main, ["diff", str(tmp_path)])
    assert result.exit_code == 0, result.output


def events(*texts: str) -> bytes:
    return msgspec.json.encode([{"event": "text", "index": 0, "text": text} for text in texts])


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([["The key is s", "k-ant-", "0123456", "789"]], True),
        ([["The key is s"], ["k-ant-0123"], ["456789"]], True),
        ([["The pass", "word is not here"]], False),
        ([["password", ": ", "correct", "-horse"]], True),
        ([["password: *****", "****"]], False),  # it was overwritten in each piece
        ([["the known one: qwert", "yuiop-1"]], True),
        ([["x " * 5000, "sk-", "ant-0123456789"]], True),
        ([[]], False),
    ],
)  # fmt: skip
def test_secrets_are_noticed_over_pieces_and_batches(batches: list[list[str]], found: bool) -> None:
    watch = PiecesWatch(Blotter(("qwertyuiop-1",)))
    for batch in batches:
        watch.take(events(*batch))
        watch.look()

    assert found == watch.found
