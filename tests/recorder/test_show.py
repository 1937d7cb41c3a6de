"""`dragoman show`: a recording as text."""

from pathlib import Path

from click.testing import CliRunner

from dragoman.cli.main import main


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
