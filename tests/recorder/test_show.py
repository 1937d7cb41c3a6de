"""`dragoman show`: a recording as text."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.recorder.lines import SUFFIX
from tests.support.asking import post
from tests.support.recordings import RECORDING, recording_gateway
from tests.support.simulator import question


def test_show_prints_who_asked_whom_and_the_answer(folder: Path) -> None:
    file = next(
        file for file in folder.iterdir() if b'"native_format":"kimi_k2"' in file.read_bytes()
    )
    result = CliRunner().invoke(main, ["show", "--bytes", str(file)])
    assert result.exit_code == 0
    for words in (
        "client    POST /v1/",
        "upstream  ",
        "outcome   200",
        "upstream sent",
        "tool_call",
        "markers in the upstream's bytes",
        "  <|tool_call_begin|>",
    ):
        assert words in result.output


def test_a_search_that_the_vendor_ran_is_shown_with_its_query_and_links(tmp_path: Path) -> None:
    text = "sim: search oslo\nsim: say It snows."
    with recording_gateway(tmp_path) as gateway:
        post(gateway, "chat", question("chat", "anthropic/plain", text))
    (file,) = tmp_path.iterdir()
    result = CliRunner().invoke(main, ["show", str(file)])

    assert result.exit_code == 0, result.output
    assert "web_search, run by the vendor: oslo" in result.output
    assert "2 sources\nResult 1 for oslo  https://source1.example/oslo\n" in result.output


def test_a_tool_of_the_vendor_that_has_no_sources_is_shown_without_a_count(tmp_path: Path) -> None:
    asked = question("chat", "responses/plain", "sim: image a cat\nsim: say Done.")
    with recording_gateway(tmp_path) as gateway:
        assert 200 == post(gateway, "chat", asked).status_code
    (file,) = tmp_path.iterdir()
    result = CliRunner().invoke(main, ["show", str(file)])

    assert result.exit_code == 0, result.output
    assert "image_generation, run by the vendor: a cat" in result.output
    assert "server_result\nan image of type image/png\n" in result.output
    assert "0 sources" not in result.output


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_show_has_no_colours_where_they_are_not_wanted(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    shown = CliRunner().invoke(main, ["show", str(RECORDING)], color=True)
    assert "\x1b[" in shown.output

    monkeypatch.setenv(variable, "dumb")
    shown = CliRunner().invoke(main, ["show", str(RECORDING)], color=True)
    assert "\x1b" not in shown.output


def test_no_text_of_a_recording_controls_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / f"one{SUFFIX}"
    data = RECORDING.read_text()
    for name in ("id", "program", "path", "model", "url", "ended"):
        data = data.replace(f'"{name}":"', rf'"{name}":"\u001b]0;title\u0007')
    file.write_text(data)
    shown = CliRunner().invoke(main, ["show", str(file)])

    assert shown.exit_code == 0, shown.output
    assert r"\x1b]0;title\x07" in shown.output
    assert "\x1b" not in shown.output
