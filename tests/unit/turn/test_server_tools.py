"""What vendor-run tools were asked and found, in words of no vendor."""

import pytest

from dragoman.errors import IllegalOrderError
from dragoman.turn.answer import fold, unfold
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    Finish,
    FinishReason,
    Start,
    Usage,
)
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.server_tools import (
    ServerCall,
    ServerKind,
    ServerOptions,
    ServerResult,
    SourceRef,
    host_of,
    summary_of,
)
from dragoman.turn.state import Legality

SEARCH = ServerKind.WEB_SEARCH
SOURCE = SourceRef("https://yr.example/oslo", "Oslo")


def test_a_source_without_a_title_shows_its_host() -> None:
    assert "Oslo" == SOURCE.shown_title
    assert "www.yr.example" == SourceRef("https://www.yr.example/oslo?x=1").shown_title
    assert "no address" == host_of("no address")
    assert "http://[bad" == host_of("http://[bad")


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        (ServerCall(SEARCH, ("a", "b")), "[web search: a | b]"),
        (ServerCall(SEARCH), "[web search]"),
        (ServerCall(ServerKind.MCP, name="look"), "[mcp: look]"),
        (ServerResult(SEARCH, (SOURCE,)), "[web search result:\nOslo — https://yr.example/oslo]"),
        (ServerResult(SEARCH), "[web search result: not shown]"),
        (ServerResult(SEARCH, error="unavailable"), "[web search failed: unavailable]"),
        (ServerResult(ServerKind.CODE, output="4\n"), "[code execution result:\n4\n]"),
    ],
)
def test_a_summary_is_readable(server: ServerCall | ServerResult, shown: str) -> None:
    assert shown == summary_of(server)


def test_a_summary_shows_ten_sources() -> None:
    many = tuple(SourceRef(f"https://{n}.example/") for n in range(30))

    assert 11 == len(summary_of(ServerResult(SEARCH, many)).splitlines())


# --- which request needs a tool -----------------------------------------------------------------------

FUNCTION = Tool(name="run")
WEB = Tool(name="web_search", server=True, does=SEARCH)
ALWAYS = Tool(
    name="web_search", server=True, does=SEARCH, server_options=ServerOptions(always=True)
)


def request(*tools: Tool, choice: ToolChoice | None = None) -> Request:
    return Request(dialect="anthropic", model="m", tools=tools, tool_choice=choice)


@pytest.mark.parametrize(
    ("asked", "needed", "offered"),
    [
        (request(), set(), set()),
        (request(FUNCTION), set(), set()),
        (request(WEB), {SEARCH}, set()),
        (request(WEB, choice=ToolChoice("auto")), {SEARCH}, set()),
        (request(WEB, choice=ToolChoice("required")), {SEARCH}, set()),
        (request(WEB, choice=ToolChoice("none")), set(), {SEARCH}),
        (request(FUNCTION, WEB), set(), {SEARCH}),
        (request(FUNCTION, WEB, choice=ToolChoice("tool", "web_search")), {SEARCH}, set()),
        (request(FUNCTION, WEB, choice=ToolChoice("tool", "run")), set(), {SEARCH}),
        (request(FUNCTION, WEB, choice=ToolChoice("required")), set(), {SEARCH}),
        (
            request(FUNCTION, WEB, choice=ToolChoice("auto", allowed=("web_search",))),
            {SEARCH},
            set(),
        ),
        (request(FUNCTION, ALWAYS), {SEARCH}, set()),
        (request(Tool(name="x", server=True)), {ServerKind.OTHER}, set()),
    ],
)
def test_a_request_needs_what_it_forces_or_declares_alone(
    asked: Request, needed: set[ServerKind], offered: set[ServerKind]
) -> None:
    assert needed == asked.needed
    assert offered == asked.offered


# --- calls and results are pairs ----------------------------------------------------------------------


def call(index: int, call_id: str = "a") -> BlockStart:
    return BlockStart(index, BlockKind.SERVER_CALL, call_id, server=ServerCall(SEARCH))


def result(index: int, call_id: str = "a") -> BlockStart:
    return BlockStart(index, BlockKind.SERVER_RESULT, call_id, server=ServerResult(SEARCH))


def legal(*events: Event) -> None:
    machine = Legality()
    for event in (Start(), *events):
        machine.check(event)


def test_a_call_and_its_result_are_legal() -> None:
    legal(call(0), BlockEnd(0), result(1), BlockEnd(1), Finish(FinishReason.STOP))
    legal(call(0), BlockEnd(0), Finish(FinishReason.PAUSE))


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([result(0)], "no call `a` waits"),
        ([call(0), BlockEnd(0), result(1, "b")], "no call `b` waits"),
        ([call(0), BlockEnd(0), result(1), BlockEnd(1), result(2)], "no call `a` waits"),
        ([call(0), BlockEnd(0), call(1)], "does not fit"),
        ([BlockStart(0, BlockKind.TEXT, server=ServerCall(SEARCH))], "does not fit"),
        ([call(0), BlockEnd(0), Finish(FinishReason.STOP)], "has no result"),
    ],
)
def test_anything_else_is_refused(events: list[Event], reason: str) -> None:
    with pytest.raises(IllegalOrderError, match=reason):
        legal(*events)


# --- the assembler completes them ----------------------------------------------------------------------


def finished(assembler: Assembler, reason: FinishReason = FinishReason.STOP) -> list[Event]:
    assembler.finish(reason)
    return assembler.take()


def servers(events: list[Event]) -> list[ServerCall | ServerResult | None]:
    return [one.server for one in events if isinstance(one, BlockStart) and one.server]


def test_cited_addresses_are_the_sources_of_a_search_that_shows_none() -> None:
    assembler = Assembler(seed="s")
    first = assembler.server_call(ServerCall(SEARCH, ("oslo",)), call_id="ws_1", ran=True)
    assembler.text("It is cold.")
    for url in ("https://a.example", "https://b.example", "https://a.example"):
        assembler.citation(Citation(0, url, "title"))
    events = finished(assembler)

    assert "ws_1" == first
    found = ServerResult(
        SEARCH,
        (SourceRef("https://a.example", "title"), SourceRef("https://b.example", "title")),
    )
    assert [ServerCall(SEARCH, ("oslo",)), found] == servers(events)
    answer = fold(events)
    assert answer.usage is not None
    assert 1 == answer.usage.searches
    assert answer == fold(unfold(answer))


def test_citations_alone_prove_a_search() -> None:
    assembler = Assembler(seed="s")
    assembler.text("It is cold.")
    assembler.citation(Citation(0, "https://a.example"))

    found = ServerResult(SEARCH, (SourceRef("https://a.example"),))
    assert [ServerCall(SEARCH), found] == servers(finished(assembler))


def test_a_counter_alone_proves_a_search() -> None:
    assembler = Assembler(seed="s")
    assembler.text("It is cold.")
    assembler.usage(Usage(1, 2, searches=3))
    events = finished(assembler)

    assert [ServerCall(SEARCH), ServerResult(SEARCH)] == servers(events)
    answer = fold(events)
    assert answer.usage is not None
    assert 3 == answer.usage.searches


def test_nothing_proves_nothing() -> None:
    assembler = Assembler(seed="s")
    assembler.text("It is cold.")
    assembler.citation(Citation(0, "", "a document"))

    assert [] == servers(finished(assembler))


def test_a_result_without_a_call_gets_one_and_a_second_result_is_dropped() -> None:
    assembler = Assembler(seed="s")
    assembler.server_result(ServerResult(SEARCH, (SOURCE,)), call_id="a")
    assembler.server_result(ServerResult(SEARCH), call_id="a")
    events = finished(assembler)

    assert [ServerCall(SEARCH), ServerResult(SEARCH, (SOURCE,))] == servers(events)
    assert "late_delta_dropped" in [getattr(one, "code", "") for one in events]


def test_failed_tools_are_not_counted_and_code_without_a_result_failed() -> None:
    assembler = Assembler(seed="s")
    assembler.server_result(ServerResult(SEARCH, error="unavailable"))
    assembler.server_call(ServerCall(ServerKind.CODE))
    events = finished(assembler)

    assert ServerResult(ServerKind.CODE, error="unavailable") == servers(events)[-1]
    answer = fold(events)
    assert answer.usage is not None
    assert (0, 0) == (answer.usage.searches, answer.usage.code_runs)


def test_a_call_of_a_paused_answer_stays_without_its_result() -> None:
    assembler = Assembler(seed="s")
    assembler.server_call(ServerCall(SEARCH))

    assert [ServerCall(SEARCH)] == servers(finished(assembler, FinishReason.PAUSE))


def test_a_search_waits_for_the_call_that_is_open() -> None:
    assembler = Assembler(seed="s")
    assembler.open_call("k", call_id="c", name="run")
    assembler.args("k", '{"a":')
    assembler.server_result(ServerResult(SEARCH, (SOURCE,)), call_id="a")
    assembler.args("k", "1}")
    answer = fold(finished(assembler, FinishReason.TOOL_CALLS))

    kinds = [BlockKind.TOOL_CALL, BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT]
    assert kinds == [block.kind for block in answer.blocks]
