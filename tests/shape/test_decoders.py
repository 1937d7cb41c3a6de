"""No number of a peer makes a decoder slow: untyped JSON is read with a float hook everywhere."""

import ast
import time
from pathlib import Path

import msgspec
import pytest

import dragoman
from dragoman.wire.json_values import decode_any

SOURCE = Path(dragoman.__file__).parent
# Parts that read their own files, or what their own user gives them.
TRUSTED = ("agents", "simulator", "probe", "cli", "mcp_server", "testing.py")
UNTYPED = ("Any", "object", "Json")


def decoders(tree: ast.AST) -> list[ast.Call]:
    """Return every making of a decoder, and every decoding."""
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
    return [one for one in calls if ast.unparse(one.func).endswith(("json.Decoder", "json.decode"))]


def is_slow(call: ast.Call) -> bool:
    """Say whether a decoder makes plain values of what it reads, with msgspec's own floats."""
    names = {word.arg for word in call.keywords}
    if "float_hook" in names:
        return False
    made = ast.unparse(call.func).endswith("Decoder")
    types = call.args if made else [word.value for word in call.keywords if word.arg == "type"]
    if not types:
        return True
    words = {one.id for one in ast.walk(types[0]) if isinstance(one, ast.Name)}
    return bool(words & set(UNTYPED))


@pytest.mark.parametrize(
    ("source", "slow"),
    [
        ("msgspec.json.decode(x)", True),
        ("msgspec.json.decode(x, type=dict[str, Any])", True),
        ("msgspec.json.Decoder()", True),
        ("msgspec.json.Decoder(list[dict[str, Any]])", True),
        ("msgspec.json.Decoder(Any, float_hook=read_float)", False),
        ("msgspec.json.decode(x, type=dict[str, Raw])", False),
        ("msgspec.json.Decoder(Chunk)", False),
    ],
)
def test_slow_decoders_are_found(source: str, *, slow: bool) -> None:
    (call,) = decoders(ast.parse(source))

    assert slow is is_slow(call)


def test_every_decoder_of_untyped_json_has_a_float_hook() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in TRUSTED
        for call in decoders(ast.parse(path.read_text("utf-8")))
        if is_slow(call)
    ]

    assert [] == found


def test_extreme_numbers_are_read_quickly() -> None:
    text = b"[" + b",".join([b"1e308", b"5e-324"] * 100_000) + b"]"
    begun = time.process_time()

    numbers = decode_any(text)

    assert [1e308, 5e-324] == numbers[:2]
    assert time.process_time() - begun < 3  # six seconds with msgspec's own


@pytest.mark.parametrize("text", [b"1e999", b"[-1e999]"])
def test_number_out_of_range_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match="out of range"):
        decode_any(text)
