"""Lists of tools that come again."""

import pytest
from msgspec import Raw

from dragoman.dialects.anthropic import DIALECT as ANTHROPIC
from dragoman.errors import Malformed
from dragoman.exchange import Target
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.requests import translate_request
from dragoman.turn.known import KnownTools, made_once, read_once
from dragoman.turn.request import Request, Tool
from dragoman.turn.tools import ToolTable


def body_of(tools: bytes, text: str = "hi") -> bytes:
    return (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"%b"}],"tools":%b}'
        % (
            text.encode(),
            tools,
        )
    )


def tools_of(tools: bytes) -> tuple[Tool, ...]:
    return ANTHROPIC.decode_request(body_of(tools), sealer=None, limits=DEFAULT_LIMITS).tools


def test_equal_definitions_are_read_once() -> None:
    first = tools_of(b'[{"name":"now"}]')

    assert first is tools_of(b'[{"name":"now"}]')
    assert first == (Tool(name="now", path="$.tools[0]"),)


def test_other_definitions_are_read_anew() -> None:
    assert tools_of(b'[{"name":"now"}]') != tools_of(b'[{"name":"then"}]')


def test_definitions_that_are_none_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(Malformed) as refused:
            tools_of(b'[{"name":"now"},{"name":7}]')

        assert refused.value.path == "$.tools[1].name"


def test_a_large_list_is_not_kept() -> None:
    reads: list[bytes] = []

    def decode(definitions: bytes) -> tuple[Tool, ...]:
        reads.append(definitions)
        return (Tool(name="now"),)

    read = read_once(decode)
    large = Raw(b"[%b]" % (b" " * 300_000))
    small = Raw(b"[]")
    for raw in (large, large, small, small):
        read(raw)

    assert [300_002, 300_002, 2] == [len(one) for one in reads]


def test_what_is_made_of_known_tools_is_made_once_for_each_target() -> None:
    made: list[str] = []

    @made_once
    def names(tools: tuple[Tool, ...], target: str) -> str:
        made.append(target)
        return f"{target}: {', '.join(tool.name for tool in tools)}"

    known = KnownTools([Tool(name="now")])

    assert "a: now" == names(known, "a") == names(known, "a")
    assert "b: now" == names(known, "b")
    assert "a: now" == names((Tool(name="now"),), "a") == names((Tool(name="now"),), "a")
    assert ["a", "b", "a", "a"] == made


def test_a_known_list_is_the_tuple_it_holds() -> None:
    known = KnownTools([Tool(name="now")])

    assert (Tool(name="now"),) == known
    assert known == (Tool(name="now"),)
    assert ToolTable.of(known) is ToolTable.of(known)


@pytest.mark.parametrize("target", ["chat", "responses"])
def test_the_second_request_with_the_same_tools_is_written_like_the_first(target: str) -> None:
    tools = b'[{"name":"a b","input_schema":{"type":"object"},"strict":true,"eager_input_streaming":true}]'
    first, second = (
        translate_request(body_of(tools), source="anthropic", target=target) for _ in range(2)
    )

    assert first.body == second.body
    assert first.losses == second.losses
    assert {"tool_renamed", "tool_option_dropped"} <= {loss.code for loss in second.losses}


def test_marks_of_tools_count_in_each_request() -> None:
    tools = b'[{"name":"a","cache_control":{"type":"ephemeral"}},{"name":"b"}]'
    marked = b"".join(
        b'{"type":"text","text":"%d","cache_control":{"type":"ephemeral"}},' % at for at in range(4)
    )
    body = (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[%b]}],"tools":%b}'
        % (marked[:-1], tools)
    )
    for _ in range(2):
        few = ANTHROPIC.decode_request(body_of(tools), sealer=None, limits=DEFAULT_LIMITS)
        many = ANTHROPIC.decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

        assert few.tools is many.tools
        assert 1 == encoded(few).count(b"cache_control")
        assert 4 == encoded(many).count(b"cache_control")


def encoded(request: Request) -> bytes:
    return ANTHROPIC.encode_request(request, Target(profile=profile("anthropic"))).body
