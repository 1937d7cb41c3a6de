"""Recordings of real exchanges, of every family and fault, through the code of today: nothing differs."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.settings import Record, Settings
from dragoman.recorder.recording import read_recording
from dragoman.toolcalls.formats import FORMATS
from tests.support.asking import post
from tests.support.gateway import DIALECTS, settings_for, stand
from tests.support.simulator import question

FAULTS = (
    "cut", "reset", "cut:end", "ends-in:call", "ends-in:text", "half-call", "no-finish", "no-done", "garbage",
    "error-in", "error-end", "error-first", "error:429", "error:500", "error-page:502", "empty", "error-200",
    "json-instead", "cut-args", "bad-json-args", "object-args", "length", "refuse", "crlf", "comments",
    "interleave+parallel:3", "think", "no-usage", "chunk:byte",
)  # fmt: skip


def exchanges() -> Iterator[tuple[str, str, bool]]:
    """Yield dialects of clients, models, and whether the answer is streamed: about 300."""
    turn = 0
    for family in FORMATS:
        for quirks in ("", "+leak-reasoning", "+length"):
            turn += 1
            client = DIALECTS[turn % 3]
            upstream = DIALECTS[turn // 3 % 3]
            yield client, f"{upstream}/{family.replace('_', '-')}{quirks}", turn % 4 != 0
    for fault in FAULTS:
        for number, client in enumerate(DIALECTS):
            for upstream in (client, DIALECTS[(number + 1) % 3]):
                yield client, f"{upstream}/plain+{fault}", True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("recordings")

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(found)))

    with stand(make) as gateway, ThreadPoolExecutor(8) as threads:

        def ask(one: tuple[str, str, bool]) -> None:
            client, model, stream = one
            with suppress(httpx2.HTTPError):
                post(gateway, client, question(client, model, stream=stream))

        list(threads.map(ask, exchanges()))
    return found


def test_every_exchange_is_one_file(folder: Path) -> None:
    files = list(folder.iterdir())
    assert len(files) == len(list(exchanges())) >= 300
    for file in files:
        recording = read_recording(file)
        assert recording.outcome is not None
        assert recording.torn_at is None
        assert recording.written


def test_nothing_differs_from_what_was_recorded(folder: Path) -> None:
    result = CliRunner().invoke(main, ["diff", str(folder)])
    assert result.exit_code == 0, result.output[:4000]
    assert "0 differ" in result.output
