"""Which tool of each vendor replaces which: every kind of tool, declared by every client, at every host.

An empty cell is a refusal if the request needs the tool, and a loss if it is offered beside a function.
"""

import json
from typing import Any

import pytest

from dragoman import translate_request
from dragoman.errors import UntranslatableError
from dragoman.profiles import for_model, profile
from dragoman.profiles.catalogue import PROFILES
from tests.support.tables import in_one_test

# Each kind of tool as the clients declare it.
MCP_SERVER = {"type": "url", "url": "https://mcp.example/sse", "name": "notes"}
DECLARED: dict[tuple[str, str], dict[str, Any]] = {
    ("anthropic", "web_search"): {"type": "web_search_20250305", "name": "web_search"},
    ("anthropic", "web_fetch"): {"type": "web_fetch_20250910", "name": "web_fetch"},
    ("anthropic", "code_execution"): {
        "type": "code_execution_20250825",
        "name": "code_execution",
    },
    ("anthropic", "mcp"): {"type": "mcp_toolset", "mcp_server_name": "notes"},
    ("anthropic", "tool_search"): {
        "type": "tool_search_tool_regex_20251119",
        "name": "tool_search_tool_regex",
    },
    ("responses", "web_search"): {"type": "web_search"},
    ("responses", "code_execution"): {
        "type": "code_interpreter",
        "container": {"type": "auto"},
    },
    ("responses", "file_search"): {"type": "file_search", "vector_store_ids": ["vs_1"]},
    ("responses", "image_generation"): {"type": "image_generation"},
    ("responses", "mcp"): {
        "type": "mcp",
        "server_label": "notes",
        "server_url": "https://mcp.example/sse",
        "require_approval": "never",
    },
    ("gemini", "web_search"): {"googleSearch": {}},
    ("gemini", "web_fetch"): {"urlContext": {}},
    ("gemini", "code_execution"): {"codeExecution": {}},
    ("gemini", "maps"): {"googleMaps": {}},
    ("gemini", "file_search"): {"fileSearch": {"fileSearchStoreNames": ["s"]}},
    ("gemini", "mcp"): {
        "mcpServers": [
            {"name": "notes", "streamableHttpTransport": {"url": "https://mcp.example/sse"}}
        ]
    },
    ("chat", "web_search"): {"type": "openrouter:web_search"},
    ("chat", "web_fetch"): {"type": "openrouter:web_fetch"},
    ("chat", "code_execution"): {"type": "openrouter:code_interpreter"},
    ("chat", "image_generation"): {"type": "openrouter:image_generation"},
}
FUNCTIONS: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "run", "input_schema": {"type": "object"}},
    "chat": {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "run", "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": "run"}]},
}
# The hosts, by dialect, profile and model, and their words for the tools of other vendors.
HOSTS: dict[tuple[str, str, str], dict[str, str]] = {
    ("anthropic", "anthropic", "claude-sonnet-4-5"): {
        "web_search": '"web_search_20250305"',
        "web_fetch": '"web_fetch_20250910"',
        "code_execution": '"code_execution_20250825"',
        "mcp": '"mcp_toolset"',
    },
    ("anthropic", "deepseek", "deepseek-chat"): {"web_search": '"web_search_20250305"'},
    ("anthropic", "openrouter", "kimi-k2"): {"web_search": '"web_search_20250305"'},
    ("anthropic", "qwen", "qwen-max"): {},
    ("anthropic", "xai", "grok-4"): {},
    ("anthropic", "openai", "gpt-5"): {},
    ("anthropic", "generic", "glm-4.6"): {},
    ("responses", "openai", "gpt-5"): {
        "web_search": '"type":"web_search"',
        "code_execution": '"type":"code_interpreter"',
        "mcp": '"type":"mcp"',
        "image_generation": '"type":"image_generation"',
    },
    ("responses", "xai", "grok-4"): {
        "web_search": '"type":"web_search"',
        "code_execution": '"type":"code_interpreter"',
        "mcp": '"type":"mcp"',
    },
    ("responses", "groq", "openai/gpt-oss-120b"): {"mcp": '"type":"mcp"'},
    ("responses", "qwen", "qwen-max"): {
        "web_search": '"type":"web_search"',
        "web_fetch": '"type":"web_extractor"',
        "code_execution": '"type":"code_interpreter"',
    },
    ("responses", "deepseek", "deepseek-v4-flash"): {"web_search": '"type":"web_search"'},
    ("responses", "openrouter", "kimi-k2"): {"web_search": '"type":"web_search"'},
    ("responses", "perplexity", "sonar"): {"web_search": '"type":"web_search"'},
    ("responses", "anthropic", "claude-sonnet-4-5"): {},
    ("responses", "vllm", "glm-4.6"): {},
    ("gemini", "gemini-api", "gemini-3-pro"): {
        "web_search": '"googleSearch"',
        "web_fetch": '"urlContext"',
        "code_execution": '"codeExecution"',
        "mcp": '"mcpServers"',
    },
    ("gemini", "gemini-api", "gemini-2.5-flash-image"): {
        "image_generation": '"responseModalities":["TEXT","IMAGE"]',
    },
    ("gemini", "gemini-api", "gemini-3-pro-image-preview"): {
        "web_search": '"googleSearch"',
        "image_generation": '"responseModalities":["TEXT","IMAGE"]',
    },
    ("gemini", "vertex", "gemini-3-pro"): {
        "web_search": '"googleSearch"',
        "web_fetch": '"urlContext"',
        "code_execution": '"codeExecution"',
    },
    ("gemini", "openai", "gpt-5"): {},
    ("chat", "openrouter", "kimi-k2"): {
        "web_search": '"openrouter:web_search"',
        "web_fetch": '"openrouter:web_fetch"',
        "code_execution": '"openrouter:code_interpreter"',
        "image_generation": '"openrouter:image_generation"',
    },
    ("chat", "openai", "gpt-5-search-api"): {"web_search": '"web_search_options"'},
    ("chat", "openai", "gpt-5"): {},
    ("chat", "moonshot", "kimi-k2"): {"web_search": '"$web_search"'},
    ("chat", "zai", "glm-4.7"): {"web_search": '"search_engine"'},
    ("chat", "qwen", "qwen-plus"): {"web_search": '"enable_search":true'},
    ("chat", "xai", "grok-3"): {"web_search": '"search_parameters"'},
    ("chat", "perplexity", "sonar"): {"web_search": '"model":"sonar"'},
    ("chat", "groq", "groq/compound"): {
        "web_search": '"enabled_tools":["web_search"]',
        "web_fetch": '"enabled_tools":["visit_website"]',
        "code_execution": '"enabled_tools":["code_interpreter"]',
    },
    ("chat", "groq", "openai/gpt-oss-120b"): {
        "web_search": '"browser_search"',
        "code_execution": '"type":"code_interpreter"',
    },
    ("chat", "groq", "llama-4"): {},
    ("chat", "deepseek", "deepseek-chat"): {},
    ("chat", "mistral", "mistral-large"): {},
    ("chat", "minimax", "minimax-m2"): {},
    ("chat", "vllm", "glm-4.6"): {},
}
# A vendor takes all of its own tools as its own clients declare them.
OWN = {
    ("anthropic", "anthropic"),
    ("responses", "openai"),
    ("gemini", "gemini-api"),
    ("gemini", "vertex"),
    ("chat", "openrouter"),
}

hosts = pytest.mark.parametrize("host", HOSTS, ids="-".join)
declared = pytest.mark.parametrize(("source", "kind"), DECLARED)


def body_of(source: str, *tools: dict[str, Any]) -> bytes:
    said = [{"role": "user", "content": "What is new at https://a.example/?"}]
    fields: dict[str, Any] = {"model": "any", "tools": [*tools]}
    match source:
        case "anthropic":
            fields |= {"max_tokens": 9_000, "messages": said}
            if any(tool.get("type") == "mcp_toolset" for tool in tools):
                fields["mcp_servers"] = [MCP_SERVER]
        case "chat":
            fields |= {"messages": said}
        case "gemini":
            fields |= {"contents": [{"role": "user", "parts": [{"text": said[0]["content"]}]}]}
        case _:
            fields |= {"input": said}
    return json.dumps(fields).encode()


def written(source: str, host: tuple[str, str, str], *tools: dict[str, Any]) -> Any:
    dialect, name, model = host
    return translate_request(
        body_of(source, *tools),
        source=source,
        target=dialect,
        profile=name,
        model=model,
        continues=True,
    )


def compact(body: bytes) -> str:
    return json.dumps(json.loads(body), separators=(",", ":"))


@in_one_test
@declared
@hosts
def test_each_tool_has_its_word_or_is_refused(
    source: str, kind: str, host: tuple[str, str, str]
) -> None:
    dialect, name, model = host
    tool = DECLARED[source, kind]
    if source == dialect and (dialect, name) in OWN:
        made = written(source, host, tool)
        assert tool in json.loads(made.body)["tools"]
        return
    word = HOSTS[host].get(kind)
    if word is None:
        with pytest.raises(UntranslatableError, match="needs the tool") as caught:
            written(source, host, tool)
        assert "server_tool_unavailable" == caught.value.code
        assert "mcp.example" not in str(caught.value)
        return
    made = written(source, host, tool)
    assert word in compact(made.body)
    if source != dialect:
        assert "server_tool_mapped" in [loss.code for loss in made.losses]
    assert for_model(profile(name), model.rpartition("/")[2], None, dialect).runs(kind, dialect)


@in_one_test
@declared
@hosts
def test_each_tool_beside_a_function_has_its_word_or_is_a_loss(
    source: str, kind: str, host: tuple[str, str, str]
) -> None:
    dialect, name, model = host
    if source == dialect and (dialect, name) in OWN:
        return  # the client's own bytes: see the test before
    # Of models that make images, the older take no functions beside.
    apart = model.startswith("gemini-2.5")
    word = None if apart else HOSTS[host].get(kind)
    made = written(source, host, FUNCTIONS[source], DECLARED[source, kind])

    text = compact(made.body)
    codes = [loss.code for loss in made.losses]
    assert '"run"' in text
    assert (word is not None and kind == "mcp") == ("mcp.example" in text)
    if word is None:
        assert "server_tool_dropped" in codes
        assert "server_tool_mapped" not in codes
    else:
        assert "server_tool_dropped" not in codes
        assert word.replace('"enabled_tools":[', "").replace("]", "") in text


def test_every_host_that_runs_a_tool_has_a_row() -> None:
    rows = {(dialect, name) for dialect, name, _ in HOSTS}
    for name, one in PROFILES.items():
        if one.vendor:
            continue  # as the vendor's
        for entry in one.server_tools:
            dialect, _, kind = entry.partition("/")
            assert kind in HOSTS[next(key for key in HOSTS if key[:2] == (dialect, name))]
        assert not one.chat_search or ("chat", name) in rows


DEFERRED = {**FUNCTIONS["anthropic"], "defer_loading": True}


@hosts
def test_where_no_vendor_searches_the_tools_all_of_them_are_declared(
    host: tuple[str, str, str],
) -> None:
    dialect, name, _ = host
    search = DECLARED["anthropic", "tool_search"]
    made = written("anthropic", host, search, DEFERRED)

    if (dialect, name) == ("anthropic", "anthropic"):
        assert [search, DEFERRED] == json.loads(made.body)["tools"]
        return
    lost = {(loss.code, loss.detail) for loss in made.losses}
    assert ("tool_option_dropped", "defer_loading") in lost
    assert "server_tool_dropped" in {code for code, _ in lost}
    assert '"run"' in made.body.decode()
    assert "defer_loading" not in made.body.decode()


def test_qwen_reads_pages_only_with_its_search_beside() -> None:
    host = ("responses", "qwen", "qwen-max")
    fetch, search = DECLARED["anthropic", "web_fetch"], DECLARED["anthropic", "web_search"]

    alone = json.loads(written("anthropic", host, fetch).body)["tools"]
    both = json.loads(written("anthropic", host, search, fetch).body)["tools"]
    assert ["web_extractor", "web_search"] == [one["type"] for one in alone]
    assert ["web_search", "web_extractor"] == [one["type"] for one in both]


@pytest.mark.parametrize(("name", "kept"), [("vertex", True), ("gemini-api", False)])
def test_google_takes_blocked_domains_on_vertex_alone(name: str, kept: bool) -> None:
    search = DECLARED["anthropic", "web_search"] | {"blocked_domains": ["a.org"]}
    made = written("anthropic", ("gemini", name, "gemini-3-pro"), search)

    expected = {"excludeDomains": ["a.org"]} if kept else {}
    assert [{"googleSearch": expected}] == json.loads(made.body)["tools"]
    lost = [loss.detail for loss in made.losses if loss.code == "tool_option_dropped"]
    assert ([] if kept else ["blocked_domains"]) == lost


def test_perplexity_does_not_search_for_a_client_that_allows_the_cache_alone() -> None:
    cached = DECLARED["responses", "web_search"] | {"external_web_access": False}
    made = written("responses", ("chat", "perplexity", "sonar"), FUNCTIONS["responses"], cached)

    assert json.loads(made.body)["disable_search"] is True
    assert ("server_tool_dropped", "cached search only") in {
        (loss.code, loss.detail) for loss in made.losses
    }


# --- MCP servers: the user's keys for third parties ---------------------------------------------------

MCP_ELSEWHERE = [host for host in HOSTS if host[:2] != ("anthropic", "anthropic")]
SECRET_SERVER = {**MCP_SERVER, "authorization_token": "token-of-the-user"}


@in_one_test
@pytest.mark.parametrize("toolset", [True, False], ids=["toolset", "servers alone"])
@pytest.mark.parametrize("host", MCP_ELSEWHERE, ids="-".join)
def test_servers_and_tokens_stay_with_the_vendor_of_the_client(
    host: tuple[str, str, str], toolset: bool
) -> None:
    tools = [FUNCTIONS["anthropic"], *([DECLARED["anthropic", "mcp"]] if toolset else [])]
    body = json.loads(body_of("anthropic", *tools)) | {"mcp_servers": [SECRET_SERVER]}
    dialect, name, model = host
    options: dict[str, Any] = {
        "source": "anthropic",
        "target": dialect,
        "profile": name,
        "model": model,
    }
    made = translate_request(json.dumps(body).encode(), **options)

    assert b"token-of-the-user" not in made.body
    assert b"mcp.example" not in made.body
    (lost,) = [loss for loss in made.losses if loss.code == "server_tool_dropped"]
    assert ("$.tools[1]" if toolset else "$.mcp_servers") == lost.path
    assert '"run"' in compact(made.body)
    body["tools"] = body["tools"][1:]
    with pytest.raises(UntranslatableError, match=r"needs the tool `mcp`|credentials") as caught:
        translate_request(json.dumps(body).encode(), **options)
    assert "server_tool_unavailable" == caught.value.code
    assert "token-of-the-user" not in str(caught.value)


@pytest.mark.parametrize("tools", [[], [DECLARED["anthropic", "mcp"]]])
def test_anthropic_gets_servers_as_they_are(tools: list[Any]) -> None:
    body = json.loads(body_of("anthropic", *tools)) | {"mcp_servers": [SECRET_SERVER]}
    made = translate_request(
        json.dumps(body).encode(), source="anthropic", target="anthropic", profile="anthropic"
    )

    assert body == json.loads(made.body)
    assert () == made.losses
