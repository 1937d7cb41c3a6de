"""The catalogue of upstreams: complete, consistent, and true to the facts that scenarios rest on."""

from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs
from tests.support.tables import in_one_test

import dragoman
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError
from dragoman.profiles import for_model, profile
from dragoman.profiles.catalogue import ALIASES, PROFILES
from dragoman.profiles.profile import Profile

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WANTED = [
    "openai",
    "anthropic",
    "openrouter",
    "deepseek",
    "moonshot",
    "qwen",
    "zai",
    "minimax",
    "mistral",
    "gemini",
    "groq",
    "xai",
    "perplexity",
    "vllm",
    "sglang",
    "llama-server",
    "ollama",
    "lm-studio",
    "transformers",
    "litellm",
    "generic",
]
# Facts that depend on the model or the deployment, which only its operator knows.
FOR_OPERATORS = {
    "json_schema_with_tools",  # of Gemini models, see _GEMINI_MODELS
    "server_tools_beside_functions",  # the same
    "betas",
    "cached_search",  # a route sets it
    "content_parts",
    "cumulative",
    "default_max_output",
    "lenient_eof",
    "max_output_tokens",
    "mcp_credentials",  # a route sets it
    "send_ids",  # of Gemini servers; not verified
    "stream_args",  # of Vertex; not verified
    "tool_calls",
}
each_profile = pytest.mark.parametrize("one", PROFILES.values(), ids=PROFILES)


@in_one_test
@pytest.mark.parametrize("field", Profile.__struct_fields__)
def test_every_fact_of_a_profile_is_asked_for_by_some_code(field: str) -> None:
    source = Path(dragoman.__file__).parent
    asking = [path for path in source.rglob("*.py") if path.name != "catalogue.py"]

    assert any(f".{field}" in path.read_text(encoding="utf-8") for path in asking)


@in_one_test
@pytest.mark.parametrize("field", Profile.__struct_fields__)
def test_every_fact_of_a_profile_differs_somewhere_or_is_for_the_operator(field: str) -> None:
    differing = {str(getattr(one, field)) for one in PROFILES.values()}

    assert len(differing) > 1 or field in FOR_OPERATORS


@pytest.mark.parametrize("name", WANTED)
def test_the_upstream_has_a_profile(name: str) -> None:
    assert name == profile(name).name


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_names_a_profile_and_shadows_none(alias: str, name: str) -> None:
    assert PROFILES[name] is profile(alias)
    assert alias not in PROFILES


def test_a_name_is_found_in_any_letter_case() -> None:
    assert PROFILES["qwen"] is profile(" DashScope ")


def test_a_near_miss_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match="did you mean `openrouter`"):
        profile("open-router")


def test_a_name_like_no_other_gets_the_whole_list() -> None:
    with pytest.raises(ConfigError, match="no profile `xxxxxxxx`; there are anthropic, "):
        profile("xxxxxxxx")


@each_profile
def test_a_profile_describes_itself_in_one_line(one: Profile) -> None:
    assert one.description
    assert "\n" not in one.description
    assert not one.description.endswith(".")


@each_profile
def test_efforts_are_known_ones_in_rising_order(one: Profile) -> None:
    assert sorted(one.supported_efforts, key=EFFORTS.index) == list(one.supported_efforts)


@each_profile
def test_the_values_of_a_profile_are_among_those_declared(one: Profile) -> None:
    for name, kind in Profile.__annotations__.items():
        allowed = get_args(kind)
        if allowed and all(isinstance(value, str) for value in allowed):
            assert getattr(one, name) in allowed


@each_profile
def test_a_filler_is_only_there_where_reasoning_is_demanded(one: Profile) -> None:
    assert not one.reasoning_filler or one.replay_reasoning != "never"
    assert not one.carry_reasoning or one.replay_reasoning != "never"


@each_profile
def test_f8_images_of_tool_results_never_go_where_images_are_refused(one: Profile) -> None:
    assert one.images != "none" or one.tool_images == "placeholder"
    # A message with the images would have to follow the results.
    assert one.user_after_tool or one.tool_images != "follow_up"


@each_profile
def test_opaque_state_has_an_origin(one: Profile) -> None:
    assert one.origin
    assert profile(one.vendor or one.name).origin == one.origin


def test_d1_kimi_gets_its_own_ids_back() -> None:
    assert profile("moonshot").id_style == "kimi"


def test_d3_mistral_gets_nine_characters() -> None:
    assert profile("mistral").id_style == "mistral9"


@pytest.mark.parametrize("name", ["deepseek", "moonshot"])
def test_e1_e2_e3_r9_reasoning_of_tool_turns_returns_and_is_never_empty(name: str) -> None:
    one = profile(name)

    assert one.replay_reasoning == "tool_turns"
    assert one.reasoning_filler.strip() == ""
    assert one.reasoning_filler != ""
    assert one.carry_reasoning
    assert one.reasoning_field == "reasoning_content"


@pytest.mark.parametrize("name", ["openai", "mistral"])
def test_e3_r10_reasoning_never_returns_where_it_is_refused(name: str) -> None:
    assert profile(name).replay_reasoning == "never"


def test_r12_the_field_for_reasoning_differs() -> None:
    assert profile("vllm").reasoning_field == "reasoning"
    assert profile("sglang").reasoning_field == "reasoning_content"
    assert profile("openrouter").reasoning_field == "reasoning_details"


@pytest.mark.parametrize("name", ["deepseek", "moonshot", "zai"])
def test_e7_thinking_is_switched_by_its_own_field(name: str) -> None:
    assert profile(name).reasoning_control == "thinking_type"


def test_f1_schemas_are_rewritten_for_those_who_refuse_common_ones() -> None:
    assert profile("moonshot").schema_dialect == "moonshot"
    assert profile("gemini").schema_dialect == "gemini"
    assert profile("openai").schema_dialect == "any"


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("deepseek", "disable_thinking"),
        ("anthropic", "disable_thinking"),
        ("moonshot", "downgrade"),
    ],
)
def test_f2_forced_tool_choice_excludes_thinking(name: str, policy: str) -> None:
    one = profile(name)

    assert not one.forced_tool_choice_with_thinking
    assert policy == one.forced_tool_choice_policy


@pytest.mark.parametrize("name", ["llama-server", "lm-studio"])
def test_t20_a_named_tool_choice_is_written_with_strings(name: str) -> None:
    assert profile(name).tool_choice == "strings_only"


@pytest.mark.parametrize(
    "name", ["vllm", "sglang", "llama-server", "ollama", "lm-studio", "generic", "qwen"]
)
def test_f4_local_servers_get_no_system_message_between_turns(name: str) -> None:
    assert not profile(name).midturn_system


def test_f10_mistral_wants_alternation_and_no_user_after_a_tool() -> None:
    one = profile("mistral")

    assert one.alternate_roles
    assert not one.user_after_tool


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("openai", "max_completion_tokens"),
        ("moonshot", "max_completion_tokens"),
        ("mistral", "max_tokens"),
        ("generic", "max_tokens"),
    ],
)
def test_f11_the_output_limit_goes_into_the_field_the_peer_knows(name: str, field: str) -> None:
    assert field == profile(name).max_tokens_field


def test_f11_sampling_is_dropped_where_it_is_refused() -> None:
    refusing = {name for name, one in PROFILES.items() if one.drop_sampling}

    assert refusing == {"anthropic", "moonshot", "openai-reasoning"}


@pytest.mark.parametrize("name", ["mistral", "zai"])
def test_s9_usage_is_not_asked_for_where_the_question_is_refused(name: str) -> None:
    assert not profile(name).stream_usage


def test_think_tags_are_never_looked_for_at_openai_and_anthropic() -> None:
    assert profile("openai").think_tags == "off"
    assert profile("anthropic").think_tags == "off"
    assert profile("generic").think_tags == "auto"


def test_dialect_names_are_no_profiles_by_accident() -> None:
    assert {"anthropic", "gemini"} == set(DIALECT_NAMES) & set(PROFILES)


@pytest.mark.parametrize(
    ("name", "model", "dialect", "vendor_tools"),
    [
        ("generic", "claude-opus-4-6", "anthropic", True),
        ("generic", "claude-opus-4-6", "chat", False),
        ("generic", "gpt-5-codex", "responses", True),
        ("generic", "gpt-oss-120b", "responses", False),
        ("vllm", "claude-opus-4-6", "anthropic", False),
    ],
)
def test_a_vendors_model_behind_an_unknown_host_brings_the_vendors_tools(
    name: str, model: str, dialect: str, vendor_tools: bool
) -> None:
    assert vendor_tools is for_model(profile(name), model, None, dialect).vendor_tools


def test_nothing_is_left_to_the_model_once_it_is_known() -> None:
    for one in PROFILES.values():
        found = for_model(one, "m", None, "chat")
        assert "auto" != found.replay_reasoning
        same = structs.replace(found, chat_search=one.chat_search, vendor_tools=one.vendor_tools)
        assert same == one or one.replay_reasoning == "auto"


@pytest.mark.parametrize(
    ("model", "control", "signatures", "images"),
    [
        ("gemini-3.1-pro-preview", "reasoning_effort", True, "native"),
        ("gemini-2.5-flash", "budget", False, "follow_up"),
        ("gemma-3-27b", "none", False, "follow_up"),
    ],
)
def test_gemini_models_differ_by_their_names(
    model: str, control: str, signatures: bool, images: str
) -> None:
    found = for_model(profile("vertex"), model, None, "gemini")

    assert (control, signatures, images) == (
        found.reasoning_control,
        found.requires_call_signatures,
        found.tool_images,
    )
