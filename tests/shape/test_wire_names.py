"""Field names and headers of dialects are known to `dialects/` alone; a shell asks the registry."""

import ast
import re
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "src" / "dragoman"
# What moves requests and answers and has no dialect.  The simulator, the probe and the checker write and judge every
# dialect by hand, so that they can test ours.
PLACES: Final = (
    "agents",
    "cli",
    "client",
    "gateway",
    "inspector",
    "mcp_server",
    "recorder",
    "transport",
)
MODULES: Final = (
    "answer_reader.py",
    "exchange_setup.py",
    "passthrough.py",
    "translate.py",
    "translate_requests.py",
)

NAMES: Final = (
    "anthropic-beta",
    "anthropic-version",
    "chat.completion",
    "content_block",
    "encrypted_content",
    "finishReason",
    "finish_reason",
    "functionCall",
    "functionDeclarations",
    "functionResponse",
    "function_call",
    "function_call_output",
    "input_schema",
    "item_reference",
    "max_completion_tokens",
    "output_item",
    "previous_response_id",
    "reasoning_content",
    "sequence_number",
    "stop_reason",
    "systemInstruction",
    "thoughtSignature",
    "tool_call_id",
    "tool_calls",
    "tool_result",
    "tool_use",
    "tool_use_id",
    "totalTokens",
    "x-api-key",
    "x-goog-api-key",
)
_NAMED: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, NAMES))})(?![\w-])")

_AUTH: Final = "`AuthStyle` names its styles by the header"
_STARTS_FAST: Final = "dialects would double the start of the process that writes recordings"
ALLOWED: Final = {
    ("cli/mcp.py", "x-api-key"): _AUTH,
    ("cli/mcp.py", "x-goog-api-key"): _AUTH,
    ("cli/parse.py", "tool_calls"): "a field of the command's own output",
    ("cli/serve.py", "input_schema"): "the example request of `--help`",
    (
        "gateway/config/import_ccr.py",
        "max_completion_tokens",
    ): "a value of the setting `max_tokens_field`",
    ("gateway/config/import_ccr.py", "tool_calls"): "a setting of an upstream",
    ("gateway/config/import_litellm.py", "max_completion_tokens"): "a key of LiteLLM's file",
    ("gateway/config/settings.py", "reasoning_content"): "a value of the setting `chat_reasoning`",
    ("gateway/config/settings.py", "x-api-key"): _AUTH,
    ("gateway/config/settings.py", "x-goog-api-key"): _AUTH,
    ("gateway/keys.py", "x-api-key"): "a client's key is read before its dialect is known",
    ("gateway/keys.py", "x-goog-api-key"): "a client's key is read before its dialect is known",
    ("inspector/answer_rows.py", "tool_calls"): "the kind of a row, whatever the dialect",
    ("recorder/writer.py", "x-api-key"): _STARTS_FAST,
    ("recorder/writer.py", "x-goog-api-key"): _STARTS_FAST,
    ("mcp_server/tool_types.py", "input_schema"): "the MCP server's own input, and its example",
}


def _literals(file: Path) -> set[str]:
    """Return the strings of a module, without its docstrings."""
    tree = ast.parse(file.read_text())
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, scopes)]
    docs = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in docs
    ]
    texts = [one.decode("latin1") if isinstance(one, bytes) else one for one in values]
    return {one for one in texts if isinstance(one, str)}


def _found() -> set[tuple[str, str]]:
    files = [file for place in PLACES for file in (SOURCE / place).rglob("*.py")]
    files += [SOURCE / name for name in MODULES]
    return {
        (file.relative_to(SOURCE).as_posix(), name)
        for file in files
        for text in _literals(file)
        for name in _NAMED.findall(text)
    }


def test_no_wire_name_is_written_outside_of_the_dialects() -> None:
    found = _found()

    assert not sorted(found - ALLOWED.keys()), "put the fact into `dialects/`"
    assert not sorted(ALLOWED.keys() - found), "no longer needed"


def test_the_names_are_those_of_the_dialects() -> None:
    folder = SOURCE / "dialects"
    written = "\n".join(file.read_text() for file in folder.rglob("*.py"))

    assert not [name for name in NAMES if name not in written]
