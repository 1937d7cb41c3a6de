"""docs/web-search.md: the table of vendors agrees with the profiles, and each vendor has settings that search."""

import re
import tomllib
from pathlib import Path

import pytest

from dragoman.gateway.config.vendors import profile_for
from dragoman.profiles import for_model, profile
from dragoman.profiles.catalogue import PROFILES
from dragoman.toolcalls.detection import bare_name

PAGE = (Path(__file__).parents[2] / "docs" / "web-search.md").read_text("utf-8")
TABLE = PAGE.partition("## Which upstreams can search")[2].partition("## ")[0]
EXAMPLES = {
    name: table
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for name, table in tomllib.loads(text).get("upstreams", {}).items()
    if name != "mine"  # of no vendor
}
# Models that search, of vendors whose other models do not.
MODELS = {"openai": "gpt-5-search-api", "openai-reasoning": "gpt-5-search-api", "groq": "compound"}
# Rows stand for profiles of the same host, and for gateways that forward to vendors.
SAME = {"openai-reasoning": "openai"}
DIALECTS = ("chat", "anthropic", "responses", "gemini")


def listed() -> set[tuple[str, str]]:
    """Return the dialects and profiles of the table."""
    rows = [line.split("|") for line in TABLE.splitlines() if line.startswith("| ")][1:]
    return {
        (dialect, name)
        for row in rows
        for dialect in re.findall(r"`([^`]+)`", row[2])
        for name in re.findall(r"`([^`]+)`", row[3])
    }


def searches(name: str, dialect: str) -> bool:
    model = MODELS.get(name, "")
    return for_model(profile(name), bare_name(model), None, dialect).runs("web_search", dialect)


def test_everyone_in_the_table_searches() -> None:
    assert listed()
    assert [] == [(dialect, name) for dialect, name in listed() if not searches(name, dialect)]


def test_every_chat_host_that_searches_is_in_the_table() -> None:
    found = {("chat", SAME.get(name, name)) for name in PROFILES if searches(name, "chat")}

    assert found == {(dialect, name) for dialect, name in listed() if dialect == "chat"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_settings_of_each_vendor_lead_to_a_search(name: str) -> None:
    table = EXAMPLES[name]
    used = table.get("profile") or profile_for(table["base_url"], table["dialect"])

    assert searches(used, table["dialect"])
    assert (table["dialect"], used) in listed()


def test_every_vendor_of_the_table_has_settings() -> None:
    shown = {
        table.get("profile") or profile_for(table["base_url"], table["dialect"])
        for table in EXAMPLES.values()
    }

    assert {name for _, name in listed()} - shown == {"vertex"}  # set up as in docs/gemini.md


# --- other tools ----------------------------------------------------------------------------------------

VENDORS = {
    "Anthropic": ("anthropic", "anthropic"),
    "OpenAI": ("responses", "openai"),
    "xAI": ("responses", "xai"),
    "Groq": ("responses", "groq"),
    "Qwen": ("responses", "qwen"),
    "Google AI Studio": ("gemini", "gemini-api"),
}


def row(section: str, first: str) -> list[str]:
    """Return the cells of a table's row behind the first."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    (line,) = [one for one in text.splitlines() if one.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def running(kind: str, *dialects: str) -> set[tuple[str, str]]:
    """Return the endpoints that run a tool; profiles of the same host count once."""
    return {
        (dialect, name)
        for name, one in PROFILES.items()
        for dialect in dialects
        if not one.vendor and one.runs(kind, dialect)
    }


def test_the_table_of_mcp_servers_names_every_vendor_that_calls_them() -> None:
    named = {VENDORS[word] for cell in row("MCP servers", "Vendors") for word in cell.split(", ")}

    assert running("mcp", "anthropic", "responses", "gemini") == named


def test_the_table_of_pages_and_code_names_every_responses_host() -> None:
    for first, kind in (("fetches a page", "web_fetch"), ("runs code", "code_execution")):
        cell = row("Pages and code", first)[1]
        named = {VENDORS[word] for word in cell.partition("(")[2].rstrip(")").split(", ")}

        assert running(kind, "responses") == named


def test_the_models_that_the_page_names_make_images() -> None:
    text = PAGE.partition("## Images\n")[2].partition("\n## ")[0]
    models = re.findall(r"`(gemini-[^`]+)`", text)

    assert models
    for model in models:
        assert for_model(profile("gemini-api"), model, None, "gemini").runs(
            "image_generation", "gemini"
        )
    assert {("responses", "openai")} == running("image_generation", "responses")
    assert {("chat", "openrouter")} == running("image_generation", "chat")
