"""Streams as lists of events, every small way to spoil them, and the tests of every strict grammar."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from dragoman.checker.checker import Ending, Verdict, check, rules

Events = list[Any]  # objects; a string stands for data that is no object

LEGAL = "legal"  # what `outcome` says of a mutation that no client minds


def render(dialect: str, events: Events) -> bytes:
    """Write events as their dialect frames them."""
    out = b""
    for event in events:
        if isinstance(event, str):
            out += b"data: %b\n\n" % event.encode()
            continue
        if dialect not in ("chat", "gemini"):
            out += b"event: %b\n" % event.get("type", "").encode()
        out += b"data: %b\n\n" % msgspec.json.encode(event)
    return out


def judge(dialect: str, events: Events) -> Verdict:
    return check(dialect, render(dialect, events))


def outcome(dialect: str, events: Events | bytes) -> str:
    """Return the rule of the first violation, or `LEGAL`."""
    stream = events if isinstance(events, bytes) else render(dialect, events)
    verdict = check(dialect, stream)
    return verdict.violations[0].rule if verdict.violations else LEGAL


def renumbered(events: Events) -> Events:
    """Number the events of a Responses stream again, so that another rule shows."""
    return [
        {**event, "sequence_number": number} if "sequence_number" in event else event
        for number, event in enumerate(events)
    ]


def changed(events: Events, at: int, path: str, value: Any) -> Events:
    """Return the events with one field of one of them replaced; keys and positions joined by dots."""
    events = list(events)
    events[at] = deepcopy(events[at])
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    target = events[at]
    for key in keys:
        target = target[key]
    target[last] = value
    return events


def removed(events: Events) -> Iterator[tuple[int, Events]]:
    for at in range(len(events)):
        yield at, events[:at] + events[at + 1 :]


def doubled(events: Events) -> Iterator[tuple[int, Events]]:
    for at in range(len(events)):
        yield at, events[: at + 1] + events[at:]


def swapped(events: Events) -> Iterator[tuple[int, Events]]:
    for at in range(len(events) - 1):
        if events[at] != events[at + 1]:
            yield at, [*events[:at], events[at + 1], events[at], *events[at + 2 :]]


def without_fields(events: Events) -> Iterator[tuple[int, str, Events]]:
    """Remove each field of each event, those of its inner objects too."""
    for at, event in enumerate(events):
        if isinstance(event, str):
            continue
        for path in _paths(event):
            spoiled = [*events[:at], deepcopy(event), *events[at + 1 :]]
            target = spoiled[at]
            for key in path[:-1]:
                target = target[key]
            del target[path[-1]]
            yield at, ".".join(key for key in path if isinstance(key, str)), spoiled


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*prefix, key)
            yield from _paths(inner, (*prefix, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*prefix, index))


def label(event: Any) -> str:
    """Return what kind of event it is, in the words of its dialect."""
    if isinstance(event, str):
        return event
    inner = [
        event.get(key, {}).get("type", "")
        for key in ("delta", "content_block", "item", "part")
        if isinstance(event.get(key), dict)
    ]
    return "/".join([event["type"].removeprefix("response."), *filter(None, inner)])


def outcomes(
    dialect: str,
    streams: Iterable[Events],
    mutate: Callable[[Events], Iterator[tuple[int, Events]]],
    *,
    name: Callable[[Any], str] = label,
) -> dict[str, set[str]]:
    """Spoil each stream in every place; return, for each kind of event, what the judge says."""
    found: dict[str, set[str]] = {}
    for events in streams:
        for at, spoiled in mutate(events):
            kind = name(events[at])
            if mutate is swapped:
                kind = f"{kind} | {name(events[at + 1])}"
            said = outcome(dialect, renumbered(spoiled) if dialect == "responses" else spoiled)
            found.setdefault(kind, set()).add(said)
    return found


def field_outcomes(
    dialect: str, streams: Iterable[Events], *, name: Callable[[Any], str] = label
) -> dict[str, set[str]]:
    """Remove each field of each event; return, for each kind and field, what the judge says."""
    found: dict[str, set[str]] = {}
    for events in streams:
        for at, path, spoiled in without_fields(events):
            said = outcome(dialect, spoiled)
            found.setdefault(f"{name(events[at])}: {path}", set()).add(said)
    return found


# How to break each rule of the framing, whatever the dialect.
BROKEN_FRAMING: dict[str, Callable[[bytes], bytes]] = {
    "byte-order-mark": lambda stream: b"\xef\xbb\xbf" + stream,
    "utf-8": lambda stream: b'data: "\xff"\n\n' + stream,
    "unknown-line": lambda stream: b'{"id":"not a stream"}\n\n' + stream,
    "empty-frame": lambda stream: b"data: \n\n" + stream,
    "json": lambda stream: b"data: : PROCESSING\n\n" + stream,
    "surrogate-pair": lambda stream: b'data: {"half":"\\ud83d"}\n\n' + stream,
    "truncated": lambda stream: stream[: stream.index(b"\n\n") + 2],
    "nothing-after-end": lambda stream: stream + stream[: stream.index(b"\n\n") + 2],
}


class GrammarTests:
    """What every strict grammar is tested for; the test file of each brings the tables.

    Streams are lists of events.  The tables of outcomes hold, for each kind of event, the rules that
    the judge names first.
    """

    dialect: str
    plain: Events  # a stream of text, whose framing is broken
    legal: Mapping[str, Events]
    spoiled: Sequence[Events]  # the streams that are mutated
    removed: Mapping[str, set[str]]
    doubled: Mapping[str, set[str]]
    swapped: Mapping[str, set[str]]
    fields: Mapping[str, str | set[str]]  # whose absence breaks another rule than the usual one
    triggers: Mapping[str, Events | bytes]  # one stream for each rule, which breaks it first
    endings: Sequence[tuple[str, Ending, int, int]]  # legal stream, end, blocks, calls

    name = staticmethod(label)

    @staticmethod
    def usual(field: str) -> str:
        """Return the rule that the absence of a field breaks."""
        return "event-name-matches-type" if field == "type" else "required-field"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        tables = {
            "legal_name": self.legal,
            "rule": self.triggers,
            "framing_rule": BROKEN_FRAMING,
            "ending": self.endings,
        }
        for argument, table in tables.items():
            if argument in metafunc.fixturenames:
                ids = [row if isinstance(row, str) else row[0] for row in table]
                metafunc.parametrize(argument, table, ids=ids)

    def test_legal_stream_is_judged_legal(self, legal_name: str) -> None:
        verdict = judge(self.dialect, self.legal[legal_name])

        assert () == verdict.violations
        assert verdict.legal

    def test_events_that_are_removed(self) -> None:
        assert self.removed == outcomes(self.dialect, self.spoiled, removed, name=self.name)

    def test_events_that_come_twice(self) -> None:
        assert self.doubled == outcomes(self.dialect, self.spoiled, doubled, name=self.name)

    def test_events_that_change_places(self) -> None:
        assert self.swapped == outcomes(self.dialect, self.spoiled, swapped, name=self.name)

    def test_fields_that_are_missing(self) -> None:
        found = field_outcomes(self.dialect, self.spoiled, name=self.name)

        assert set(self.fields) <= set(found)
        for field, said in found.items():
            due = self.fields.get(field, self.usual(field.split(": ")[1]))
            assert ({due} if isinstance(due, str) else due) == said, field

    def test_rule_is_broken_by_its_stream(self, rule: str) -> None:
        assert rule == outcome(self.dialect, self.triggers[rule])

    def test_rule_of_the_framing_is_broken_by_its_stream(self, framing_rule: str) -> None:
        stream = BROKEN_FRAMING[framing_rule](render(self.dialect, self.plain))

        assert framing_rule == outcome(self.dialect, stream)

    def test_every_rule_has_a_stream_that_breaks_it(self) -> None:
        assert set(rules(self.dialect)) == set(self.triggers) | set(BROKEN_FRAMING)

    def test_verdict_counts_and_names_the_end(self, ending: tuple[str, Ending, int, int]) -> None:
        name, ended, blocks, calls = ending

        verdict = judge(self.dialect, self.legal[name])

        assert (ended, blocks, calls) == (verdict.ended, verdict.blocks, verdict.calls)
        assert len(self.legal[name]) == verdict.frames
