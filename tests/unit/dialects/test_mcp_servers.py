"""MCP servers that a vendor calls: which vendor gets them, with which credentials, and what their calls become."""

import json
from typing import Any

import anthropic.types.beta
import openai.types.responses
import pytest
from google.genai.types import GenerateContentResponse
from msgspec import structs

from dragoman import translate_request
from dragoman.dialects import dialect
from dragoman.dialects.server_tools import mcp_label
from dragoman.envelopes import Sealer
from dragoman.errors import UntranslatableError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.simulator.answer import answer, read
from dragoman.translate import Translator, translate_body
from tests.support.corpus import ROOT
from tests.support.sdks import accumulate

SEALER = Sealer(b"k" * 32)
TOKEN = "planted-token-of-the-user"
URL = "https://mcp.example/sse"
VENDORS = {"anthropic": "anthropic", "responses": "openai", "gemini": "gemini-api"}
SAID = [{"role": "user", "content": "What do my notes say?"}]
FUNCTIONS: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "run", "input_schema": {"type": "object"}},
    "responses": {"type": "function", "name": "run", "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": "run"}]},
}
pairs = pytest.mark.parametrize(
    ("source", "target"), [(one, two) for one in VENDORS for two in VENDORS if one != two]
)


def body(source: str, server: dict[str, Any], *more: dict[str, Any], **fields: Any) -> bytes:
    """Return a request with one server in the words of a dialect, and more tools."""
    match source:
        case "anthropic":
            toolset = {"type": "mcp_toolset", "mcp_server_name": server["name"]}
            toolset |= server.pop("toolset", {})
            fields |= {"max_tokens": 9_000, "messages": SAID, "mcp_servers": [server]}
            tools = [*more, toolset]
        case "responses":
            fields |= {"input": SAID}
            tools = [*more, server]
        case _:
            fields |= {"contents": [{"role": "user", "parts": [{"text": "What?"}]}]}
            tools = [*more, {"mcpServers": [server]}]
    return json.dumps({"model": "m", "tools": tools, **fields}).encode()


def plain(source: str, **more: Any) -> dict[str, Any]:
    """Return a server without credentials."""
    match source:
        case "anthropic":
            return {"type": "url", "name": "notes", "url": URL, **more}
        case "responses":
            never = {"require_approval": "never"}
            return {"type": "mcp", "server_label": "notes", "server_url": URL, **never, **more}
        case _:
            return {"name": "notes", "streamableHttpTransport": {"url": URL, **more}}


def written(source: str, target: str, data: bytes, *, trusted: bool = False) -> Any:
    to = structs.replace(profile(VENDORS[target]), mcp_credentials=trusted)
    return translate_request(data, source=source, target=target, profile=to, model="gemini-3-pro")


# --- requests -------------------------------------------------------------------------------------------

# A server as each upstream gets it.
SERVERS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "notes"}],
        "mcp_servers": [{"type": "url", "name": "notes", "url": URL}],
    },
    "responses": {"tools": [plain("responses")]},
    "gemini": {"tools": [{"mcpServers": [plain("gemini")]}]},
}


@pairs
def test_a_server_without_credentials_is_declared_to_the_other_vendor(
    source: str, target: str
) -> None:
    made = written(source, target, body(source, plain(source)))
    sent = json.loads(made.body)

    assert SERVERS[target] == {name: sent.get(name) for name in SERVERS[target]}
    assert "server_tool_mapped" in [loss.code for loss in made.losses]


def test_allowed_tools_are_those_that_the_other_vendor_may_call() -> None:
    limits = {"default_config": {"enabled": False}, "configs": {"look": {"enabled": True}}}
    messages = body("anthropic", plain("anthropic", toolset=limits))
    older = json.loads(body("anthropic", plain("anthropic")))
    older["mcp_servers"][0]["tool_configuration"] = {"allowed_tools": ["look"]}
    del older["tools"]
    listed = body("responses", plain("responses", allowed_tools=["look"]))
    filtered = body("responses", plain("responses", allowed_tools={"tool_names": ["look"]}))

    for asked in (messages, json.dumps(older).encode()):
        (tool,) = json.loads(written("anthropic", "responses", asked).body)["tools"]
        assert ["look"] == tool["allowed_tools"]
    for asked in (listed, filtered):
        (tool,) = json.loads(written("responses", "anthropic", asked).body)["tools"]
        assert limits == {name: tool[name] for name in limits}


def test_settings_that_only_one_vendor_has_are_losses() -> None:
    toolset = {"default_config": {"defer_loading": True}, "tools": [{"name": "look"}]}
    asked = {
        "anthropic": plain("anthropic", toolset=toolset),
        "responses": plain("responses", server_description="My notes"),
        "gemini": plain("gemini", timeout="5s"),
    }
    lost = {
        source: [
            loss.detail
            for loss in written(source, target, body(source, asked[source])).losses
            if loss.code == "tool_option_dropped"
        ]
        for source, target in (
            ("anthropic", "responses"),
            ("responses", "gemini"),
            ("gemini", "anthropic"),
        )
    }

    expected = {
        "anthropic": ["defer_loading", "tools"],
        "responses": ["server_description"],
        "gemini": ["timeout"],
    }
    assert expected == lost


def test_two_servers_are_two_tools() -> None:
    servers = [{**plain("gemini"), "name": name} for name in ("notes", "mail")]
    asked = json.loads(body("gemini", servers[0]))
    asked["tools"] = [{"mcpServers": servers}]
    data = json.dumps(asked).encode()
    labels = [
        one["server_label"]
        for one in json.loads(written("gemini", "responses", data).body)["tools"]
    ]
    sent = json.loads(written("gemini", "anthropic", data).body)

    assert ["notes", "mail"] == labels
    assert ["notes", "mail"] == [one["mcp_server_name"] for one in sent["tools"]]
    assert ["notes", "mail"] == [one["name"] for one in sent["mcp_servers"]]


@pytest.mark.parametrize(
    ("name", "label"), [("notes", "notes"), ("my notes", "my_notes"), ("1", "mcp_1")]
)
def test_a_label_has_letters_that_every_vendor_takes(name: str, label: str) -> None:
    assert label == mcp_label(name)


def test_a_forced_server_is_any_tool_where_a_choice_cannot_name_it() -> None:
    asked = body(
        "responses", plain("responses"), tool_choice={"type": "mcp", "server_label": "notes"}
    )
    made = written("responses", "anthropic", asked)

    assert {"type": "any"} == json.loads(made.body)["tool_choice"]
    assert "tool_choice_adjusted" in [loss.code for loss in made.losses]


# --- what goes to no other vendor -----------------------------------------------------------------------

KEYS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"authorization_token": TOKEN},
        {"url": f"https://mcp.example/sse?key={TOKEN}"},
        {"url": f"https://user:{TOKEN}@mcp.example/sse"},
    ],
    "responses": [
        {"authorization": TOKEN},
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
        {"headers": {"X-Key": TOKEN}},
        {"server_url": f"https://mcp.example/sse?key={TOKEN}"},
    ],
    "gemini": [{"headers": {"X-Key": TOKEN}}, {"url": f"https://mcp.example/sse?key={TOKEN}"}],
}
secrets = pytest.mark.parametrize(
    ("source", "key"),
    [(source, key) for source, keys in KEYS.items() for key in keys],
    ids=lambda one: one if isinstance(one, str) else "-".join(one),
)


@secrets
def test_credentials_go_to_no_other_vendor(source: str, key: dict[str, Any]) -> None:
    for target in VENDORS:
        if target == source:
            continue
        with pytest.raises(UntranslatableError, match="mcp = true") as caught:
            written(source, target, body(source, plain(source, **key)))
        offered = body(source, plain(source, **key), FUNCTIONS[source])
        made = written(source, target, offered)
        lost = [loss for loss in made.losses if loss.code == "server_tool_dropped"]

        assert "server_tool_unavailable" == caught.value.code
        assert TOKEN not in str(caught.value)
        assert TOKEN.encode() not in made.body
        assert b"mcp.example" not in made.body
        assert ["mcp: credentials"] == [loss.detail for loss in lost]


@secrets
def test_the_vendor_of_the_client_gets_its_bytes(source: str, key: dict[str, Any]) -> None:
    data = body(source, plain(source, **key))
    made = written(source, source, data)
    sent, asked = json.loads(made.body), json.loads(data)

    assert asked["tools"] == sent["tools"]
    assert asked.get("mcp_servers") == sent.get("mcp_servers")


def test_another_vendor_of_the_same_dialect_gets_no_credentials() -> None:
    for key in KEYS["responses"]:
        data = body("responses", plain("responses", **key), FUNCTIONS["responses"])
        made = translate_request(data, source="responses", target="responses", profile="xai")

        assert TOKEN.encode() not in made.body
        assert ["mcp: credentials"] == [loss.detail for loss in made.losses]


# Where a token that a route allows is found at each vendor.
PLACES = {
    "anthropic": lambda sent: sent["mcp_servers"][0]["authorization_token"],
    "responses": lambda sent: sent["tools"][0]["authorization"],
    "gemini": lambda sent: sent["tools"][0]["mcpServers"][0]["streamableHttpTransport"]["headers"][
        "Authorization"
    ].removeprefix("Bearer "),
}


@pairs
def test_a_trusted_vendor_gets_the_token_in_its_own_field(source: str, target: str) -> None:
    keys = {
        "anthropic": {"authorization_token": TOKEN},
        "responses": {"authorization": TOKEN},
        "gemini": {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    }
    made = written(source, target, body(source, plain(source, **keys[source])), trusted=True)

    assert TOKEN == PLACES[target](json.loads(made.body))


def test_headers_that_a_trusted_vendor_has_no_field_for_are_not_left_out() -> None:
    data = body("responses", plain("responses", headers={"X-Key": TOKEN}))
    made = written("responses", "gemini", data, trusted=True)
    transport = json.loads(made.body)["tools"][0]["mcpServers"][0]["streamableHttpTransport"]

    assert {"X-Key": TOKEN} == transport["headers"]
    with pytest.raises(UntranslatableError, match="headers"):
        written("responses", "anthropic", data, trusted=True)


@pytest.mark.parametrize(
    "approval",
    [None, "always", {"never": {"tool_names": ["look"]}}, {"always": {"tool_names": ["look"]}}],
    ids=str,
)
@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_calls_that_wait_for_an_approval_are_refused_or_dropped(approval: Any, target: str) -> None:
    server = plain("responses")
    del server["require_approval"]
    if approval is not None:
        server["require_approval"] = approval
    with pytest.raises(UntranslatableError, match="approval") as caught:
        written("responses", target, body("responses", {**server}))
    made = written("responses", target, body("responses", server, FUNCTIONS["responses"]))

    assert "approval_unavailable" == caught.value.code
    assert b"mcp.example" not in made.body
    assert ["mcp: approval"] == [
        loss.detail for loss in made.losses if loss.code == "server_tool_dropped"
    ]


LIMITS: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "anthropic",
        "responses",
        plain("anthropic", toolset={"configs": {"erase": {"enabled": False}}}),
        "limits of tools",
    ),
    ("responses", "gemini", plain("responses", allowed_tools=["look"]), "limits of tools"),
    ("responses", "anthropic", plain("responses", allowed_tools={"read_only": True}), "read-only"),
    (
        "responses",
        "anthropic",
        plain("responses", server_url=None, connector_id="connector_gmail"),
        "connector",
    ),
    ("gemini", "anthropic", {"name": "notes"}, "no address"),
]


@pytest.mark.parametrize(("source", "target", "server", "why"), LIMITS)
def test_a_server_whose_limits_would_be_lost_is_not_declared(
    source: str, target: str, server: dict[str, Any], why: str
) -> None:
    with pytest.raises(UntranslatableError, match=why):
        written(source, target, body(source, json.loads(json.dumps(server))))
    made = written(source, target, body(source, json.loads(json.dumps(server)), FUNCTIONS[source]))

    assert b"mcp.example" not in made.body
    (lost,) = [loss.detail for loss in made.losses if loss.code == "server_tool_dropped"]
    assert why in lost


def test_tools_that_a_client_disables_stay_disabled_at_anthropic() -> None:
    disabled = {"configs": {"erase": {"enabled": False}}}
    asked = body("anthropic", plain("anthropic", toolset=disabled))
    sent = json.loads(written("anthropic", "anthropic", asked).body)

    assert disabled["configs"] == sent["tools"][0]["configs"]


# --- answers ------------------------------------------------------------------------------------------

ASKED = {name: json.loads(body(name, plain(name))) for name in VENDORS}
ASKED["responses"] |= {"include": ["reasoning.encrypted_content"], "store": False}


def request(client: str) -> Any:
    data = json.dumps(ASKED[client]).encode()
    return dialect(client).decode_request(data, sealer=SEALER, limits=DEFAULT_LIMITS)


def translated(source: str, data: bytes, target: str) -> Any:
    """Return what the SDK of the client's vendor makes of a stream."""
    one = Translator(
        source=source,
        target=target,
        profile=VENDORS[source],
        request=request(target),
        seed="s",
        sealer=SEALER,
    )
    return accumulate(target, one.feed(data) + one.close())


def whole(source: str, data: bytes, target: str) -> Any:
    made = translate_body(
        data,
        source=source,
        target=target,
        profile=VENDORS[source],
        request=request(target),
        seed="s",
        sealer=SEALER,
    )
    return json.loads(made.body)


def stream(source: str) -> bytes:
    return (ROOT / source / "mcp_call" / "stream.sse").read_bytes()


def calls_of(target: str, made: Any) -> list[tuple[Any, ...]]:
    """Return server, tool, arguments, output and failure of each call, as the vendor's SDK reads them."""
    match target:
        case "anthropic":
            content = anthropic.types.beta.BetaMessage.model_validate(made).content
            results = {one.tool_use_id: one for one in content if one.type == "mcp_tool_result"}
            return [
                (
                    one.server_name,
                    one.name,
                    one.input,
                    "\n".join(text.text for text in results[one.id].content),
                    results[one.id].is_error,
                )
                for one in content
                if one.type == "mcp_tool_use"
            ]
        case "responses":
            output = openai.types.responses.Response.model_validate(made).output
            return [
                (
                    one.server_label,
                    one.name,
                    json.loads(one.arguments),
                    one.error.content if one.error else one.output,
                    one.status == "failed",
                )
                for one in output
                if one.type == "mcp_call"
            ]
        case _:
            parts = GenerateContentResponse.model_validate(made).candidates[0].content.parts
            results = {
                one.tool_response.id: one.tool_response for one in parts if one.tool_response
            }
            return [
                (
                    one.tool_call.args["serverName"],
                    one.tool_call.args["name"],
                    one.tool_call.args["arguments"],
                    next(iter(results[one.tool_call.id].response.values())),
                    "error" in results[one.tool_call.id].response,
                )
                for one in parts
                if one.tool_call
            ]


@pairs
def test_sdks_read_the_calls_that_another_vendor_made(source: str, target: str) -> None:
    found = "Cold.\nWindy." if source == "anthropic" else "Cold."
    expected = [
        ("notes", "search_notes", {"query": "oslo"}, found, False),
        ("notes", "delete_note", {}, "not allowed", True),
    ]

    assert expected == calls_of(target, translated(source, stream(source), target))
    assert expected == calls_of(target, whole(source, stream(source), target))


@pairs
def test_what_the_simulated_vendor_calls_reaches_the_client(source: str, target: str) -> None:
    asked = translate_request(
        json.dumps(ASKED[target] | ({} if target == "gemini" else {"stream": True})).encode(),
        source=target,
        target=source,
        profile=VENDORS[source],
        model="gemini-3-pro",
    )
    played = answer(read(source, asked.body), 1)
    made = whole(source, b"".join(played.writes), target)

    assert [("notes", "list_notes")] == [one[:2] for one in calls_of(target, made)]


def test_the_client_reads_the_name_that_it_gave_to_the_server() -> None:
    asked = json.loads(body("anthropic", {"type": "url", "name": "my notes", "url": URL}))
    to = translate_request(
        json.dumps(asked).encode(), source="anthropic", target="responses", profile="openai"
    )
    (tool,) = json.loads(to.body)["tools"]
    client = dialect("anthropic").decode_request(
        json.dumps(asked).encode(), sealer=None, limits=DEFAULT_LIMITS
    )
    played = answer(read("responses", to.body), 1)
    made = translate_body(
        b"".join(played.writes), source="responses", target="anthropic", request=client, seed="s"
    )

    assert "my_notes" == tool["server_label"]
    assert "my notes" == json.loads(made.body)["content"][0]["server_name"]


def test_a_chat_client_gets_the_text_and_a_loss() -> None:
    made = translate_body(stream("anthropic"), source="anthropic", target="chat", seed="s")
    streamed = Translator(source="anthropic", target="chat", seed="s")
    streamed.feed(stream("anthropic"))
    streamed.close()

    assert "It is cold." == json.loads(made.body)["choices"][0]["message"]["content"]
    assert 4 == [loss.code for loss in streamed.losses].count("server_block_dropped")


def test_a_response_repeats_no_credentials() -> None:
    asked = json.loads(
        body("responses", plain("responses", authorization=TOKEN, headers={"X-Key": TOKEN}))
    )
    client = dialect("responses").decode_request(
        json.dumps(asked).encode(), sealer=None, limits=DEFAULT_LIMITS
    )
    made = translate_body(
        stream("anthropic"), source="anthropic", target="responses", request=client, seed="s"
    )

    assert TOKEN.encode() not in made.body
    assert URL == json.loads(made.body)["tools"][0]["server_url"]


# --- the second turn ------------------------------------------------------------------------------------


def second(client: str, made: Any, target: str) -> Any:
    """Return the second request of a client, with the first answer in its history."""
    asked = json.loads(json.dumps(ASKED[client]))
    match client:
        case "anthropic":
            content = [
                {key: value for key, value in block.items() if value is not None}
                for block in made["content"]
            ]
            asked["messages"] += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": "And?"},
            ]
        case "responses":
            asked["input"] = [*asked["input"], *made["output"], {"role": "user", "content": "And?"}]
        case _:
            asked["contents"] += [
                made["candidates"][0]["content"],
                {"role": "user", "parts": [{"text": "And?"}]},
            ]
    return translate_request(
        json.dumps(asked).encode(),
        source=client,
        target=target,
        profile=VENDORS[target],
        model="gemini-3-pro",
        sealer=SEALER,
    )


def test_anthropics_calls_return_to_it_through_a_responses_client() -> None:
    made = second("responses", whole("anthropic", stream("anthropic"), "responses"), "anthropic")
    content = json.loads(made.body)["messages"][1]["content"]

    kinds = ["mcp_tool_use", "mcp_tool_result", "mcp_tool_use", "mcp_tool_result", "text"]
    assert kinds == [one["type"] for one in content]
    assert ["mcptoolu_1", "mcptoolu_2"] == [one["id"] for one in content if "id" in one]
    assert "content_flattened" not in [loss.code for loss in made.losses]


@pairs
def test_a_vendor_that_did_not_make_the_calls_gets_words(source: str, target: str) -> None:
    third = next(name for name in VENDORS if name not in (source, target))
    made = second(target, whole(source, stream(source), target), third)
    text = made.body.decode()

    assert "dgm_" not in text
    assert "dgm1." not in text
    assert "search_notes" in text
    assert "Cold." in text
    assert "not allowed" in text
    assert "content_flattened" in [loss.code for loss in made.losses]


@pytest.mark.parametrize("source", VENDORS)
def test_within_one_dialect_calls_return_to_the_byte(source: str) -> None:
    own = {
        "anthropic": [
            {
                "type": "mcp_tool_use",
                "id": "mcptoolu_1",
                "name": "a",
                "server_name": "b",
                "input": {},
            },
            {
                "type": "mcp_tool_result",
                "tool_use_id": "mcptoolu_1",
                "is_error": False,
                "content": [],
            },
        ],
        "responses": [
            {"type": "mcp_call", "id": "mcp_1", "name": "a", "server_label": "b", "arguments": "{}"}
        ],
        "gemini": [
            {"toolCall": {"id": "1", "args": {"name": "a", "serverName": "b", "arguments": {}}}},
            {"toolResponse": {"id": "1", "response": {"output": "c"}}},
        ],
    }
    wrapped: dict[str, Any] = {
        "anthropic": {"content": own["anthropic"]},
        "responses": {"output": own["responses"]},
        "gemini": {"candidates": [{"content": {"role": "model", "parts": own["gemini"]}}]},
    }
    made = json.loads(second(source, wrapped[source], source).body)

    entries = made.get("messages") or made.get("input") or made.get("contents")
    found = entries[1:-1] if source == "responses" else entries[1]
    assert own[source] == (
        found if source == "responses" else found.get("content", found.get("parts"))
    )
