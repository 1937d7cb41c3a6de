"""How answers end: every fault of the simulator, in every dialect of clients, byte for byte.

The files in `endings/` are what a client receives; only ids, times and sealed state are replaced.  The
tests below them judge the files by the rules of each dialect, so that no wrong one can be agreed on.
"""

import json

import pytest
from tools.endings import PAGE, page

from dragoman.checker.checker import check
from dragoman.simulator.quirks import QUIRKS
from tests.support import endings
from tests.support.endings import ENDINGS, ROOT, Ending, Seen, file_of, judge_failed_stream
from tests.support.gateway import DIALECTS, Stand, stand
from tests.support.tables import in_one_test
from tests.support.views import HALF_CALL

CASES = [(ending, dialect) for ending in ENDINGS for dialect in DIALECTS]
NAMES = [f"{ending.name}-{dialect}" for ending, dialect in CASES]
FAILING = [(ending, dialect) for ending, dialect in CASES if ending.fails]
BROKEN = ("bad_json", "cut_arguments")  # endings whose upstream sends arguments that are no object
# Bytes of the peer pass in a relay, even those that are no JSON, and arguments that are text.
UNCHECKED = {("garbage", "chat"), ("garbage_from_anthropic", "anthropic")} | {
    ("garbage_from_responses", "responses"),
    ("garbage_from_gemini", "gemini"),
    ("bad_json_arguments_from_gemini", "gemini"),
}


@pytest.fixture(scope="module")
def gateway() -> Stand:
    with stand(endings.settings) as found:
        yield found


@pytest.fixture(scope="module")
def texts_seen(gateway: Stand) -> dict[tuple[str, str], str]:
    """Every ending as every client sees it, asked for all at once."""
    texts = gateway.do(endings.ask_all(gateway), timeout=100)
    return {(ending.name, dialect): text for (ending, dialect), text in texts.items()}


@in_one_test
@pytest.mark.parametrize(("ending", "dialect"), CASES, ids=NAMES)
def test_g3_client_sees_exactly(texts_seen, ending: Ending, dialect: str) -> None:
    expected = file_of(ending, dialect).read_text()

    assert expected == texts_seen[ending.name, dialect]


def test_no_file_is_left_over_and_every_fault_is_played() -> None:
    played = {quirk.partition(":")[0] for one in ENDINGS for quirk in one.model.split("+")[1:]}
    faults = {quirk.name for quirk in QUIRKS.values() if quirk.fault} - {"fail"}

    assert {file_of(one, dialect).name for one, dialect in CASES} == {
        path.name for path in ROOT.iterdir()
    }
    assert set() == faults - played


def test_page_shows_what_clients_receive() -> None:
    assert page() == PAGE.read_text()


# --- judges ---------------------------------------------------------------------------------------


def seen(ending: Ending, dialect: str) -> dict[str, Seen]:
    return endings.read(file_of(ending, dialect).read_text())


@in_one_test
@pytest.mark.parametrize(("ending", "dialect"), CASES, ids=NAMES)
def test_every_stream_is_legal(ending: Ending, dialect: str) -> None:
    stream = seen(ending, dialect).get("stream")
    if stream is None or stream.status != 200 or (ending.name, dialect) in UNCHECKED:
        return

    verdict = check(dialect, stream.body.rstrip("\n").encode() + b"\n\n")

    excused = HALF_CALL if ending.name.startswith(BROKEN) else frozenset()
    assert not [one for one in verdict.violations if one.rule not in excused]


@in_one_test
@pytest.mark.parametrize(("ending", "dialect"), FAILING, ids=[f"{e.name}-{d}" for e, d in FAILING])
def test_p_10_failure_never_looks_like_success(ending: Ending, dialect: str) -> None:
    for way, answer in seen(ending, dialect).items():
        if way == "stream" and answer.status == 200:
            assert "text/event-stream; charset=utf-8" == answer.headers["content-type"]
            assert [] == judge_failed_stream(dialect, answer.body)
        else:
            assert 400 <= answer.status <= 599
            assert "application/json" == answer.headers["content-type"]
            assert json.loads(answer.body)["error"]["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "name", ["error_200", "error_200_rate_limit", "error_first", "error_in", "finish_error"]
)
def test_g1_error_behind_a_good_status_is_reported_as_one(name: str, dialect: str) -> None:
    ending = next(one for one in ENDINGS if one.name == name)
    for way, answer in seen(ending, dialect).items():
        assert '"error":{"' in answer.body, way
        assert 400 <= answer.status or "text/event-stream" in answer.headers["content-type"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["half_call", "half_native_call", "no_finish_after_call"])
def test_g2_half_call_never_looks_whole(name: str, dialect: str) -> None:
    ending = next(one for one in ENDINGS if one.name == name)
    body = seen(ending, dialect)["stream"].body

    # It had begun; Gemini has no calls that begin.
    assert "weather" in body or dialect == "gemini"
    assert "functionCall" not in body
    assert "upstream stream terminated unexpectedly" in body
    assert "content_block_stop" not in body
    assert "response.output_item.done" not in body
    assert '"finish_reason":"' not in body


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["length_in_text", "length_in_call", "length_in_native_call"])
def test_limit_of_tokens_is_reported_and_not_masked(name: str, dialect: str) -> None:
    ending = next(one for one in ENDINGS if one.name == name)
    words = {
        "chat": '"finish_reason":"length"',
        "anthropic": '"stop_reason":"max_tokens"',
        "gemini": '"finishReason":"MAX_TOKENS"',
    }

    for answer in seen(ending, dialect).values():
        assert (
            words.get(dialect, '"incomplete_details":{"reason":"max_output_tokens"}') in answer.body
        )
