"""Lists of tools that come again."""

import pytest
from msgspec import Raw

from dragoman.context import Target
from dragoman.dialects.anthropic import DIALECT as ANTHROPIC
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.translate_requests import read_request, translate_request
from dragoman.turn.request import Request, Tool
from dragoman.turn.tools import KnownTools, ToolLists, ToolTable, made_once


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


def test_other_definitions_are_read_again() -> None:
    assert tools_of(b'[{"name":"now"}]') != tools_of(b'[{"name":"then"}]')


def test_definitions_that_are_none_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(MalformedError) as refused:
            tools_of(b'[{"name":"now"},{"name":7}]')

        assert refused.value.path == "$.tools[1].name"


def test_a_large_list_is_not_kept() -> None:
    reads: list[bytes] = []

    def decode(definitions: bytes) -> tuple[Tool, ...]:
        reads.append(definitions)
        return (Tool(name="now"),)

    read = ToolLists(decode).read
    large = Raw(b"[%b]" % (b" " * 300_000))
    small = Raw(b"[]")
    for raw in (large, large, small, small):
        read(raw)

    assert [300_002, 300_002, 2] == [len(one) for one in reads]


# A list that is long enough to be looked for where it stood.
LONG = {
    "anthropic": '{"name":"%s","description":"%s","input_schema":{"type":"object"}}',
    "chat": '{"type":"function","function":{"name":"%s","description":"%s","parameters":{}}}',
    "responses": '{"type":"function","name":"%s","description":"%s","parameters":{}}',
}
HISTORY = {"anthropic": "messages", "chat": "messages", "responses": "input"}
ORDERS = [
    '{"model":"m","max_tokens":9,"%(history)s":%(turns)s,"tools":%(tools)s,"stream":true}',
    '{"tools":%(tools)s,"model":"m","max_tokens":9,"%(history)s":%(turns)s}',
    '{"model":"m","max_tokens":9,"tools" : %(tools)s,\n"%(history)s" : %(turns)s}',
]


def request_of(dialect: str, order: str, name: str, texts: list[str]) -> bytes:
    tools = "[%s]" % (LONG[dialect] % (name, "what it does " * 100))
    turns = ",".join(f'{{"role":"user","content":"{text}"}}' for text in texts)
    fields = {"history": HISTORY[dialect], "turns": f"[{turns}]", "tools": tools}
    return (order % fields).encode()


@pytest.mark.parametrize("order", ORDERS, ids=["last", "first", "between"])
@pytest.mark.parametrize("dialect", LONG)
def test_a_conversation_that_goes_on_with_known_tools_is_read_as_a_first_one(
    dialect: str, order: str
) -> None:
    texts = ["hi"]
    for _ in range(4):
        texts.append("and \\u00e4 on")
        request = read_request(request_of(dialect, order, "now", texts), source=dialect).request
        known = ToolTable.of(request.tools)

        # Blanks before the list: no list that is known stands so.
        spaced = (
            request_of(dialect, order, "now", texts).replace(b"[{", b"[ {").replace(b"}]", b"} ]")
        )
        fresh = read_request(spaced, source=dialect).request
        assert request.tools == fresh.tools
        assert request.turns == fresh.turns
        assert request.extensions == fresh.extensions
        assert known is ToolTable.of(request.tools)


def test_settings_of_a_request_with_known_tools_are_those_of_the_client() -> None:
    body = request_of("responses", ORDERS[0], "now", ["hi"])
    first, second = (read_request(body, source="responses").request for _ in range(2))

    assert isinstance(first, ResponsesRequest)
    assert isinstance(second, ResponsesRequest)
    assert list(first.settings.items()) == list(second.settings.items())
    assert b"what it does" in bytes(second.settings["tools"])


def test_known_tools_that_stand_elsewhere_are_not_declared() -> None:
    declared = request_of("anthropic", ORDERS[1], "now", ["hi"])
    read_request(declared, source="anthropic")
    elsewhere = declared.replace(b'{"tools":', b'{"other":')

    assert () == read_request(elsewhere, source="anthropic").request.tools
    assert 1 == len(read_request(declared, source="anthropic").request.tools)


def test_a_reference_to_known_tools_is_not_taken_from_a_client() -> None:
    declared = request_of("anthropic", ORDERS[1], "now", ["hi"])
    read_request(declared, source="anthropic")
    forged = declared.replace(b'{"tools":', b'{"other":')[:-1] + b',"tools":"\x7f"}'

    with pytest.raises(MalformedError, match="tools"):
        read_request(forged, source="anthropic")


def test_what_is_wrong_beside_known_tools_is_reported_with_its_path() -> None:
    body = request_of("anthropic", ORDERS[0], "now", ["hi"])
    read_request(body, source="anthropic")
    with pytest.raises(MalformedError) as refused:
        read_request(body.replace(b'"max_tokens":9', b'"max_tokens":""'), source="anthropic")

    assert "$.max_tokens" == refused.value.path


def test_more_lists_than_places_are_remembered_are_all_read() -> None:
    bodies = [request_of("chat", ORDERS[0], f"tool_{at}", ["hi"]) for at in range(40)]
    for _ in range(2):
        for at, body in enumerate(bodies):
            request = read_request(body, source="chat").request

            assert [f"tool_{at}"] == [tool.name for tool in request.tools]


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
