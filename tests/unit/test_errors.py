"""Errors keep what they carry wherever they go."""

import copy
import pickle

import pytest

from dragoman.client.errors import ClientError
from dragoman.client.tool_loop import LoopStoppedError
from dragoman.errors import (
    ConfigError,
    DragomanError,
    IllegalOrderError,
    MalformedError,
    MisuseError,
    NotJsonError,
    TooLargeError,
    TruncatedError,
    UntranslatableError,
)
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Start

ERRORS = [
    MalformedError("bad", path="$.a", code="c"),
    NotJsonError("bad", path="$"),
    IllegalOrderError(state="idle", event="Finish", reason="r"),
    TruncatedError("a string"),
    TooLargeError("max_calls", 5),
    MisuseError("no"),
    UntranslatableError("cannot", path="$.b"),
    ConfigError("wrong"),
    LoopStoppedError("turns", "too many"),
    ClientError(
        "http",
        "no more",
        status=429,
        request_id="req_1",
        retry_after=1.5,
        code="busy",
        kind="rate_limit",
        received=Answer(Start(model="m"), (Block(BlockKind.TEXT, "Hel", complete=False),)),
    ),
]


@pytest.mark.parametrize("how", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("error", ERRORS, ids=lambda one: type(one).__name__)
def test_an_error_can_be_copied_and_sent_to_another_process(error: DragomanError, how) -> None:
    found = how(error)

    assert (type(error), str(error), error.args) == (type(found), str(found), found.args)
    assert vars(error) == vars(found)
