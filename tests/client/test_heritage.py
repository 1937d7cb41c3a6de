"""What the founding documents ask of a client, row by row (loops and MCP have their own)."""

import ast
import asyncio
import json
from pathlib import Path

import msgspec
import pytest

import dragoman
from dragoman import Client, ClientError, Limits, MisuseError, SyncClient, request, tool, user
from dragoman.client.encode import prepare
from dragoman.client.settings import Settings
from dragoman.dialects import DIALECT_NAMES
from dragoman.turn.events import ArgsDelta, BlockEnd, Finish
from dragoman.turn.request import Request, Tool
from tests.support.client import failure
from tests.support.peers import HELLO, Talk, http, nothing_left, peer, sse

SOURCE = Path(dragoman.__file__).parent
REQUEST = request(user("hello"), model="m")
URL = "http://127.0.0.1:1/v1"
OWN = (
    "client",
    "errors",
    "exchange",
    "encode",
    "settings",
    "answer_stream",
    "sync_client",
)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


async def events_of(client: Client, asked: Request) -> list:
    async with client.stream(asked) as turn:
        return [event async for event in turn]


# --- layers -----------------------------------------------------------------------------------------


def test_s_1_the_transport_knows_neither_json_nor_events() -> None:
    used = set[str]().union(
        *(imports(one) for one in (SOURCE / "transport").iterdir() if one.suffix == ".py")
    )

    assert not {one for one in used if "json" in one or one.startswith("dragoman.wire")}
    assert not {one for one in used if one.startswith(("dragoman.dialects", "dragoman.turn"))}


def test_s_1_the_framing_knows_no_json() -> None:
    used = imports(SOURCE / "wire" / "sse.py")

    assert not {one for one in used if "json" in one}
    assert {"Struct"} == {one.rpartition(".")[2] for one in used if one.startswith("msgspec.")}


@pytest.mark.parametrize("module", OWN)
def test_s_1_the_client_knows_no_framing_and_no_dialect(module: str) -> None:
    used = imports(SOURCE / "client" / f"{module}.py")

    framing = {one for one in used if one.startswith("dragoman.wire")}
    assert {one for one in framing if not one.startswith("dragoman.wire.json_values")} == set()
    assert not {
        one
        for one in used
        if one.startswith(
            ("dragoman.dialects.chat", "dragoman.dialects.anthropic", "dragoman.dialects.responses")
        )
    }


@pytest.mark.parametrize("module", OWN)
def test_s_1_the_client_speaks_http_through_the_transport_alone(module: str) -> None:
    assert not {
        one
        for one in imports(SOURCE / "client" / f"{module}.py")
        if one.partition(".")[0] in ("aiohttp", "http", "socket", "urllib")
    }


# --- transport --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["", "500 Oh", "429 Wait"])
def test_s_2_nothing_is_ever_tried_again(status: str) -> None:
    answer = http(status=status) if status else b""

    async def run() -> int:
        async with peer(answer) as server, nothing_left(), Client(server.url) as client:
            for ask_it in (client.create(REQUEST), events_of(client, REQUEST)):
                with pytest.raises(ClientError):
                    await ask_it
        return len(server.requests)

    assert 2 == asyncio.run(run())


def test_s_2_a_body_arrives_as_it_was_written() -> None:
    asked = request(
        user("“quoted”\u2028 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))
    )
    settings = Settings(URL, model="m")

    async def run() -> bytes:
        async with peer(HELLO) as server, Client(server.url, model="m") as client:
            await events_of(client, asked)
        return server.requests[0]

    sent = asyncio.run(run()).partition(b"\r\n\r\n")[2]

    assert prepare(asked, settings, stream=True).body == sent


def test_s_2_an_answer_is_not_believed_for_its_status_alone() -> None:
    answer = http(b'{"error": {"message": "no such luck", "code": "busy"}}')
    error = failure(answer, stream=False)

    assert ("http", "busy") == (error.stage, error.code)
    assert "no such luck" in error.message


# --- the client -------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [Client(URL, api_key="k"), SyncClient(URL, api_key="k")])
def test_s_3_a_client_is_not_changed_after_it_was_made(client: Client | SyncClient) -> None:
    for name in ("model", "_settings", "_client", "anything"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(client, name, 1)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(client, name)


def test_s_3_a_client_holds_nothing_of_a_request() -> None:
    async def run() -> None:
        async with peer(HELLO) as server, nothing_left(), Client(server.url) as client:
            session = client._session()
            before = {name: repr(value) for name, value in vars(client._settings).items()}
            turns = await asyncio.gather(*(events_of(client, REQUEST) for _ in range(20)))
            assert 20 == len(turns)
            assert not session.open
            assert before == {name: repr(value) for name, value in vars(client._settings).items()}

    asyncio.run(run())


@pytest.mark.parametrize(
    "limit", ["max_request_bytes", "max_response_bytes", "max_sse_buffer_bytes"]
)
def test_s_3_request_response_and_buffer_have_hard_limits(limit: str) -> None:
    error = failure(HELLO[:-1], limits=Limits(**{limit: 10}))

    assert ("limit", limit) == (error.stage, error.code)


# --- requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_s_4_requests_are_the_callers_and_equal_ones_are_equal_bytes(dialect: str) -> None:
    def make() -> Request:
        tools = [tool("f", description="does", schema={"type": "object", "properties": {}})]
        return request(user("hello"), tools=tools, model="m", max_tokens=5, temperature=0.1)

    one, other = make(), make()
    settings = Settings(URL, dialect=dialect)
    before = msgspec.json.encode(one)
    bodies = {prepare(each, settings, stream=True).body for each in (one, one, other)}

    assert 1 == len(bodies)
    assert before == msgspec.json.encode(one)
    with pytest.raises(AttributeError):
        one.model = "other"  # type: ignore[misc]


def test_s_4_what_a_caller_changes_afterwards_changes_nothing() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools, stop, headers = [tool("f", description="does", schema=schema)], ["END"], {"x-a": "1"}
    asked = request(user("hello"), tools=tools, stop=stop, model="m")
    settings = Settings(URL, headers=headers)
    before = prepare(asked, settings, stream=True)
    schema["properties"]["b"] = {"type": "integer"}
    tools.clear()
    stop.append("more")
    headers["x-a"] = "2"
    after = prepare(asked, settings, stream=True)

    assert (before.body, before.headers) == (after.body, after.headers)
    assert b'"b"' not in after.body


def test_s_4_a_conversation_that_grows_leaves_the_shorter_one_as_it_was() -> None:
    turns = (user("hello"),)
    one = request(*turns, model="m")
    body = prepare(one, Settings(URL), stream=True).body
    request(*turns, user("more"), model="m")

    assert body == prepare(one, Settings(URL), stream=True).body
    assert (user("hello"),) == turns


# --- calls ------------------------------------------------------------------------------------------


def chunk(index: int, arguments: str, **more: str) -> dict:
    function = {"arguments": arguments} | ({"name": more.pop("name")} if "name" in more else {})
    one = {"index": index, "function": function, **more}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
FRAGMENTS = [
    chunk(0, "", id="a", name="f"),
    chunk(1, "", id="b", name="g"),
    chunk(0, '{ "x":'),
    chunk(1, '{"y" : ['),
    chunk(0, " 1.50 }"),
    chunk(1, '"\\u00e9"]}'),
]


def test_s_5_calls_are_gathered_in_the_order_of_their_index_and_joined_verbatim() -> None:
    async def run() -> list[tuple[str, str, str, bool]]:
        async with (
            peer(http(sse(*FRAGMENTS, END))) as server,
            Client(server.url) as client,
            client.stream(REQUEST) as turn,
        ):
            async for _ in turn:
                pass
        calls = turn.answer().tool_calls
        return [(call.id, call.name, call.arguments, call.complete) for call in calls]

    expected = [("a", "f", '{ "x": 1.50 }', True), ("b", "g", '{"y" : ["\\u00e9"]}', True)]

    assert expected == asyncio.run(run())


def test_s_5_a_call_is_judged_only_when_it_is_complete() -> None:
    async def run() -> list:
        async with (
            peer(http(sse(FRAGMENTS[0], FRAGMENTS[2], FRAGMENTS[4], END))) as server,
            Client(server.url) as client,
        ):
            return await events_of(client, REQUEST)

    events = asyncio.run(run())
    ends = [at for at, event in enumerate(events) if isinstance(event, BlockEnd)]
    pieces = [at for at, event in enumerate(events) if isinstance(event, ArgsDelta)]

    assert 1 == len(ends)
    assert max(pieces) < ends[0]
    assert isinstance(events[-1], Finish)


@pytest.mark.parametrize(
    ("limit", "size"), [("max_calls", 1), ("max_tool_args_bytes", 9), ("max_turn_args_bytes", 20)]
)
def test_s_5_calls_are_bounded_in_number_and_size(limit: str, size: int) -> None:
    error = failure(http(sse(*FRAGMENTS, END)), limits=Limits(**{limit: size}))

    assert ("limit", limit) == (error.stage, error.code)
    assert error.received is not None
    assert len(error.received.tool_calls) <= 2


# --- tools ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lacking",
    [
        Tool(name="f", schema=msgspec.Raw(b"{}")),
        Tool(name="f", description="does"),
        Tool(name="f", description="does", schema=msgspec.Raw(b"[]")),
        Tool(name="f", description="does", schema=msgspec.Raw(b'{"type": "map"}')),
    ],
    ids=["no description", "no schema", "no object", "no valid schema"],
)
def test_s_7_a_strict_client_demands_that_tools_are_described(lacking: Tool) -> None:
    asked = request(user("x"), tools=[lacking], model="m")

    with pytest.raises(MisuseError, match="`f` has no"):
        Client(URL, strict=True).stream(asked)
    Client(URL).stream(asked)


def test_s_7_a_schema_is_made_of_a_function_only_when_asked() -> None:
    def f(a: int) -> None:
        """Do it."""

    body = prepare(request(user("x"), tools=[tool(f)], model="m"), Settings(URL), stream=False).body
    bare = prepare(
        request(user("x"), tools=[tool("f")], model="m"), Settings(URL), stream=False
    ).body
    parameters = [
        json.loads(one)["tools"][0]["function"].get("parameters", {}) for one in (body, bare)
    ]

    assert "a" in parameters[0]["properties"]
    assert not parameters[1].get("properties")


# --- invariants -------------------------------------------------------------------------------------


def test_s_11_no_stream_parses_incomplete_json() -> None:
    whole = sse(*FRAGMENTS, END)

    async def run() -> list:
        async def script(talk: Talk) -> None:
            await talk.say(http(length=len(whole)))
            for at in range(len(whole)):
                await talk.say(whole[at : at + 1])
                await asyncio.sleep(0)

        async with peer(script) as server, Client(server.url, strict=True) as client:
            async with client.stream(REQUEST) as turn:
                async for _ in turn:
                    pass
            return [(call.name, call.arguments) for call in turn.answer().tool_calls]

    assert [("f", '{ "x": 1.50 }'), ("g", '{"y" : ["\\u00e9"]}')] == asyncio.run(run())


def test_s_11_a_failure_is_never_an_empty_or_a_shorter_answer() -> None:
    error = failure(http(sse(FRAGMENTS[0], FRAGMENTS[2], done=False)))

    assert "protocol" == error.stage
    assert error.received is not None
    assert error.received.finish is None
    assert [False] == [call.complete for call in error.received.tool_calls]


def test_s_11_there_is_no_authorisation_and_no_policy_in_the_client() -> None:
    words = ("allow_tool", "deny", "permission", "policy", "authorize", "moderation")
    text = "".join((SOURCE / "client" / f"{name}.py").read_text("utf-8").lower() for name in OWN)
    text = text.replace(
        "dialects.tool_policy", ""
    )  # how a dialect writes tools, not who may call them

    assert not [word for word in words if word in text]
