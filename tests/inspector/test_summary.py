"""One exchange as a row of the list."""

from typing import Any

from dragoman.inspector.summary import LogRecord, client_name, summarize


def test_clients_by_their_user_agent() -> None:
    names: dict[str, Any] = {
        "claude-cli/2.0.31 (external, cli)": "Claude Code",
        "codex_cli_rs/0.58.0 (Linux)": "Codex",
        "opencode/1.0": "opencode",
        "AsyncOpenAI/Python 2.7": "OpenAI SDK",
        "Anthropic/JS 0.6": "Anthropic SDK",
        "curl/8.5.0": "curl",
        "<script>": "",
        "": "",
    }
    assert {agent: client_name(agent) for agent in names} == names


def test_a_failure_is_named_in_words() -> None:
    record = LogRecord(
        status=429, error="rate_limit", error_code="rate_limit_exceeded", dialect="chat"
    )
    row = summarize(record, client="").row
    assert (row.ended, row.level) == ("rate limit", "failed")
    assert [problem.label for problem in row.problems] == ["rate limit exceeded"]
