"""Runs of text, and what a usage report adds up to."""

from dragoman.turn.events import DeltaRun, Ping, TextDelta, Usage, expand_runs


def test_all_input_is_counted_cached_or_not() -> None:
    usage = Usage(
        input_tokens=1, cache_read_tokens=10, cache_write_5m_tokens=100, cache_write_1h_tokens=1000
    )

    assert 1111 == usage.prompt_tokens


def test_other_events_stay_between_the_deltas_of_runs() -> None:
    run = DeltaRun(3, [b"a", b"\\u00e9\\n"], TextDelta(3, "a\u00e9\n"))

    assert [TextDelta(3, "a"), TextDelta(3, "\u00e9\n"), Ping(), TextDelta(3, "b")] == expand_runs(
        [run, Ping(), TextDelta(3, "b")]
    )
