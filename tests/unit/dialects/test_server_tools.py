"""Vendor-run tools: what needs them is refused where no upstream runs them, and every loss is reported."""

import itertools
import json
from typing import Any

import pytest
from msgspec import structs

from dragoman import translate_request
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.server_tools import can_run
from dragoman.errors import DragomanError, UntranslatableError
from dragoman.profiles import for_model, profile
from dragoman.profiles.catalogue import PROFILES as PROFILES_BY_NAME
from dragoman.toolcalls.detection import bare_name
from dragoman.translate_requests import read_request, write_request
from tests.support.tables import in_one_test

# A web search as each client declares it, a function, and how the search is forced.
SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    "responses": {"type": "web_search"},
    "gemini": {"googleSearch": {}},
}
FORCED: dict[str, Any] = {
    "anthropic": {"type": "tool", "name": "web_search"},
    "responses": {"type": "web_search"},
}
FUNCTION: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "run", "input_schema": {"type": "object"}},
    "chat": {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "run", "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": "run"}]},
}


def mode(word: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": word}}


AUTO: dict[str, Any] = {
    "anthropic": {"type": "auto"},
    "chat": "auto",
    "responses": "auto",
    "gemini": mode("AUTO"),
}
NONE: dict[str, Any] = {
    "anthropic": {"type": "none"},
    "chat": "none",
    "responses": "none",
    "gemini": mode("NONE"),
}
ANY: dict[str, Any] = {
    "anthropic": {"type": "any"},
    "chat": "required",
    "responses": "required",
    "gemini": mode("ANY"),
}
CHOICE = {"gemini": "toolConfig"}  # the name of the field, where it is not `tool_choice`


def request(dialect: str, **fields: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "Perform a web search for the query: today's news"}]
    body: dict[str, Any] = {"model": "kimi-k2"}
    match dialect:
        case "anthropic":
            body |= {"max_tokens": 9_000, "messages": said}
        case "chat":
            body |= {"messages": said}
        case "gemini":
            body |= {"contents": [{"role": "user", "parts": [{"text": said[0]["content"]}]}]}
        case _:
            body |= {"input": said}
    return body | fields


def translated(source: str, target: str, body: dict[str, Any], name: Any = "generic") -> Any:
    return translate_request(
        json.dumps(body).encode(), source=source, target=target, profile=name, continues=True
    )


pairs = pytest.mark.parametrize(
    ("source", "target"), [*itertools.product(("anthropic", "responses"), DIALECT_NAMES)]
)


@in_one_test
@pytest.mark.parametrize("name", ["generic", "vllm", "mistral", "minimax"])
@pytest.mark.parametrize("choice", ["", "auto", "any", "forced"])
@pairs
def test_a_request_of_vendor_run_tools_alone_is_refused_where_nobody_runs_them(
    source: str, target: str, choice: str, name: str
) -> None:
    """Claude Code's WebSearch asks so under a name that it does not know as Claude's."""
    body = request(source, tools=[SEARCH[source]])
    chosen = {"auto": AUTO, "any": ANY, "forced": FORCED}.get(choice)
    if chosen is not None:
        body["tool_choice"] = chosen[source]

    with pytest.raises(UntranslatableError) as caught:
        translated(source, target, body, name)

    assert 400 == caught.value.http_status
    assert "server_tool_unavailable" == caught.value.code
    assert 'match = { server_tool = "web_search" }' in str(caught.value)
    assert "`web_search`" in str(caught.value)
    assert "`kimi-k2`" in str(caught.value)
    assert "$.tools" == caught.value.path


@pairs
def test_a_forced_vendor_run_tool_is_refused_beside_functions(source: str, target: str) -> None:
    tools = [FUNCTION[source], SEARCH[source]]

    with pytest.raises(UntranslatableError, match="`web_search`"):
        translated(source, target, request(source, tools=tools, tool_choice=FORCED[source]))


@pairs
def test_a_vendor_run_tool_beside_functions_is_left_out_with_a_loss(
    source: str, target: str
) -> None:
    made = translated(source, target, request(source, tools=[FUNCTION[source], SEARCH[source]]))

    assert 1 == len(json.loads(made.body)["tools"])
    assert "server_tool_dropped" in [loss.code for loss in made.losses]


@pairs
def test_tools_that_may_not_be_used_need_nobody(source: str, target: str) -> None:
    body = request(source, tools=[SEARCH[source]], tool_choice=NONE[source])

    out = json.loads(translated(source, target, body).body)
    assert not out.get("tools")
    assert "tool_choice" not in out


WITH = [
    ("anthropic", "anthropic", "anthropic"),
    ("anthropic", "anthropic", "deepseek"),
    ("anthropic", "responses", "openai"),
    ("anthropic", "chat", "openrouter"),
    ("responses", "responses", "openai"),
    ("responses", "anthropic", "anthropic"),
    ("responses", "chat", "perplexity"),
    ("chat", "responses", "openai"),
    ("chat", "anthropic", "anthropic"),
]


@pytest.mark.parametrize(("source", "target", "name"), WITH)
def test_an_upstream_that_runs_it_is_asked(source: str, target: str, name: str) -> None:
    more: dict[str, Any] = {"web_search_options": {}}
    if source != "chat":
        more = {"tools": [SEARCH[source]], "tool_choice": AUTO[source]}

    made = translated(source, target, request(source, **more), name)
    assert "server_tool_dropped" not in [loss.code for loss in made.losses]
    assert b"web_search" in made.body or name == "perplexity"


@pytest.mark.parametrize("target", ["anthropic", "responses"])
def test_a_chat_client_that_asks_for_a_search_alone_is_refused(target: str) -> None:
    with pytest.raises(UntranslatableError, match="`web_search`"):
        translated("chat", target, request("chat", web_search_options={}))


def test_a_chat_host_gets_its_own_words_as_they_are() -> None:
    body = request("chat", web_search_options={"search_context_size": "low"})

    assert body == json.loads(translated("chat", "chat", body).body)


# Options of a search that the target has no word for.
OPTIONS = [
    (
        "anthropic",
        "chat",
        "openrouter",
        {"max_uses": 8, "allowed_domains": ["a.org"], "blocked_domains": []},
        [],
    ),
    (
        "anthropic",
        "chat",
        "moonshot",
        {"max_uses": 8, "allowed_domains": ["a.org"], "response_inclusion": "full"},
        ["allowed_domains", "response_inclusion"],
    ),
    ("anthropic", "responses", "openai", {"max_uses": 8, "allowed_domains": ["a"]}, []),
    ("anthropic", "responses", "openai", {"blocked_domains": ["a"]}, ["blocked_domains"]),
    (
        "responses",
        "chat",
        "zai",
        {"filters": {"allowed_domains": ["a.org", "b.org"]}, "search_context_size": "high"},
        ["allowed_domains: more than 1"],
    ),
    (
        "anthropic",
        "responses",
        "xai",
        {"allowed_domains": list("abcdef"), "user_location": {"city": "Oslo"}},
        ["user_location", "allowed_domains: more than 5"],
    ),
    ("anthropic", "gemini", "gemini-api", {"max_uses": 8}, ["max_uses"]),
    (
        "responses",
        "anthropic",
        "anthropic",
        {"search_context_size": "low"},
        ["search_context_size"],
    ),
    ("responses", "anthropic", "anthropic", {"external_web_access": True}, []),
]


@pytest.mark.parametrize(("source", "target", "name", "options", "lost"), OPTIONS)
def test_options_of_a_search_that_are_not_carried_are_losses(
    source: str, target: str, name: str, options: Any, lost: list[str]
) -> None:
    tool = {key: value for key, value in SEARCH[source].items() if key != "max_uses"} | options
    made = translated(source, target, request(source, tools=[tool]), name)

    found = [one.detail for one in made.losses if one.code == "tool_option_dropped"]
    assert lost == found


# --- a tool choice is never sent without tools -----------------------------------------------------

DEFERRED = {"anthropic": {**FUNCTION["anthropic"], "defer_loading": True}}
PROFILES = [
    profile("generic"),
    profile("anthropic"),
    profile("openai"),
    profile("zai"),
    profile("moonshot"),
    structs.replace(profile("generic"), schema_dialect="plain", tool_choice="strings_only"),
]


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_no_choice_is_sent_without_tools(source: str, target: str) -> None:
    """Every choice, over every list of tools that may come out empty, for upstreams of all sorts."""
    lists: list[list[Any]] = [[], [FUNCTION[source]]]
    if source != "chat":
        lists += [[SEARCH[source]], [FUNCTION[source], SEARCH[source]]]
    if source in DEFERRED:
        lists.append([DEFERRED[source]])
    asked = 0
    for tools, choice, one in itertools.product(lists, (AUTO, NONE, ANY), PROFILES):
        if not tools and source == target:
            continue  # the client's own bytes, which the upstream refuses as it would without us
        body = request(source, tools=tools) | {CHOICE.get(source, "tool_choice"): choice[source]}
        try:
            out = json.loads(translated(source, target, body, one).body)
        except DragomanError:
            continue
        asked += 1
        field = CHOICE.get(target, "tool_choice")
        assert out.get("tools") or field not in out, (tools, choice, one.name)
    assert asked


PLACE = {"type": "approximate", "city": "Ulm", "country": "DE"}


@pytest.mark.parametrize(("target", "name"), [("responses", "openai"), ("anthropic", "anthropic")])
def test_a_search_that_a_chat_client_asks_for_is_a_tool_elsewhere(target: str, name: str) -> None:
    place = {"type": "approximate", "approximate": {"city": "Ulm", "country": "DE"}}
    options = {"search_context_size": "low", "user_location": place}
    made = translated("chat", target, request("chat", web_search_options=options), name)

    (tool,) = json.loads(made.body)["tools"]
    assert tool["type"].startswith("web_search")
    assert PLACE == tool["user_location"]
    lost = [one.detail for one in made.losses if one.code == "tool_option_dropped"]
    assert ([] if target == "responses" else ["search_context_size"]) == lost


# --- no request that needs a search is answered without one -------------------------------------------

GOOGLE = {"tools": [{"googleSearch": {}}]}
KIMI = {"type": "builtin_function", "function": {"name": "$web_search"}}
# A search as clients of every kind ask for it, alone.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "messages": ("anthropic", {"tools": [SEARCH["anthropic"]]}),
    "messages-forced": (
        "anthropic",
        {"tools": [SEARCH["anthropic"]], "tool_choice": FORCED["anthropic"]},
    ),
    "messages-forced-beside": (
        "anthropic",
        {
            "tools": [FUNCTION["anthropic"], SEARCH["anthropic"]],
            "tool_choice": FORCED["anthropic"],
        },
    ),
    "responses": ("responses", {"tools": [SEARCH["responses"]]}),
    "responses-preview": ("responses", {"tools": [{"type": "web_search_preview"}]}),
    "responses-required": (
        "responses",
        {"tools": [SEARCH["responses"]], "tool_choice": "required"},
    ),
    "responses-forced-beside": (
        "responses",
        {
            "tools": [FUNCTION["responses"], SEARCH["responses"]],
            "tool_choice": FORCED["responses"],
        },
    ),
    "options": ("chat", {"web_search_options": {}}),
    "plugin-beside": ("chat", {"plugins": [{"id": "web"}], "tools": [FUNCTION["chat"]]}),
    "online": ("chat", {"model": "kimi-k2:online", "tools": [FUNCTION["chat"]]}),
    "openrouter": ("chat", {"tools": [{"type": "openrouter:web_search"}]}),
    "qwen": ("chat", {"enable_search": True}),
    "qwen-forced-beside": (
        "chat",
        {
            "enable_search": True,
            "search_options": {"forced_search": True},
            "tools": [FUNCTION["chat"]],
        },
    ),
    "xai": ("chat", {"search_parameters": {"mode": "on"}, "tools": [FUNCTION["chat"]]}),
    "kimi": ("chat", {"tools": [KIMI]}),
    "zai": ("chat", {"tools": [{"type": "web_search", "web_search": {"enable": True}}]}),
    "groq": ("chat", {"tools": [{"type": "browser_search"}]}),
    "google": ("gemini", GOOGLE),
}
# What an upstream's request holds if a search is asked for.
PROOFS = {
    "anthropic": ["web_search_20250305"],
    "responses": ["web_search", "web_search_preview"],
    "gemini": ["googleSearch"],
}
CHAT_PROOFS = {
    "openai": b'"web_search_options":',
    "openai-reasoning": b'"web_search_options":',
    "openrouter": b'"openrouter:web_search"',
    "moonshot": b'"$web_search"',
    "zai": b'"web_search":{"enable":true',
    "qwen": b'"enable_search":true',
    "xai": b'"search_parameters":{"mode":"on"',
    "groq": b'"compound_custom":{"tools":{"enabled_tools":["web_search"]}}',
}
MODELS = {
    "openai": "gpt-5-search-api",
    "openai-reasoning": "gpt-5-search-api",
    "groq": "groq/compound",
}
WITH_MORE = {"online", "xai"}  # functions beside the search


def asked_of(source: str, fields: dict[str, Any]) -> dict[str, Any]:
    if source == "gemini":
        said = {"role": "user", "parts": [{"text": "news?"}]}
        return {"model": "kimi-k2", "contents": [said], **fields}
    return request(source, **fields)


def proof(target: str, name: str, body: bytes) -> bool:
    """Return whether the upstream is asked for a search, in its own words."""
    if target != "chat":
        return any(f'"{word}"'.encode() in body for word in PROOFS[target])
    return name == "perplexity" or CHAT_PROOFS[name] in body


@in_one_test
@pytest.mark.parametrize("name", sorted(PROFILES_BY_NAME))
@pytest.mark.parametrize("target", ["anthropic", "chat", "gemini", "responses"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_needed_search_is_asked_for_or_refused(asked: str, target: str, name: str) -> None:
    source, fields = ASKED[asked]
    body = asked_of(source, fields)
    model = MODELS.get(name, "") if target == "chat" else ""
    if source == target == "chat" and profile(name).vendor_models:
        return  # a host that may be anyone gets the words of the client, who chose the host
    read = read_request(json.dumps(body).encode(), source=source)
    upstream = for_model(profile(name), bare_name(model or "kimi-k2"), None, target)
    runs = any(
        can_run(one, read.request, dialect(target), upstream) for one in read.request.needed_tools
    )
    if not runs:
        with pytest.raises(UntranslatableError, match="needs the tool `web_search`"):
            write_request(read, target=target, profile=name, model=model, continues=True)
        assert not upstream.runs("web_search", target) or "beside" in asked or asked in WITH_MORE
        return
    made = write_request(read, target=target, profile=name, model=model, continues=True)
    in_own_words = source == target == "chat" and json.loads(made.body).items() >= fields.items()
    assert in_own_words or proof(target, name, made.body), made.body


@pytest.mark.parametrize("target", ["anthropic", "chat", "gemini"])
def test_a_search_of_the_cache_alone_never_becomes_a_live_one(target: str) -> None:
    """Codex declares it so in every request."""
    cached = {"type": "web_search", "external_web_access": False}
    names = {"anthropic": "anthropic", "chat": "openrouter", "gemini": "gemini-api"}
    beside = request("responses", tools=[FUNCTION["responses"], cached])
    made = translated("responses", target, beside, names[target])

    assert b"earch" not in made.body.replace(b"web search", b"")
    assert [("server_tool_dropped", "cached search only")] == [
        (loss.code, loss.detail) for loss in made.losses if loss.code.startswith("server")
    ]
    with pytest.raises(UntranslatableError, match="needs the tool"):
        translated("responses", target, request("responses", tools=[cached]), names[target])


# --- what each host calls it --------------------------------------------------------------------------

OPTIONS_OF_ALL = {
    "max_uses": 3,
    "allowed_domains": ["a.org"],
    "user_location": {"type": "approximate", "city": "Oslo", "country": "NO"},
}
HOME = {"type": "approximate", "city": "Oslo", "country": "NO"}
WORDS: list[tuple[str, str, str, dict[str, Any]]] = [
    (
        "chat",
        "openrouter",
        "",
        {
            "tools": [
                {
                    "type": "openrouter:web_search",
                    "parameters": {
                        "max_uses": 3,
                        "allowed_domains": ["a.org"],
                        "user_location": HOME,
                    },
                }
            ],
            "tool_choice": {"type": "openrouter:web_search"},
        },
    ),
    ("chat", "moonshot", "", {"tools": [KIMI], "thinking": {"type": "disabled"}}),
    (
        "chat",
        "zai",
        "",
        {
            "tools": [
                {
                    "type": "web_search",
                    "web_search": {
                        "enable": True,
                        "search_engine": "search_pro",
                        "search_result": True,
                        "search_domain_filter": "a.org",
                    },
                }
            ]
        },
    ),
    ("chat", "qwen", "", {"enable_search": True, "search_options": {"forced_search": True}}),
    (
        "chat",
        "xai",
        "",
        {
            "search_parameters": {
                "mode": "on",
                "return_citations": True,
                "sources": [{"type": "web", "allowed_websites": ["a.org"]}],
            }
        },
    ),
    (
        "chat",
        "perplexity",
        "",
        {
            "search_domain_filter": ["a.org"],
            "web_search_options": {"user_location": HOME},
        },
    ),
    (
        "chat",
        "openai",
        "gpt-5-search-api",
        {
            "web_search_options": {
                "user_location": {
                    "type": "approximate",
                    "approximate": {"city": "Oslo", "country": "NO"},
                }
            }
        },
    ),
    (
        "chat",
        "groq",
        "groq/compound",
        {
            "compound_custom": {"tools": {"enabled_tools": ["web_search"]}},
            "search_settings": {"include_domains": ["a.org"]},
        },
    ),
    (
        "chat",
        "groq",
        "openai/gpt-oss-120b",
        {"tools": [{"type": "browser_search"}], "tool_choice": "required"},
    ),
    (
        "responses",
        "openai",
        "",
        {
            "tools": [
                {
                    "type": "web_search",
                    "filters": {"allowed_domains": ["a.org"]},
                    "user_location": HOME,
                }
            ],
            "tool_choice": "required",
            "max_tool_calls": 3,
        },
    ),
    ("gemini", "gemini-api", "", {"tools": [{"googleSearch": {}}]}),
]


@pytest.mark.parametrize(("target", "name", "model", "expected"), WORDS)
def test_a_forced_search_in_the_words_of_each_host(
    target: str, name: str, model: str, expected: dict[str, Any]
) -> None:
    search = SEARCH["anthropic"] | OPTIONS_OF_ALL
    body = request("anthropic", tools=[search], tool_choice=FORCED["anthropic"])
    made = translate_request(
        json.dumps(body).encode(),
        source="anthropic",
        target=target,
        profile=name,
        model=model,
        continues=True,
    )

    out = json.loads(made.body)
    assert expected == {key: value for key, value in out.items() if key in _SEARCH_KEYS}
    assert "server_tool_mapped" in [loss.code for loss in made.losses]


_SEARCH_KEYS = {key for *_, expected in WORDS for key in expected} | {"tool_choice", "plugins"}


def test_sources_of_a_search_are_asked_for_by_clients_of_other_dialects_alone() -> None:
    sources = "web_search_call.action.sources"
    foreign = translated(
        "anthropic", "responses", request("anthropic", tools=[SEARCH["anthropic"]]), "openai"
    )
    own = request("responses", tools=[SEARCH["responses"]])

    assert sources in json.loads(foreign.body)["include"]
    assert own == json.loads(translated("responses", "responses", own, "openai").body)


def test_a_chat_clients_search_is_put_into_the_words_of_another_host() -> None:
    body = request("chat", web_search_options={"search_context_size": "low"})
    made = translated("chat", "chat", body, "moonshot")

    out = json.loads(made.body)
    assert [KIMI] == out["tools"]
    assert "web_search_options" not in out
    codes = [(loss.code, loss.detail) for loss in made.losses]
    assert ("tool_option_dropped", "search_context_size") in codes


def test_a_search_is_dropped_beside_functions_at_models_that_take_no_such_mix() -> None:
    body = request("anthropic", tools=[FUNCTION["anthropic"], SEARCH["anthropic"]])
    options: dict[str, Any] = {"source": "anthropic", "target": "gemini", "profile": "gemini-api"}
    old = translate_request(json.dumps(body).encode(), model="gemini-2.5-pro", **options)
    new = translate_request(json.dumps(body).encode(), model="gemini-3-pro", **options)

    assert b"googleSearch" not in old.body
    assert "server_tool_dropped" in [loss.code for loss in old.losses]
    assert b"googleSearch" in new.body


@pytest.mark.parametrize(
    ("target", "name", "word"),
    [
        ("anthropic", "anthropic", b"code_execution_20250825"),
        ("responses", "openai", b"code_interpreter"),
        ("gemini", "gemini-api", b"codeExecution"),
        ("chat", "openrouter", b"openrouter:code_interpreter"),
    ],
)
def test_code_of_google_runs_at_other_vendors(target: str, name: str, word: bytes) -> None:
    body = asked_of("gemini", {"tools": [{"codeExecution": {}}]})
    made = translate_request(
        json.dumps(body).encode(), source="gemini", target=target, profile=name
    )

    assert word in made.body


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "anthropic"),
        ({"type": "image_generation"}, "anthropic"),
    ],
)
def test_what_means_nothing_elsewhere_is_refused_or_dropped(
    tool: dict[str, Any], name: str
) -> None:
    with pytest.raises(UntranslatableError, match=f"needs the tool `{tool['type']}`"):
        translated("responses", "anthropic", request("responses", tools=[tool]), name)
    beside = request("responses", tools=[FUNCTION["responses"], tool])
    made = translated("responses", "anthropic", beside, name)

    assert [("server_tool_dropped", tool["type"])] == [
        (loss.code, loss.detail) for loss in made.losses if loss.code.startswith("server")
    ]
    assert b"x.example" not in made.body


# --- strict targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "name", "kept"),
    [
        ("anthropic", "anthropic", {"allowed_domains", "blocked_domains"}),
        ("responses", "openai", {"allowed_domains"}),
        ("gemini", "gemini-api", set()),
        ("chat", "openrouter", {"allowed_domains", "blocked_domains"}),
        ("chat", "moonshot", set()),
    ],
)
@pytest.mark.parametrize("option", ["", "allowed_domains", "blocked_domains"])
def test_a_strict_target_refuses_lost_domains_and_nothing_else_of_a_search(
    target: str, name: str, kept: set[str], option: str
) -> None:
    tool = SEARCH["anthropic"] | ({option: ["a.org"]} if option else {})
    del tool["max_uses"]
    body = json.dumps(request("anthropic", tools=[tool])).encode()
    options: dict[str, Any] = {"source": "anthropic", "target": target, "profile": name}
    if not option or option in kept:
        assert translate_request(body, strict=True, continues=True, **options).body
        return

    with pytest.raises(UntranslatableError, match=option) as caught:
        translate_request(body, strict=True, continues=True, **options)
    assert "tool_option_dropped" == caught.value.code


# --- tools of a vendor that the client runs -------------------------------------------------------------


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("bash_20250124", "bash"),
        ("text_editor_20250728", "str_replace_based_edit_tool"),
        ("memory_20250818", "memory"),
    ],
)
def test_tools_that_the_client_runs_are_functions_elsewhere(
    kind: str, name: str, target: str
) -> None:
    body = request("anthropic", tools=[{"type": kind, "name": name}])
    made = translated("anthropic", target, body)

    assert f'"name":"{name}"'.encode() in made.body
    assert b'"command"' in made.body
    assert kind.encode() not in made.body
    assert ["schema_rewritten"] == [loss.code for loss in made.losses if loss.path == "$.tools[0]"]


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("source", "tool"),
    [
        ("anthropic", {"type": "computer_20250124", "name": "computer"}),
        ("responses", {"type": "computer_use_preview", "environment": "linux"}),
    ],
)
def test_computer_use_is_refused_elsewhere(source: str, tool: dict[str, Any], target: str) -> None:
    with pytest.raises(UntranslatableError) as caught:
        translated(source, target, request(source, tools=[tool]))

    assert 400 == caught.value.http_status
