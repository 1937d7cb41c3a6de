"""The judge of streams: framing, chunking, bounds, totality; and what our own writers write."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.checker.checker import MAX_VIOLATIONS, Checker, Ending, check, rules
from dragoman.context import Exchange, Rendering
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.errors import ConfigError, MisuseError, TooLargeError
from dragoman.limits import Limits
from dragoman.profiles import profile
from dragoman.turn.events import BlockEnd, Fault
from dragoman.turn.state import Legality
from tests.properties.strategies import chat_streams, streams
from tests.support.corpus import SEALER, Case, corpus, drive, splits
from tests.support.odd_turns import TURNS
from tests.support.tables import check_all, in_one_test
from tests.support.views import HALF_CALL
from tests.unit.checker import test_anthropic as anthropic
from tests.unit.checker import test_chat as chat
from tests.unit.checker import test_gemini as gemini
from tests.unit.checker import test_responses as responses

GRAMMARS = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}
TEXTS = {name: tests.render(name, tests.TEXT) for name, tests in GRAMMARS.items()}
BROKEN = {
    name: [
        events if isinstance(events, bytes) else tests.render(name, events)
        for events in tests.TRIGGERS.values()
    ]
    for name, tests in GRAMMARS.items()
}

# Its clients do not read every event stream: see `test_gemini.py`.
each_but_gemini = pytest.mark.parametrize("name", [one for one in DIALECT_NAMES if one != "gemini"])
each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)


def rules_broken(name, stream):
    return [one.rule for one in check(name, stream).violations]


def found(name, pieces):
    """Return all that a checker says of a stream in pieces."""
    checker = Checker(name)
    violations = [one for piece in pieces for one in checker.feed(piece)]
    violations += checker.close()
    return violations, checker.verdict


def test_every_dialect_is_judged():
    assert set(DIALECT_NAMES) == set(GRAMMARS)


@each_dialect
def test_rules_have_names_in_kebab_case_and_a_line_of_prose(name):
    for rule, prose in rules(name).items():
        assert rule == rule.lower().replace("_", "-").replace(" ", "-")
        assert prose
        assert "\n" not in prose


def test_unknown_dialect_is_refused():
    with pytest.raises(ConfigError, match="no dialect `smoke`"):
        Checker("smoke")


@each_dialect
def test_legal_stream_gives_the_same_verdict_however_the_bytes_arrive(name):
    whole = found(name, [TEXTS[name]])

    for pieces in splits(TEXTS[name], most=300):
        assert whole == found(name, pieces)


@each_dialect
def test_broken_stream_gives_the_same_violations_however_the_bytes_arrive(name):
    for stream in BROKEN[name]:
        whole = found(name, [stream])

        assert whole[0]
        for pieces in splits(stream, most=20):
            assert whole == found(name, pieces)


@each_but_gemini
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_line_ends_of_any_kind_are_legal_and_do_not_move_offsets(name, line_end):
    stream = BROKEN[name][0].replace(b"\n", line_end)
    whole = found(name, [stream])

    assert [one.rule for one in whole[0]] == rules_broken(name, BROKEN[name][0])
    for pieces in splits(stream, most=300):
        assert whole == found(name, pieces)


@each_but_gemini
def test_violation_names_the_frame_and_the_byte_where_it_begins(name):
    first = TEXTS[name].index(b"\n\n") + 2
    stream = b": a comment\n\n" + TEXTS[name][:first] + b"data: {\n\n" + TEXTS[name][first:]
    violation = check(name, stream).violations[0]

    assert (violation.rule, violation.frame) == ("json", 2)
    assert stream[violation.offset :].startswith(b"data: {\n\n")


@each_dialect
def test_violation_at_the_end_names_the_frame_that_is_missing(name):
    violation = check(name, TEXTS[name][: TEXTS[name].index(b"\n\n") + 2]).violations[0]

    assert ("truncated", 2, TEXTS[name].index(b"\n\n") + 2) == (
        violation.rule,
        violation.frame,
        violation.offset,
    )


@each_dialect
def test_nothing_at_all_is_truncated(name):
    verdict = check(name, b"")

    assert [(one.rule, one.frame, one.offset) for one in verdict.violations] == [
        ("truncated", 1, 0)
    ]
    assert (verdict.legal, verdict.ended, verdict.frames) == (False, Ending.TRUNCATED, 0)


@each_dialect
def test_g2_stream_that_stops_anywhere_is_illegal(name):
    stream = TEXTS[name]

    for at in range(len(stream)):
        assert not check(name, stream[:at]).legal


@each_dialect
def test_half_an_event_after_the_end_is_illegal(name):
    assert rules_broken(name, TEXTS[name] + b"data: {") == ["nothing-after-end"]


@each_but_gemini
def test_g4_comments_are_legal_anywhere(name):
    stream = TEXTS[name].replace(b"\n\n", b"\n\n: keep-alive\n\n") + b": the end"

    assert check(name, stream).legal
    assert check(name, TEXTS[name]).frames == check(name, stream).frames


@each_dialect
def test_g4_comment_sent_as_data_is_illegal(name):
    assert rules_broken(name, b"data: : PROCESSING\n\n" + TEXTS[name]) == ["json"]


@each_but_gemini
def test_g5_comment_with_a_blank_line_is_illegal_once_an_id_was_given(name):
    stream = b"id: 1\n" + TEXTS[name]

    assert check(name, stream).legal
    assert rules_broken(name, stream + b": ping\n\n") == ["empty-frame"]


@each_but_gemini
def test_g5_comment_without_a_blank_line_is_legal_after_an_id(name):
    first = TEXTS[name].index(b"\n\n") + 2
    stream = b"id: 1\n" + TEXTS[name][:first] + b": ping\n" + TEXTS[name][first:]

    assert check(name, stream).legal


@each_but_gemini
def test_data_in_several_lines_and_without_a_space_is_legal(name):
    stream = TEXTS[name].replace(b"data: {", b"data:{\ndata:")

    assert check(name, stream).legal


@each_dialect
def test_body_that_is_no_stream_is_reported_as_none(name):
    assert rules_broken(name, b'{"error":{"message":"no"}}') == ["truncated"]
    assert "unknown-line" in rules_broken(name, b'{"error":{"message":"no"}}\n\n')


@each_dialect
def test_half_a_surrogate_pair_does_not_hide_the_event(name):
    stream = TEXTS[name].replace(b"day", b"\\ud83d")

    assert set(rules_broken(name, stream)) == {"surrogate-pair"}


@each_dialect
def test_byte_that_is_no_utf8_does_not_hide_the_event(name):
    assert set(rules_broken(name, TEXTS[name].replace(b"day", b"\xff"))) == {"utf-8"}


@each_dialect
def test_only_the_first_hundred_violations_are_kept(name):
    verdict = check(name, b"data: 1\n\n" * 150)

    assert len(verdict.violations) == MAX_VIOLATIONS
    assert verdict.unlisted == 51  # the missing end is one more


@each_dialect
def test_reasons_show_foreign_text_on_one_short_line(name):
    hostile = "\x1b[31m\n" + "x" * 1000
    stream = b"data: " + msgspec.json.encode({"type": hostile, "choices": hostile}) + b"\n\n"

    for one in check(name, stream).violations:
        assert one.reason.isprintable()
        assert len(one.reason) < 200


@each_dialect
def test_checker_refuses_to_go_on_after_its_end(name):
    checker = Checker(name)
    with pytest.raises(MisuseError):
        _ = checker.verdict
    checker.close()

    with pytest.raises(MisuseError):
        checker.feed(b"")
    with pytest.raises(MisuseError):
        checker.close()


@each_dialect
def test_stream_past_a_limit_kills_the_checker(name):
    checker = Checker(name, limits=Limits(max_response_bytes=100))

    with pytest.raises(TooLargeError, match="max_response_bytes"):
        checker.feed(b"x" * 101)
    with pytest.raises(MisuseError):
        checker.feed(b"")


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("anthropic", [anthropic.start(), *anthropic.text(0, "a"), *anthropic.text(1, "b")]),
        ("chat", [chat.ROLE, chat.head(0, "a"), chat.head(1, "b")]),
        ("chat", [chat.ROLE, chat.chunk(chat.choice(index=1))]),
        ("responses", responses.body(responses.reasoning("a"), responses.reasoning("b"))),
        ("responses", responses.body(responses.reasoning("a", "1", "2"))),
    ],
)
def test_number_of_blocks_is_bounded(name, events):
    stream = GRAMMARS[name].render(name, events)

    with pytest.raises(TooLargeError, match="max_blocks"):
        check(name, stream, limits=Limits(max_blocks=1))


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("anthropic", [anthropic.start(), *anthropic.call(0, "c", '{"a":[[')]),
        ("chat", [chat.ROLE, chat.head(0, "c", '{"a":[[')]),
        ("responses", responses.body(responses.call("fc_1", "c", '{"a":[['))),
    ],
)
def test_depth_of_arguments_is_bounded(name, events):
    stream = GRAMMARS[name].render(name, events)

    with pytest.raises(TooLargeError, match="max_json_depth"):
        check(name, stream, limits=Limits(max_json_depth=2))


@each_dialect
def test_json_too_deep_to_read_is_a_violation(name):
    assert "json" in rules_broken(name, b"data: " + b"[" * 100_000 + b"\n\n")


# --- totality: any bytes, any events ----------------------------------------------------------------

WORDS = [
    *(f"{field}: " for field in ("data", "event", "id", "retry")),
    *("\n", "\n\n", "\r\n\r\n", "\r", ":", "[DONE]", "{", "}", "null", "\ufeff", "\\ud83d"),
]
shreds = st.lists(st.sampled_from(WORDS).map(str.encode) | st.binary(max_size=4), max_size=30)
cuts = st.lists(st.integers(1, 40), max_size=20)


def cut(data, sizes):
    at, pieces = 0, []
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]


@each_dialect
@given(shreds=shreds, sizes=cuts)
def test_any_bytes_in_any_pieces_give_one_verdict(name, shreds, sizes):
    data = b"".join(shreds)
    violations, verdict = found(name, [data])

    assert (violations, verdict) == found(name, cut(data, sizes))
    assert verdict.legal == (not violations)
    assert {one.rule for one in violations} <= set(rules(name))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "{", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "id", "index", "text"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, prefix=()):
    """Return the paths of all values inside one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    paths = []
    for key, one in inner:
        paths.append((*prefix, key))
        if isinstance(one, dict | list):
            paths += places(one, (*prefix, key))
    return paths


@each_dialect
@given(data=st.data())
def test_events_with_any_values_in_them_give_a_verdict(name, data):
    tests = GRAMMARS[name]
    events = data.draw(st.sampled_from([tests.TEXT, tests.CALLS, tests.FAILED]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(events) - 1))
        if isinstance(events[at], str):
            continue
        path = data.draw(st.sampled_from(places(events[at])))
        if path != ("type",):
            spoiled = ".".join(map(str, path))
            events = tests.changed(events, at, spoiled, data.draw(json_values))
            if data.draw(st.booleans()):
                events = [*events[:at], *events[at + 1 :], events[at]]
    verdict = check(name, tests.render(name, events))

    assert {one.rule for one in verdict.violations} <= set(rules(name))


# --- what our own writers write ---------------------------------------------------------------------


@pytest.mark.parametrize("source", DIALECT_NAMES)
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_corpus_cases_are_written_as_legal_streams(source: str, target: str):
    check_all([(case, target) for case in corpus(source)], is_written_as_a_legal_stream)


def is_written_as_a_legal_stream(case: Case, target: str) -> None:
    events = drive(case.reader(), [case.stream])

    assert faults(target, written(target, events, case.exchange(target)), events) == []


RENDERINGS = [
    Rendering(),
    *(Rendering(chat_reasoning=one) for one in ("reasoning", "both", "details", "off")),
    Rendering(responses_reasoning="content"),
    Rendering(responses_refusal="text"),
    Rendering(stream_error_tail="message_stop"),
    Rendering(stream_error_tail="close"),
]


def exchange(sealer=SEALER, rendering=RENDERINGS[0]):
    return Exchange(
        profile=profile("generic"), seed="judge", created=1, sealer=sealer, rendering=rendering
    )


def written(target, events, of=None):
    writer = dialect(target).writer(of or exchange())
    return b"".join(writer.send(event) for event in events)


def faults(target, out, events):
    """Return what is wrong with a stream; a call that is not complete leaves as its peer wrote it."""
    half = any(isinstance(event, BlockEnd) and not event.complete for event in events)
    excused = HALF_CALL if half else frozenset()
    return [one for one in check(target, out).violations if one.rule not in excused]


@pytest.mark.parametrize("source", DIALECT_NAMES)
@pytest.mark.parametrize("target", DIALECT_NAMES)
@given(data=st.data())
def test_any_turn_is_written_as_a_legal_stream(source, target, data):
    events = data.draw(streams(source))

    assert faults(target, written(target, events), events) == []


@pytest.mark.parametrize("target", DIALECT_NAMES)
@given(stream=chat_streams())
def test_any_chat_deltas_are_written_as_a_legal_stream(target, stream):
    of = exchange()
    reader = StreamReader(dialect("chat").frame_reader(of), of)

    events = drive(reader, [stream])
    assert faults(target, written(target, events, of), events) == []


@pytest.mark.parametrize("target", DIALECT_NAMES)
@in_one_test
@pytest.mark.parametrize("turn", TURNS)
def test_odd_turn_is_written_as_a_legal_stream_however_it_is_rendered(target, turn):
    legality = Legality()
    for event in TURNS[turn]:
        legality.check(event)
    failed = any(isinstance(event, Fault) for event in TURNS[turn])

    for sealer in (None, SEALER):
        for rendering in RENDERINGS:
            out = written(target, TURNS[turn], exchange(sealer, rendering))
            assert faults(target, out, TURNS[turn]) == []
            assert (Ending.FAILURE if failed else Ending.FINISH) == check(target, out).ended


def test_a_failure_may_be_sent_once_more_where_a_dialect_does_that() -> None:
    error = b'{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}'
    twice = b"data: %b\n\n%b" % (error, error)

    assert ("failure", True) == (check("gemini", twice).ended, check("gemini", twice).legal)
    assert not check("gemini", twice + b"\n\n" + error).legal
    assert not check("gemini", twice.replace(b"busy", b"idle", 1)).legal
    assert not check("chat", twice).legal
