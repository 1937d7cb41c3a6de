"""Every bound is used somewhere, is passed by a test, and names itself when it is passed."""

import inspect
from pathlib import Path

import pytest

import dragoman
from dragoman.envelopes import Envelope, Sealer
from dragoman.errors import DragomanError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, MEASURES, Limits
from dragoman.turn.arguments import JsonArguments
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import OpaqueKind
from dragoman.wire.json_scanner import JsonScanner
from dragoman.wire.sse import SSEReader

SOURCE = Path(dragoman.__file__).parent
TESTS = Path(__file__).parent.parent
# Bounds that are no error to pass: what is beyond them is left out, and said.
QUIET = {"resend_window_bytes", "max_envelope_bytes"}

each_limit = pytest.mark.parametrize("name", Limits.__struct_fields__)


def text_of(folder: Path) -> str:
    return "".join(
        path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
        if path.name not in ("limits.py", "test_limits.py")
    )


@each_limit
def test_a_limit_is_used_by_some_code(name: str) -> None:
    assert f"limits.{name}" in text_of(SOURCE)


@each_limit
def test_a_limit_is_passed_by_some_test(name: str) -> None:
    assert f"Limits({name}=" in text_of(TESTS)


@each_limit
def test_a_limit_that_is_an_error_to_pass_names_itself(name: str) -> None:
    source = text_of(SOURCE)

    assert (name in QUIET) is not (
        f'TooLargeError("{name}"' in source or f'TooLongError("{name}"' in source
    )


@each_limit
def test_a_limit_has_a_subject_and_a_unit_for_its_message(name: str) -> None:
    subject, unit = MEASURES[name]

    assert subject.endswith((" has", " have"))
    assert unit == {"bytes": "bytes", "chars": "characters"}.get(name.rpartition("_")[2], unit)
    assert f"{subject} more than 7 {unit}; raise the limit `{name}` in `[server.limits]`" in str(
        TooLargeError(name, 7)
    )


@each_limit
def test_a_limit_has_its_reason_in_the_docstring(name: str) -> None:
    assert f"\n    {name}: " in (inspect.getdoc(Limits) or "")


def test_the_defaults_are_those_that_the_documents_promise() -> None:
    mib = 1024 * 1024

    assert DEFAULT_LIMITS.max_request_bytes == 64 * mib
    assert DEFAULT_LIMITS.max_response_bytes == 256 * mib
    assert DEFAULT_LIMITS.max_sse_event_bytes == 32 * mib
    assert DEFAULT_LIMITS.max_tool_args_bytes == 16 * mib


@pytest.mark.parametrize(
    ("limits", "pass_it"),
    [
        (Limits(max_response_bytes=5), lambda limits: SSEReader(limits=limits).feed(b"data: 1\n")),
        (Limits(max_sse_event_bytes=5), lambda limits: SSEReader(limits=limits).feed(b"data: 1\n")),
        (
            Limits(max_tool_args_bytes=5),
            lambda limits: JsonArguments(limits=limits).feed('{"a":1}'),
        ),
        (Limits(max_json_depth=1), lambda limits: JsonScanner(limits=limits).feed("[[")),
        (Limits(max_blocks=0), lambda limits: Assembler(limits=limits).text("x")),
    ],
    ids=lambda value: "" if callable(value) else "limit",
)
def test_s_11_passing_a_limit_is_an_error_that_names_it(limits: Limits, pass_it) -> None:
    with pytest.raises(TooLargeError) as caught:
        pass_it(limits)

    assert caught.value.allowed == getattr(limits, caught.value.limit)
    assert caught.value.http_status == 413
    assert f"`{caught.value.limit}`" in str(caught.value)
    assert isinstance(caught.value, DragomanError)


def test_an_envelope_past_its_limit_is_left_out() -> None:
    sealer = Sealer(b"key", limits=Limits(max_envelope_bytes=10))

    assert sealer.seal(Envelope("o", OpaqueKind.PLAIN)) is None
