"""Each quirk of the simulator is found, and nothing else."""

from functools import cache
from typing import Any, NamedTuple

import pytest

from dragoman.probe.checks import CHECKS
from dragoman.probe.run import Report
from dragoman.simulator.quirks import QUIRKS
from tests.support.gateway import DIALECTS, FIXED_PATHS
from tests.support.probing import BASELINE, probe


class Found(NamedTuple):
    """What a probe must find: checks that change, each with its verdict; and the profile that follows."""

    checks: dict[str, str] = {}
    profile: dict[str, Any] = {}
    outcome: str = "good"
    blind: bool = False  # what is wrong keeps other checks from finding out anything


NOTHING = Found()
GONE = Found({"reach": "fails"}, outcome="unreachable", blind=True)

CHAT = {
    # --- what it takes ---
    "refuses:developer": Found({"developer": "quirk"}),
    "refuses:midturn-system": Found({"midturn-system": "quirk"}, {"midturn_system": False}),
    "refuses:two-systems": Found({"two-systems": "quirk"}, {"merge_system": True}),
    "refuses:images": Found({"images": "quirk"}, {"images": "none", "tool_images": "placeholder"}),
    "refuses:parts": Found({"parts": "quirk", "images": "unknown"}, {"content_parts": "string"}),
    "refuses:null-content": Found({"history": "quirk"}, {"empty_assistant_content": "empty"}),
    "refuses:tools": Found({"tools-auto": "fails"}, outcome="bad", blind=True),
    "refuses:custom-tools": NOTHING,  # the probe declares functions
    "refuses:server-tools": NOTHING,
    "refuses:required": Found(
        {"tools-required": "quirk", "tools-named": "ok"}, {"tool_choice": "auto_only"}
    ),
    "refuses:named": Found({"tools-named": "quirk"}, {"tool_choice": "strings_only"}),
    "refuses:none": Found({"tools-none": "quirk"}, {"tool_choice_none": False}),
    "refuses:parallel-flag": Found({"parallel-flag": "quirk"}, {"supports_parallel_flag": False}),
    "refuses:max_tokens": Found(
        {"output-limit": "quirk"}, {"max_tokens_field": "max_completion_tokens"}
    ),
    "refuses:max_completion_tokens": Found({"output-limit": "ok"}),
    "refuses:stream_options": Found({"usage": "quirk"}, {"stream_usage": False}),
    "refuses:stop": Found({"stop": "quirk"}, {"max_stop_sequences": 0}),
    "refuses:temperature": Found({"temperature": "quirk"}, {"drop_sampling": True}),
    "refuses:hot": Found({"temperature": "quirk"}, {"max_temperature": 1.0}),
    "refuses:effort": Found({"reasoning": "quirk"}, {"reasoning_control": "none"}),
    "refuses:odd-ids": Found({"foreign-ids": "quirk"}, {"id_style": "openai40"}),
    "refuses:long-ids": Found({"foreign-ids": "quirk"}, {"id_style": "openai40"}),
    "refuses:foreign-ids": Found({"foreign-ids": "quirk"}, {"id_style": "mistral9"}),
    "refuses:unreasoned": Found(
        {"reasoning-replay": "quirk"},
        {"replay_reasoning": "tool_turns", "reasoning_filler": " "},
    ),
    "refuses:reasoning": Found({"reasoning-replay": "quirk"}),
    "ignores:required": Found(
        {"tools-required": "quirk", "tools-named": "ok"}, {"tool_choice": "auto_only"}
    ),
    "ignores:named": Found({"tools-named": "quirk"}, {"tool_choice": "strings_only"}),
    "ignores:none": Found({"tools-none": "quirk"}, {"tool_choice_none": False}),
    "ignores:parallel-flag+parallel:2": Found(
        {"parallel": "ok", "interleaved": "ok", "parallel-flag": "quirk"},
        {"supports_parallel_flag": False},
    ),
    "ignores:stop": Found({"stop": "quirk"}, {"max_stop_sequences": 0}),
    "ignores:max_tokens": Found(
        {"output-limit": "quirk"}, {"max_tokens_field": "max_completion_tokens"}
    ),
    "needs-reasoning": Found(
        {"reasoning": "ok", "reasoning-replay": "quirk"},
        {"replay_reasoning": "tool_turns", "reasoning_filler": " "},
    ),
    # --- what it says ---
    "think": Found({"reasoning": "ok"}),
    "think-tags": Found({"reasoning": "quirk"}),
    "think-close": Found({"reasoning": "quirk"}, {"think_tags": "implicit_open"}),
    "loose-args": Found({"schema": "quirk"}),
    "parallel:2": Found({"parallel": "ok", "interleaved": "ok"}),
    "args:4": Found({"arguments": "unknown", "schema": "unknown"}),
    "text:1": Found({"stop": "unknown"}),
    "structural": NOTHING,
    "ids:call_0": Found({"call-ids": "quirk"}),
    "refuse": Found(
        {
            "tools-auto": "fails",
            "tools-required": "quirk",
            "tools-named": "quirk",
            "finish": "quirk",
        },
        {"tool_choice": "auto_only"},
        outcome="bad",
        blind=True,
    ),
    "bad-json-args": Found(
        {"tools-auto": "fails", "arguments": "fails"}, outcome="bad", blind=True
    ),
    "quoted-args": Found({"arguments": "fails"}, blind=True),
    "cut-args": Found({"tools-auto": "fails", "arguments": "fails"}, outcome="bad", blind=True),
    "length": Found({"arguments": "fails", "finish": "quirk"}, blind=True),
    # --- what takes a second request ---
    "pause:1": NOTHING,  # a search of Moonshot alone is paused
    "late": NOTHING,
    # --- how it writes ---
    "chunk:all": Found({"cumulative": "unknown", "arguments": "quirk"}),
    "batch:3": NOTHING,
    "prompt-cache": NOTHING,
    "no-usage": Found({"usage": "quirk"}),
    "usage-unasked": Found({"usage": "quirk"}),
    "cumulative": Found({"cumulative": "quirk"}, {"cumulative": True}),
    "reasoning-field:reasoning": Found({"reasoning": "ok"}, {"reasoning_field": "reasoning"}),
    "reasoning-field:reasoning_details": Found(
        {"reasoning": "ok"}, {"reasoning_field": "reasoning_details"}
    ),
    "finish:stop": Found({"finish": "quirk"}),
    "finish:weird": Found({"finish": "quirk"}),
    "no-done": Found({"ending": "quirk"}),
    "no-finish": Found(
        {"ending": "fails", "tools-auto": "fails"},
        {"lenient_eof": True},
        outcome="bad",
        blind=True,
    ),
    "crlf": Found({"line-ends": "quirk"}),
    "comments": Found({"comments": "quirk"}),
    "whole-args": Found({"arguments": "quirk"}),
    "object-args": Found({"arguments": "quirk"}),
    "parallel:2+interleave": Found({"parallel": "ok", "interleaved": "quirk"}),
    "parallel:2+index-zero": Found({"parallel": "ok", "interleaved": "ok", "order": "quirk"}),
    "null-content": Found({"null-content": "quirk"}),
    "no-event-lines": NOTHING,  # Chat has none
    "garbage": Found({"order": "quirk"}),
    "giant:1": NOTHING,
    "half-call": Found({"ending": "fails", "tools-auto": "fails"}, outcome="bad", blind=True),
    "ends-in:call": Found({"ending": "fails", "tools-auto": "fails"}, outcome="bad", blind=True),
    # --- how it sends ---
    "plain-errors": Found({"error-shape": "quirk"}),
    "pace:0": NOTHING,
    "slow:1": NOTHING,
    "json-instead": Found({"framing": "quirk"}, blind=True),
    "sse-instead": Found({"body": "quirk", "usage": "ok"}),
    "retry-after:1": NOTHING,
    "error:500": GONE,
    "error:400": GONE._replace(outcome="bad"),
    "error:401": GONE,
    "error-page:502": GONE,
    "empty": GONE._replace(outcome="bad"),
    "error-200": GONE._replace(outcome="bad"),
    "error-first": Found({"ending": "fails"}, blind=True),
    "error-in": Found({"ending": "fails", "tools-auto": "fails"}, outcome="bad", blind=True),
    "error-end": Found(
        {"ending": "fails", "tools-auto": "fails"},
        {"lenient_eof": True},
        outcome="bad",
        blind=True,
    ),
    "cut": GONE,
    "reset": GONE,
    "stall": GONE,
    "fail:1": Found({"reach": "quirk"}),
    # --- of another dialect ---
    "no-ids": NOTHING,
    "signature-apart": NOTHING,
}
# Vendors with a web search; the other dialects have one word for it.
# Perplexity's last chunk has another name than OpenAI's, and counts that nobody asked for.
PERPLEXITY = {"search": "ok", "usage": "quirk", "order": "quirk"}
SEARCHES = {
    "search:options": Found({"search": "ok"}, {"chat_search": "options"}),
    "search:openrouter": Found({"search": "ok"}, {"chat_search": "openrouter"}),
    "search:zai": Found({"search": "ok"}, {"chat_search": "zai"}),
    "search:xai": Found({"search": "ok"}, {"chat_search": "xai"}),
    "search:compound": Found({"search": "ok"}, {"chat_search": "compound"}),
    "search:browser": Found({"search": "ok"}, {"chat_search": "browser"}),
    "search:kimi": Found({"search": "ok"}, {"chat_search": "kimi"}),
    "search:perplexity": Found(PERPLEXITY, {"chat_search": "perplexity"}),
    "search:qwen": NOTHING,  # its answers show nothing of a search
}
SEARCHES_ITSELF = Found({"search": "ok"}, {"server_tools": ("web_search",)})
# Models that write calls as text.
NATIVE = {"tools-auto": "quirk", "native": "quirk"}
BASES = {
    "kimi-k2": Found(NATIVE, blind=True),
    "kimi-k2+leak-reasoning": Found(NATIVE, blind=True),
}
OWN_IDS = Found({"call-ids": "ok", "foreign-ids": "ok"}, {"id_style": "kimi"})
NO_IMAGES = {"images": "none", "tool_images": "placeholder"}
# Facts about fields and shapes that only Chat has: elsewhere there is nothing to find.
CHAT_ONLY = (
    "refuses:null-content",
    "refuses:max_completion_tokens",
    "refuses:stream_options",
    "usage-unasked",
    "cumulative",
    "reasoning-field:reasoning",
    "reasoning-field:reasoning_details",
    # What others thought cannot be given back without their signatures.
    "refuses:reasoning",
)
# The other dialects, where they differ from Chat.
MESSAGES = dict.fromkeys(CHAT_ONLY, NOTHING) | {
    "refuses:two-systems": NOTHING,  # they have a place of their own, which is a list
    "refuses:parts": Found({"history": "fails", "images": "quirk"}, NO_IMAGES, blind=True),
    "refuses:max_tokens": GONE._replace(outcome="bad"),  # there is no other field
    "refuses:hot": NOTHING,  # more than 1 is not of the dialect
    "refuses:effort": NOTHING,  # thoughts are asked for by a budget
    "refuses:odd-ids": Found({"foreign-ids": "quirk"}, {"id_style": "anthropic64"}),
    "refuses:long-ids": Found({"foreign-ids": "quirk"}, {"id_style": "anthropic64"}),
    "ignores:max_tokens": Found({"output-limit": "quirk"}),
    "no-event-lines": Found({"event-lines": "quirk"}),
    "index-zero": Found({"order": "quirk"}),
    "parallel:2+index-zero": Found({"parallel": "ok", "interleaved": "ok", "order": "quirk"}),
    "parallel:2+interleave": Found({"parallel": "ok", "interleaved": "quirk", "order": "quirk"}),
    "finish:end_turn": CHAT["finish:stop"],
    "search:xai": SEARCHES_ITSELF,
    # Every answer is a search that waits for its content: the probe never gets to the rest.
    "pause:1": Found(
        CHAT["refuse"].checks | {"search": "ok"},
        CHAT["refuse"].profile | SEARCHES_ITSELF.profile,
        outcome="bad",
        blind=True,
    ),
    "refuses:server-tools": Found({"search": "ok"}),  # the refusal is shown
    "refuses:tools": Found({"tools-auto": "fails", "search": "ok"}, outcome="bad", blind=True),
}
RESPONSES = dict.fromkeys(CHAT_ONLY, NOTHING) | {
    "refuses:parts": Found({"images": "quirk"}, NO_IMAGES),
    "refuses:max_tokens": NOTHING,  # there is no such field
    "refuses:stop": NOTHING,  # nor this
    "ignores:stop": NOTHING,
    "refuses:odd-ids": Found({"foreign-ids": "quirk"}, {"id_style": "responses64"}),
    "refuses:long-ids": Found({"foreign-ids": "quirk"}, {"id_style": "responses64"}),
    "refuses:effort": Found({"reasoning": "quirk"}),
    "ignores:max_tokens": Found({"output-limit": "quirk"}),
    "no-event-lines": Found({"event-lines": "quirk"}),
    "index-zero": Found({"order": "quirk"}),
    "parallel:2+interleave": Found({"parallel": "ok", "interleaved": "quirk", "order": "quirk"}),
    "error-end": Found({"ending": "fails", "tools-auto": "fails"}, outcome="bad", blind=True),
    "finish:stop": NOTHING,  # answers are complete or not, whatever made them stop
    "no-done": NOTHING,  # the finish is the last word
    "search:xai": SEARCHES_ITSELF,
    "refuses:server-tools": MESSAGES["refuses:server-tools"],
    "refuses:tools": MESSAGES["refuses:tools"],
}


def expected_in(dialect: str, differing: dict[str, Found]) -> dict[str, Found]:
    """Return what must be found in a dialect: as in Chat, as far as it has the checks, or as it differs."""

    def fitting(found: Found) -> Found:
        checks = {
            name: verdict
            for name, verdict in found.checks.items()
            if dialect in CHECKS[name].dialects
        }
        return found._replace(checks=checks)

    return {name: fitting(found) for name, found in (CHAT | differing).items()}


# A sample: most of these checks do not depend on the dialect.
GEMINI = {
    "think": Found({"reasoning": "ok"}),
    "refuses:images": Found({"images": "quirk"}, NO_IMAGES),
    "refuses:stop": CHAT["refuses:stop"],
    "refuses:temperature": CHAT["refuses:temperature"],
    "refuses:required": CHAT["refuses:required"],
    "crlf": CHAT["crlf"],
    "comments": CHAT["comments"],
    "no-usage": CHAT["no-usage"],
    "no-finish": CHAT["no-finish"],
    "cut-args": Found({"tools-auto": "fails", "order": "quirk"}, outcome="bad", blind=True),
    "error:401": GONE,
    "cut": GONE,
    "no-ids": Found({"call-ids": "quirk"}),
    "signature-apart": NOTHING,
    "search:xai": SEARCHES_ITSELF,
}
ROWS = [
    *(("gemini", f"plain+{name}", found) for name, found in GEMINI.items()),
    *(("chat", f"plain+{name}", found) for name, found in (CHAT | SEARCHES).items()),
    *(
        (dialect, f"plain+{name}", found)
        for dialect, differing in (("anthropic", MESSAGES), ("responses", RESPONSES))
        for name, found in expected_in(dialect, differing).items()
    ),
    *((dialect, name, found) for dialect in FIXED_PATHS for name, found in BASES.items()),
    ("chat", "kimi-k2+leak-both", Found(NATIVE | {"reasoning": "quirk"}, blind=True)),
    *((dialect, "kimi-k2+leak-both", Found(NATIVE, blind=True)) for dialect in FIXED_PATHS[1:]),
    *((dialect, "kimi-k2+structural", OWN_IDS) for dialect in ("chat", "responses")),
    ("anthropic", "kimi-k2+structural", NOTHING),  # ids of Messages cannot look so
]


@cache
def baseline(dialect: str) -> Report:
    return probe(BASELINE, dialect)


def seen(report: Report) -> dict[str, tuple[Any, ...]]:
    """Return what each check found, but for the list of models, which knows some names and not others."""
    return {
        row.name: (row.verdict, row.found, row.implies)
        for row in report.checks
        if row.name != "models"
    }


@pytest.mark.parametrize(
    ("dialect", "model", "expected"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS]
)
def test_the_probe_finds_exactly_the_quirk(dialect, model, expected):
    timeout = 1.0 if "stall" in model else 20.0
    host = "" if "search:" in model else "+search:none"
    report = probe(f"{model}{host}", dialect, timeout=timeout)

    usual = seen(baseline(dialect))
    changed = {name: found[0] for name, found in seen(report).items() if found != usual[name]}
    if expected.blind:
        changed = {
            name: verdict
            for name, verdict in changed.items()
            if verdict != "unknown" or name in expected.checks
        }
    assert expected.checks == changed
    assert expected.profile == report.profile
    assert expected.outcome == report.outcome


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_model_has_no_quirks(dialect):
    report = baseline(dialect)

    assert {"ok"} == {row.verdict for row in report.checks}
    assert ({}, "good") == (report.profile, report.outcome)


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_every_quirk_of_the_simulator_is_in_the_table(dialect):
    models = [model for spoken, model, _ in ROWS if spoken == dialect]
    names = {one.partition(":")[0] for model in models for one in model.split("+")}
    assert set() == set(QUIRKS) - names

    for quirk in ("refuses", "ignores"):
        for word in QUIRKS[quirk].words:
            assert any(model.split("+")[1:2] == [f"{quirk}:{word}"] for model in models)
