"""Streams are masked while they arrive: what is final at once, the same as a complete one, no byte more or less."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.recorder.lines import Line, encode_line
from dragoman.recorder.mask import LineMask
from dragoman.recorder.masked_stream import ArgumentKeys, MaskedStream, mask_bytes
from dragoman.recorder.masked_text import Names
from dragoman.recorder.recording import Recording, read_recording

STEP = 7  # every seventh of the 300 recordings


def frames(*texts: bytes) -> list[bytes]:
    return [b'data: {"index":0,"delta":{"content":"%b"}}\n\n' % one for one in texts]


@pytest.mark.parametrize(
    ("data", "masked"),
    [
        (b'data: {"delta": {"content": "Os', b'data: {"delta": {"content": "Xx'),  # cut
        (b"event: message_stop\ndata: [DONE]\n\n", b"event: message_stop\ndata: [DONE]\n\n"),
        (b"not JSON at all", b"xxx XXXX xx xxx"),
        (b'{"content": "Oslo"}', b'{"content": "Xxxx"}'),
        (b"", b""),
    ],
)
def test_a_body_or_a_stream_is_masked_however_it_is_cut(data: bytes, masked: bytes) -> None:
    assert masked == mask_bytes(data, Names())
    for cut in range(len(data)):
        stream = MaskedStream(Names())
        stream.feed(data[:cut])
        stream.mask()
        stream.feed(data[cut:])
        stream.close()
        stream.mask()
        assert masked == stream.take(stream.ready)


def test_pieces_of_one_text_are_masked_as_one_text() -> None:
    """A marker that a stream cuts in two is still a marker."""
    masked = mask_bytes(b"".join(frames(b"Oslo <|tool_", b"call_begin|>")), Names())

    assert b"Xxxx <|tool_" in masked
    assert b"call_begin|>" in masked


def test_an_event_waits_only_while_it_may_be_the_beginning_of_a_marker_or_a_name() -> None:
    names = Names()
    names.add("get_weather")
    stream = MaskedStream(names)
    ready = []
    for frame in frames(b"Oslo,", b" has q", b" get", b"_weather", b", no <", b"|tool", b" it,"):
        stream.feed(frame)
        stream.mask()
        ready.append(stream.take(stream.ready).count(b"\n\n"))

    assert [1, 1, 0, 0, 3, 0, 2] == ready


def test_a_text_ends_where_another_one_follows() -> None:
    names = Names()
    names.add("weather")
    stream = MaskedStream(names)
    thought = b'data: {"delta":{"reasoning":"the wea"}}\n\n'
    stream.feed(thought)
    stream.mask()
    assert stream.ready < len(thought)

    stream.feed(frames(b"ther,")[0])
    stream.mask()

    assert stream.ready == len(thought) + len(frames(b"ther,")[0])
    assert b"xxx xxx" in stream.take(stream.ready)


@pytest.mark.parametrize("first", [b"", b" \n"])
def test_a_body_is_one_document_whatever_its_first_bytes_are(first: bytes) -> None:
    stream = MaskedStream(Names())
    stream.feed(first)
    stream.feed(b'{\n "type": "message",\n "name": "get_weather"\n}')
    stream.close()
    stream.mask()

    assert b'"type": "message"' in stream.take(stream.ready)


@pytest.mark.parametrize("aside", [b": keep-alive\n\n", b"data: <!-- no JSON\n\n"])
def test_a_comment_or_garbage_ends_no_text(aside: bytes) -> None:
    names = Names()
    names.add("weather")
    stream = MaskedStream(names)
    first, last = frames(b"the wea", b"ther,")
    stream.feed(first)
    stream.mask()
    stream.feed(aside)
    stream.mask()
    stream.feed(last)
    stream.close()
    stream.mask()

    assert mask_bytes(first + aside + last, names) == stream.take(stream.ready)


def test_a_loss_between_two_pieces_of_a_text_does_not_end_it() -> None:
    names = Names()
    names.add("weather")
    stream = MaskedStream(names)
    pieces = [b'{"event":"text","index":0,"text":"%b"}' % one for one in (b"the wea", b"ther,")]
    stream.add(pieces[0])
    stream.mask()
    stream.add(b'{"event":"loss","code":"chunk_malformed","detail":"not valid JSON"}', aside=True)
    stream.mask()
    assert stream.ready == 0
    stream.add(pieces[1])
    stream.close()
    stream.mask()

    masked = stream.take(stream.ready)
    assert b'"text":"xxx qqq"' in masked
    assert b'"text":"qqqb,"' in masked


def test_keys_of_arguments_are_known_however_they_are_cut() -> None:
    names = Names()
    keys = ArgumentKeys(names)
    for piece in ('{"ci', 'ty" ', ': "Oslo", "da', 'ys": 3}'):
        keys.feed(piece)

    assert all(map(names.masked, ("city", "days")))
    assert not names.masked("Oslo")


def masked_live(recording: Recording, names: Names) -> Iterator[Line]:
    mask = LineMask(names)
    for line in recording.lines:
        mask.take(line)
        mask.mask()
        yield from mask.lines()
    mask.close()
    mask.mask()
    yield from mask.lines()


def test_a_recording_is_masked_in_the_same_way_while_it_is_made(folder: Path) -> None:
    compared = 0
    for file in sorted(folder.iterdir())[::STEP]:
        recording = read_recording(file)
        if b"interleave" in file.read_bytes() or file.stat().st_size > 200_000:
            continue  # of two texts at once, the mask takes each for ended when the other goes on
        reader = LineMask()
        for line in recording.lines:
            reader.take(line)
        reader.close()
        whole = LineMask(reader.names)
        for line in recording.lines:
            whole.take(line)
        whole.close()
        whole.mask()
        live = masked_live(recording, reader.names)
        assert list(map(encode_line, whole.lines())) == list(map(encode_line, live)), file
        compared += 1
    assert compared > 30
