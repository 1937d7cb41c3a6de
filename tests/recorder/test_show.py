"""`dragoman show`: a recording as text."""

from pathlib import Path

from click.testing import CliRunner

from dragoman.cli.main import main
from tests.support.asking import post
from tests.support.recordings import recording_gateway
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
