"""Server-sent events: the specification's examples, every spelling, every cut, every limit."""

from collections.abc import Iterable
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import MisuseError, TooLargeError
from dragoman.limits import Limits
from dragoman.wire.sse import Frame, SSEReader, encode_data, encode_event


def frames(*pieces: bytes) -> list[Frame]:
    reader = SSEReader()
    found = [frame for piece in pieces for frame in reader.feed(piece)]
    return found + reader.close()


def said(*pieces: bytes) -> list[tuple[str, bytes]]:
    return [(frame.event, frame.data) for frame in frames(*pieces) if frame.data]


def feed_all(reader: SSEReader, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        reader.feed(piece)


def one_by_one(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


# --- the examples of the specification --------------------------------------------------------------


def test_specification_three_lines_of_data_are_one_event() -> None:
    stream = b"data: YHOO\ndata: +2\ndata: 10\n\n"

    assert said(stream) == [("", b"YHOO\n+2\n10")]


def test_specification_comments_and_ids_are_passed_over_and_a_blank_is_kept_after_the_first() -> (
    None
):
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"

    assert said(stream) == [("", b"first event"), ("", b"second event"), ("", b" third event")]


def test_specification_an_empty_data_line_is_data_and_the_last_event_is_not_whole() -> None:
    found = frames(b"data\n\ndata\ndata\n\ndata:")

    assert [(frame.data, frame.whole) for frame in found] == [
        (b"", True),
        (b"\n", True),
        (b"", False),
    ]


def test_specification_the_space_after_the_colon_means_nothing() -> None:
    assert said(b"data:test\n\ndata: test\n\n") == [("", b"test"), ("", b"test")]


def test_specification_named_events() -> None:
    stream = (
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent:add\ndata:113411\n\n"
    )

    assert said(stream) == [("add", b"73857293"), ("remove", b"2153"), ("add", b"113411")]


def test_specification_lines_end_in_three_ways_even_mixed() -> None:
    stream = b"data: a\r\rdata: b\n\ndata: c\r\n\r\ndata: d\rdata: e\n\r\ndata: f\r\n\ndata: g\n\r"

    assert [data for _, data in said(stream)] == [b"a", b"b", b"c", b"d\ne", b"f", b"g"]


# --- g4 ------------------------------------------------------------------------------------------


SPELLINGS = [
    b"data: a\r\n\r\ndata: b\r\n\r\n",
    b"data: a\r\n\r\n: c\r\n\r\ndata: b\r\n\r",
    b"data: a\r\n\r\ndata: b\r",
    b"data: a\r\rdata: b\r\r",
    b"data: a\n\ndata: b\r\n\r\ndata: c\r",
    b"\xef\xbb\xbfdata: a\r\n\r\ndata: b",
]


@pytest.mark.parametrize("stream", SPELLINGS, ids=repr)
def test_frames_are_the_same_where_their_bytes_are_not_kept(stream: bytes) -> None:
    expected = [(one.data, one.whole) for one in frames(stream) if one.data]
    cuts = [[stream[:at], stream[at:]] for at in range(len(stream) + 1)]

    for pieces in (*cuts, one_by_one(stream)):
        reader = SSEReader(keep_raw=False)
        found = [frame for piece in pieces for frame in reader.feed(piece)] + reader.close()
        assert expected == [(one.data, one.whole) for one in found if one.data], pieces


def test_a_read_that_ends_between_cr_and_lf_changes_nothing_for_the_rest() -> None:
    """Finding frames by any line end takes several times as long."""
    reader = SSEReader(keep_raw=False)

    found = [reader.take(one) for one in (b"data: a\r\n\r", b"\ndata: b\r\n\r\ndata: c\r\n")]

    assert [b"", b"data: a\n\ndata: b\n\n"] == found


@pytest.mark.parametrize(
    "comment",
    [b": OPENROUTER PROCESSING", b":", b": ping", b":data: x", b": : ", ": é".encode()],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_g4_comments_are_no_data(comment: bytes, end: bytes) -> None:
    stream = comment + end + end + comment + end + b"data: 1" + end + comment + end + end

    assert said(stream) == [("", b"1")]


def test_g4_an_event_with_a_name_only_is_passed_over() -> None:
    assert said(b"event: ping\n\ndata: 1\n\n") == [("", b"1")]


def test_g4_fields_of_other_names_are_passed_over() -> None:
    stream = b"id: 7\nretry: 10\nDATA: no\ndata : no\n data: no\ndataset: no\ndata: yes\n\n"

    assert said(stream) == [("", b"yes")]


def test_g4_the_last_name_counts_and_a_name_may_be_empty() -> None:
    assert said(b"event: a\nevent: b\ndata: 1\n\nevent\ndata: 2\n\n") == [("b", b"1"), ("", b"2")]


def test_g4_a_name_that_is_no_utf8_is_replaced() -> None:
    assert said(b"event: \xff\ndata: 1\n\n") == [("�", b"1")]


def test_g4_colons_in_data_are_data() -> None:
    assert said(b'data: {"a":"b: c"}\n\n') == [("", b'{"a":"b: c"}')]


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_g4_other_line_separators_end_no_line(text: str) -> None:
    data = f'{{"t":"{text}"}}'.encode()

    assert said(b"data: " + data + b"\n\n") == [("", data)]
    assert said(b"data: " + data + b"\r\n\r\n") == [("", data)]


def test_g4_a_code_point_cut_over_reads_is_whole() -> None:
    data = "é€😀".encode()
    stream = b"data: " + data + b"\n\n"

    for at in range(1, len(stream)):
        assert said(stream[:at], stream[at:]) == [("", data)]


MARK = b"\xef\xbb\xbf"


def test_g4_a_byte_order_mark_is_dropped_also_in_pieces() -> None:
    stream = MARK + b"data: 1\n\n"

    assert said(stream) == [("", b"1")]
    assert said(*one_by_one(stream)) == [("", b"1")]
    for at in range(1, len(stream)):
        assert said(stream[:at], stream[at:]) == [("", b"1")]


def test_g4_a_mark_after_empty_reads_is_dropped() -> None:
    assert said(b"", MARK[:1], b"", MARK[1:], b"", b"data: 1\n\n") == [("", b"1")]


def test_g4_only_one_mark_is_dropped_and_only_at_the_start() -> None:
    assert said(MARK + MARK + b"data: 1\n\ndata: 2\n\n") == [("", b"2")]
    assert said(b"data: 1\n\n" + MARK + b"data: 2\n\n") == [("", b"1")]


def test_g4_a_first_event_that_begins_like_a_mark_is_kept() -> None:
    assert said(b"\xef", b"\xbb", b"x\n\ndata: 1\n\n") == [("", b"1")]
    assert frames(b"\xef", b"\xbb") == [Frame(b"", "", b"\xef\xbb", whole=False)]


def test_g4_empty_reads_lose_no_line_end() -> None:
    assert said(b"data: 1\r", b"", b"\rdata: 2\r\n", b"", b"\r\n") == [("", b"1"), ("", b"2")]
    assert said(b"data: 1\n", b"", b"\ndata: 2\n", b"", b"\n") == [("", b"1"), ("", b"2")]


# --- the end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_an_event_without_its_blank_line_is_given_at_the_end_as_not_whole(end: bytes) -> None:
    last = b"event: x\ndata: 2" + end
    found = frames(b"data: 1\n\n" + last)

    assert found == [Frame(b"1", raw=b"data: 1\n\n"), Frame(b"2", "x", last, whole=False)]


def test_a_stream_of_nothing_gives_nothing() -> None:
    assert frames() == []
    assert frames(b"", b"") == []
    assert said(b"\n\n\n\r\n\r") == []


def test_a_reader_is_dead_once_closed() -> None:
    reader = SSEReader()
    reader.close()

    with pytest.raises(MisuseError):
        reader.feed(b"")
    with pytest.raises(MisuseError):
        reader.close()


# --- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_past_its_limit_is_refused_by_name_however_it_comes(end: bytes, size: int) -> None:
    stream = b"data: 1" + end + b"data: " + b"x" * 60 + end
    reader = SSEReader(limits=Limits(max_sse_event_bytes=50))

    with pytest.raises(TooLargeError) as caught:
        feed_all(reader, (stream[at : at + size] for at in range(0, len(stream), size)))
    assert (caught.value.limit, caught.value.allowed) == ("max_sse_event_bytes", 50)


def test_an_event_that_never_ends_is_refused_without_being_kept() -> None:
    reader = SSEReader(limits=Limits(max_sse_event_bytes=50))

    with pytest.raises(TooLargeError, match="max_sse_event_bytes"):
        feed_all(reader, repeat(b"xxxxxxxxxx"))


def test_events_within_the_limit_pass_whatever_their_number() -> None:
    reader = SSEReader(limits=Limits(max_sse_event_bytes=8))

    assert len(reader.feed(b"data: 12\n\n" * 100)) == 100


@pytest.mark.parametrize(
    "large",
    [
        b"data: %b\n\n",
        b"data: %b\n\ndata: b\n\ndata: \n\n",
        b"event: a\ndata: %b\n\nevent: b\ndata: c\n\n",
        b"event: a\ndata: b\n\ndata: %b\n\n",
        b"data: a\ndata: %b\n\n",
        b"data: %b\n: a comment\n\ndata: c\n\n",
        b"data: %b\n\n\n\n\ndata: b\n\n",
    ],
)
def test_large_events_are_read_like_small_ones(large: bytes) -> None:
    text = b"x" * (2 * 1024 * 1024)
    expected = frames(large % b"a")
    found = frames(large % text)

    assert expected == [
        Frame(one.data.replace(text, b"a"), one.event, one.raw.replace(text, b"a"), one.whole)
        for one in found
    ]


def test_a_stream_past_its_limit_is_refused_by_name() -> None:
    reader = SSEReader(limits=Limits(max_response_bytes=20))
    reader.feed(b"data: 1\n\n")

    with pytest.raises(TooLargeError) as caught:
        reader.feed(b"data: 1234567\n\n")
    assert caught.value.limit == "max_response_bytes"


# --- raw --------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"event",
        b": comment",
        b"{}",
        b" ",
        b"\xe2\x80\xa8",
        b"\xef",
        b"\xbb",
        b"\xbf",
        MARK,
        b"x",
    ]
)
STREAMS = st.lists(PIECES, max_size=30).map(b"".join)


def cut(data: st.DataObject, stream: bytes) -> list[bytes]:
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


@given(STREAMS, st.data())
def test_any_chunking_gives_the_same_frames(stream: bytes, data: st.DataObject) -> None:
    whole = said(stream)

    assert whole == said(*one_by_one(stream))
    assert whole == said(*cut(data, stream))


@given(STREAMS, st.data())
def test_raw_joined_is_the_input_and_the_events_are_the_same(
    stream: bytes, data: st.DataObject
) -> None:
    for pieces in ([stream], one_by_one(stream), cut(data, stream)):
        found = frames(*pieces)

        assert b"".join(frame.raw for frame in found) == stream.removeprefix(MARK)
        assert said(stream) == [(frame.event, frame.data) for frame in found if frame.data]


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_any_bytes_give_frames_and_nothing_else(pieces: list[bytes]) -> None:
    for frame in frames(*pieces):
        assert isinstance(frame, Frame)


# --- writing ----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z._]{0,10}", fullmatch=True),
            st.binary(max_size=20).filter(lambda data: not {10, 13} & set(data)),
        )
    )
)
def test_what_is_written_is_read_back(events: list[tuple[str, bytes]]) -> None:
    stream = b"".join(
        encode_event(name, data) if name else encode_data(data) for name, data in events
    )

    assert events == [(frame.event, frame.data) for frame in frames(stream)]


def test_an_event_is_written_with_line_feeds_only() -> None:
    assert encode_event("ping", b"{}") == b"event: ping\ndata: {}\n\n"
    assert encode_data(b"[DONE]") == b"data: [DONE]\n\n"


def test_many_blank_lines_of_one_read_are_one_frame_and_keep_their_bytes() -> None:
    blanks = b"\n" * 1000
    found = frames(b"data: a\n\n" + blanks + b"data: b\n\n")

    assert [b"a", b"", b"b"] == [frame.data for frame in found]
    assert blanks == found[1].raw
