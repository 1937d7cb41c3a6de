"""Error answers of real servers, whole: what each says, read in any dialect and written in any other.

tests/corpus/errors/<case>/
    case.md        what this shows and where it was seen
    body.txt       the bytes exactly as received
    reported.json  {"status": NUMBER, "dialects": [...], "kind": KIND, "message": TEXT}
"""

import msgspec
import pytest

from dragoman import translate_error
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.turn.events import FaultKind
from tests.support.corpus import ROOT

CASES = sorted((ROOT / "errors").iterdir())


class ExpectedError(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    dialects: tuple[str, ...]
    kind: FaultKind
    message: str


def expected_error(name: str) -> ExpectedError:
    return msgspec.json.decode(
        (ROOT / "errors" / name / "reported.json").read_bytes(), type=ExpectedError
    )


each = pytest.mark.parametrize(
    ("name", "source"),
    [(case.name, source) for case in CASES for source in expected_error(case.name).dialects],
)


@each
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_error_of_a_server_is_reported_with_its_own_words(
    name: str, source: str, target: str
) -> None:
    expected = expected_error(name)
    body = (ROOT / "errors" / name / "body.txt").read_bytes()

    fault = dialect(source).decode_fault(expected.status, body)
    _, answer = translate_error(expected.status, body, source=source, target=target)

    assert (expected.kind, expected.message) == (fault.kind, fault.message)
    # Messages clients shorten their history on these words.
    assert msgspec.json.decode(answer)["error"]["message"].endswith(expected.message)
