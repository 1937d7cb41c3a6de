"""`dragoman translate`, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.chat import DONE, USAGE, call, chunk, types

DRAGOMAN = [sys.executable, "-m", "dragoman.cli.main"]
TEXT = (
    chunk({"role": "assistant", "content": ""})
    + chunk({"content": "Hi"})
    + chunk({}, "stop")
    + USAGE
    + DONE
)


def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*DRAGOMAN, "translate", *arguments],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
    )


def losses(result: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [msgspec.json.decode(line)["loss"] for line in result.stderr.splitlines()]


def test_a_stream_becomes_another_dialects_stream() -> None:
    result = run("--from", "chat", "--to", "anthropic", data=TEXT)

    assert 0 == result.returncode
    assert b"" == result.stderr
    assert ("message_start", "message_stop") == (types(result.stdout)[0], types(result.stdout)[-1])


def test_events_leave_as_they_arrive() -> None:
    with subprocess.Popen(
        [*DRAGOMAN, "translate", "--from", "chat", "--to", "anthropic"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in ("one", "two"):
            process.stdin.write(chunk({"content": word}))
            process.stdin.flush()
            while word.encode() not in process.stdout.readline():
                pass
        process.stdin.write(chunk({}, "stop") + DONE)
        process.stdin.close()

        assert b"message_stop" in process.stdout.read()
    assert 0 == process.returncode


def test_a_cut_stream_is_reported_and_judged_bad() -> None:
    result = run("--from", "chat", "--to", "anthropic", data=chunk({"content": "Hi"}))

    assert 1 == result.returncode
    assert "error" == types(result.stdout)[-1]


def test_losses_are_json_lines_on_standard_error() -> None:
    stream = (
        chunk(call(0, "{}", id="c", name="f"))
        + b"data: nonsense\n\n"
        + chunk({}, "stop")
        + USAGE
        + DONE
    )

    result = run("--from", "chat", "--to", "anthropic", data=stream)

    assert 0 == result.returncode
    assert ["chunk_malformed", "finish_reason_fixed"] == losses(result)


def test_native_calls_are_found_with_the_declared_tools_and_without_any_list(
    tmp_path: Path,
) -> None:
    tools, no_tools = tmp_path / "tools.json", tmp_path / "no_tools.json"
    tools.write_bytes(b'[{"name":"bash","input_schema":{"type":"object"}}]')
    no_tools.write_bytes(b"[]")
    leaked = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    stream = chunk({"content": leaked}) + chunk({}, "stop") + USAGE + DONE
    ways = ("--from", "chat", "--to", "anthropic")
    model = (*ways, "--model", "kimi-k2")

    declared = run(*model, "--tools", str(tools), data=stream)
    by_model = run(*model, data=stream)
    by_format = run(*ways, "--format", "kimi_k2", data=stream)
    off = run(*model, "--tools", str(tools), "--format", "none", data=stream)
    none = run(*model, "--tools", str(no_tools), data=stream)
    no_family = run(*ways, data=stream)

    for result in (declared, by_model, by_format):
        assert b'"tool_use"' in result.stdout
        assert b"tool_calls_section" not in result.stdout
    for result in (off, none, no_family):
        assert b'"type":"tool_use"' not in result.stdout
        assert b"<|tool_calls_section_begin|>" in result.stdout


def test_a_body_becomes_another_dialects_body() -> None:
    message = {"role": "assistant", "content": "Hi"}
    body = {
        "id": "x",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }

    result = run("--from", "chat", "--to", "responses", "--body", data=msgspec.json.encode(body))

    assert 0 == result.returncode
    assert "completed" == msgspec.json.decode(result.stdout)["status"]
    assert ["usage_missing"] == losses(result)


def test_a_body_that_is_an_error_is_judged_bad() -> None:
    result = run(
        "--from", "chat", "--to", "anthropic", "--body", data=b'{"error":{"message":"no"}}'
    )

    assert 1 == result.returncode
    assert "error" == msgspec.json.decode(result.stdout)["type"]


def test_a_request_becomes_another_dialects_request() -> None:
    body = {
        "model": "claude",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "top_k": 4,
    }

    result = run(
        "--from",
        "anthropic",
        "--to",
        "responses",
        "--request",
        "--model",
        "gpt",
        "--profile",
        "openai",
        data=msgspec.json.encode(body),
    )

    assert 0 == result.returncode
    assert "gpt" == msgspec.json.decode(result.stdout)["model"]
    assert "sampling_dropped" in losses(result)


@pytest.mark.parametrize(
    ("arguments", "data", "code"),
    [
        (("--from", "chat", "--to", "anthropic", "--request"), b"not json", 1),
        (("--from", "chat", "--to", "anthropic", "--request"), b'{"model":1,"messages":[]}', 1),
        (("--from", "chat"), b"", 2),
        (("--from", "chat", "--to", "smtp"), b"", 2),
        (("--from", "chat", "--to", "chat", "--profile", "nobody"), b"", 2),
        (("--from", "chat", "--to", "chat", "--format", "nobody"), b"", 2),
        (("--from", "chat", "--to", "chat", "--tools", "no-such-file"), b"", 2),
    ],
)
def test_a_users_mistake_is_a_line_and_an_exit_code(
    arguments: tuple[str, ...], data: bytes, code: int
) -> None:
    result = run(*arguments, data=data)

    assert code == result.returncode
    assert b"Traceback" not in result.stderr
    assert result.stderr.strip()


def test_a_tools_file_that_is_no_list_is_a_users_mistake(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text("{}")

    result = run("--from", "chat", "--to", "chat", "--tools", str(tools))

    assert 1 == result.returncode
    assert b"Traceback" not in result.stderr


def test_help_is_complete() -> None:
    text = run("--help").stdout.decode()

    for option in (
        "--from",
        "--to",
        "--body",
        "--request",
        "--profile",
        "--model",
        "--format",
        "--tools",
    ):
        assert option in text
    assert "Exit codes" in text
