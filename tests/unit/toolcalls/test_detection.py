import pytest

from dragoman.toolcalls.detection import STANDARD, bare_name, detect, known_family
from dragoman.toolcalls.format_names import choose_format
from dragoman.toolcalls.formats import AUTO, FORMATS
from tests.support.tables import in_one_test

# By family: ids as routers, model hubs, local servers and the makers themselves write them.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "kimi_k2": (
        "moonshotai/kimi-k2",
        "moonshotai/kimi-k2-0905",
        "moonshotai/kimi-k2-thinking",
        "moonshotai/kimi-k2.5",
        "moonshotai/Kimi-K2-Instruct-0905",
        "moonshotai/Kimi-K2-Thinking",
        "moonshotai/Kimi-K2.5",
        "kimi-k2:1t-cloud",
        "kimi-k2-thinking:cloud",
        "kimi-k2-0905-preview",
        "kimi-k2-turbo-preview",
        "hf.co/unsloth/Kimi-K2-Instruct-GGUF:Q4_K_M",
        "accounts/fireworks/models/kimi-k2p5",
        "moonshot.kimi-k2-thinking",
        "moonshotai/kimi-k2.6:nitro",
        "moonshotai/Kimi-VL-A3B-Thinking",
        "moonshotai/Kimi-Dev-72B",
    ),
    "kimi_k3": ("moonshotai/kimi-k3", "moonshotai/Kimi-K3-Instruct", "kimi_k3:cloud"),
    "hermes": (
        "nousresearch/hermes-3-llama-3.1-405b",
        "NousResearch/Hermes-4-70B",
        "hermes3:8b",
        "qwen/qwen-2.5-72b-instruct",
        "Qwen/Qwen2.5-72B-Instruct-AWQ",
        "qwen2.5-coder:32b",
        "qwen/qwen3-235b-a22b:free",
        "Qwen/Qwen3-32B",
        "qwen3:30b-a3b",
        "qwen/qwen3-next-80b-a3b-instruct",
        "qwq",
        "qwen-max",
        "qwen-plus",
        "qwen-72b-chat",
        "arcee-ai/trinity-mini",
        "HuggingFaceTB/SmolLM3-3B",
        "ibm-granite/granite-4.0-h-small",
        "granite4:tiny-h",
        "Groq/Llama-3-Groq-70B-Tool-Use",
        "athene-v2",
    ),
    "qwen3_coder": (
        "qwen/qwen3-coder",
        "qwen/qwen3-coder:free",
        "qwen/qwen3.5-plus-02-15",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
        "Qwen/Qwen3.5-397B-A17B",
        "qwen3-coder:480b-cloud",
        "qwen3-coder-plus",
        "qwen-3-coder-480b",
        "qwen.qwen3-coder-480b-a35b-v1:0",
        "nvidia/nemotron-3-nano-30b-a3b",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        "nemotron-3-nano:30b",
        "xiaomi/mimo-v2-flash",
        "XiaomiMiMo/MiMo-V2-Flash",
        "stepfun/step-3.5-flash",
        "stepfun-ai/Step-3.5-Flash",
        "step3p5",
        "someone/my-qwen3-coder-merge",
    ),
    "seed_oss": (
        "bytedance-seed/seed-oss-36b-instruct",
        "ByteDance-Seed/Seed-OSS-36B-Instruct",
        "seed-oss:36b",
    ),
    "deepseek_v3": (
        "deepseek/deepseek-chat-v3-0324",
        "deepseek/deepseek-r1-0528:free",
        "deepseek-ai/DeepSeek-V3-0324",
        "deepseek-ai/DeepSeek-R1-0528",
        "deepseek-r1:671b",
        "deepseek-r1-distill-qwen-32b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        "deepseek/deepseek-r1-0528-qwen3-8b",
        "deepseek.r1-v1:0",
    ),
    "deepseek_v31": (
        "deepseek/deepseek-chat-v3.1",
        "deepseek/deepseek-v3.1-terminus",
        "deepseek/deepseek-v3.2-exp",
        "deepseek-ai/DeepSeek-V3.1",
        "deepseek-ai/DeepSeek-V3.2-Exp",
        "deepseek-v3.1:671b-cloud",
        "accounts/fireworks/models/deepseek-v3p1",
        "deepseek-v3-1-250821",
    ),
    "deepseek_v32": (
        "deepseek/deepseek-v3.2",
        "deepseek-ai/DeepSeek-V3.2",
        "deepseek-v3.2:cloud",
        "deepseek-chat",
        "deepseek-reasoner",
    ),
    "deepseek_v4": (
        "deepseek/deepseek-v4",
        "deepseek-ai/DeepSeek-V4-Flash",
        "deepseek-v4-pro:cloud",
    ),
    "glm45": (
        "z-ai/glm-4.5-air:free",
        "z-ai/glm-4.6",
        "zai-org/GLM-4.5-Air-FP8",
        "glm-4.6:cloud",
        "glm-4.6",
        "zai-glm-4.6",
        "accounts/fireworks/models/glm-4p6",
    ),
    "glm47": (
        "z-ai/glm-4.7",
        "z-ai/glm-5",
        "zai-org/GLM-4.7-FP8",
        "glm-4.7:cloud",
        "glm-5.1",
        "glm-4-7-251222",
        "inclusionAI/Ling-3.0-flash",
    ),
    "hy_v3": ("tencent/hy3-preview", "tencent/Hunyuan-3-Instruct", "hunyuan-3"),
    "hunyuan_a13b": (
        "tencent/hunyuan-a13b-instruct",
        "tencent/Hunyuan-A13B-Instruct-FP8",
        "hunyuan-a13b",
    ),
    "poolside_v1": ("poolside/laguna-m.1", "poolside/Laguna-XS.2", "laguna", "poolside/malibu"),
    "minimax_m1": ("minimax/minimax-m1", "MiniMaxAI/MiniMax-M1-80k", "MiniMax-M1"),
    "minimax_m2": (
        "minimax/minimax-m2.5",
        "MiniMaxAI/MiniMax-M2",
        "minimax-m2:cloud",
        "MiniMax-M2.1",
        "accounts/fireworks/models/minimax-m2p1",
    ),
    "minimax_m3": ("minimax/minimax-m3", "MiniMaxAI/MiniMax-M3", "minimax-m3:cloud"),
    "mistral": (
        "mistralai/devstral-small",
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        "mistralai/mixtral-8x7b-instruct",
        "devstral:24b",
        "magistral",
        "ministral-3:8b",
        "mistral-large-latest",
        "codestral-latest",
        "mistral.mistral-large-2402-v1:0",
    ),
    "llama3_json": (
        "meta-llama/llama-3.3-70b-instruct:free",
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8",
        "llama3.1",
        "llama3.2:3b",
        "llama-3.3-70b-versatile",
        "us.meta.llama3-1-70b-instruct-v1:0",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "nemotron:70b",
    ),
    "pythonic": (
        "meta-llama/llama-4-scout",
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8",
        "llama4:scout",
        "Team-ACE/ToolACE-2-Llama-3.1-8B",
    ),
    "olmo3": ("allenai/olmo-3-32b-think", "allenai/Olmo-3-7B-Instruct", "olmo-3:7b"),
    "lfm2": ("liquid/lfm2-8b-a1b", "LiquidAI/LFM2.5-1.2B-Instruct", "lfm2:2.6b", "liquid/lfm-7b"),
    "gpt_oss": (
        "openai/gpt-oss-20b",
        "openai/gpt-oss-120b:free",
        "gpt-oss:20b",
        "gpt-oss:120b-cloud",
        "hf.co/unsloth/gpt-oss-20b-GGUF:Q8_0",
        "openai.gpt-oss-120b-1:0",
    ),
    "granite": (
        "ibm-granite/granite-3.3-8b-instruct",
        "granite3.3:8b",
        "granite3.1-moe:3b",
        "ibm/granite-3-8b-instruct",
    ),
    "granite_20b_fc": (
        "ibm-granite/granite-20b-functioncalling",
        "granite-20b-functioncalling",
        "hf.co/ibm-granite/granite-20b-functioncalling-GGUF",
    ),
    "internlm2": (
        "internlm/internlm2_5-7b-chat",
        "internlm/Intern-S1",
        "internlm3-8b-instruct",
        "internlm2:7b",
    ),
    "jamba": ("ai21/jamba-large-1.7", "ai21labs/AI21-Jamba-Mini-1.6", "ai21.jamba-1-5-large-v1:0"),
    "phi4_mini": (
        "microsoft/phi-4-mini-instruct",
        "microsoft/Phi-4-mini-instruct",
        "phi4-mini",
        "phi4-mini:3.8b",
    ),
    "ernie45": (
        "baidu/ernie-4.5-21b-a3b-thinking",
        "baidu/ERNIE-4.5-21B-A3B-Thinking",
        "ernie-x1-turbo",
    ),
    "step3": ("stepfun-ai/step3", "stepfun/step-3", "step3-fp8"),
    "xlam": (
        "Salesforce/xLAM-2-32b-fc-r",
        "Salesforce/Llama-xLAM-2-8b-fc-r",
        "xlam:8b",
    ),
    "functiongemma": (
        "google/functiongemma-270m-it",
        "functiongemma",
        "hf.co/unsloth/functiongemma-270m-it-GGUF:Q8_0",
    ),
    "gemma4": ("google/gemma-4-31b-it", "google/gemma-4-26B-A4B-it", "gemma4:e4b"),
    "longcat": (
        "meituan/longcat-flash-chat",
        "meituan-longcat/LongCat-Flash-Thinking",
        "LongCat-Flash-Lite",
    ),
    "nemotron_deci": (
        "nvidia/llama-3.3-nemotron-super-49b-v1.5",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5",
        "nvidia/llama-3.1-nemotron-ultra-253b-v1",
        "nvidia/Llama-3.1-Nemotron-Nano-8B-v1",
        "nvidia/nemotron-nano-9b-v2:free",
        "nvidia/NVIDIA-Nemotron-Nano-12B-v2",
    ),
    "cohere_command": (
        "cohere/command-a",
        "CohereLabs/c4ai-command-a-03-2025",
        "command-r7b:7b",
        "command-a:111b",
        "command-r-plus",
        "command-a-reasoning-08-2025",
    ),
    "apertus": ("swiss-ai/apertus-70b", "swiss-ai/Apertus-8B-Instruct-2509", "apertus:8b"),
    "gigachat3": ("ai-sage/GigaChat3-10B-A1.8B", "ai-sage/GigaChat-3.1", "gigachat3:10b"),
    "minicpm5": ("openbmb/MiniCPM5-8B", "minicpm5:8b", "openbmb/minicpm-5"),
    "dots": (
        "rednote-hilab/dots.llm1.inst",
        "rednote-hilab/dots.llm2",
        "dots-llm1",
        "rednote-hilab/other-name",
    ),
    "inkling": ("inkling", "acme/Inkling-1", "inkling:7b"),
    "muse_glimmer": ("muse-glimmer", "meta/Muse-Glimmer-1", "muse_glimmer:cloud"),
    "sarashina": (
        "sbintuitions/sarashina2.2-3b-instruct-v0.1",
        "sarashina2.2:3b",
        "Sarashina-2",
    ),
    "solar_open": ("upstage/solar-open-100b", "upstage/Solar-Open-100B", "solar-open:100b"),
    "apriel": (
        "servicenow-ai/apriel-1.6-15b-thinker:free",
        "ServiceNow-AI/Apriel-1.5-15b-Thinker",
        "apriel:15b",
    ),
    "functionary": (
        "meetkai/functionary-medium-v3.1",
        "meetkai/functionary-small-v3.2-GGUF",
        "functionary:v3.2",
    ),
    "firefunction": (
        "fireworks-ai/llama-3-firefunction-v2",
        "accounts/fireworks/models/firefunction-v2",
        "firefunction-v2:70b",
    ),
}


@in_one_test
@pytest.mark.parametrize("family", FORMATS)
def test_each_family_is_known_by_several_spellings(family: str) -> None:
    assert len(SPELLINGS[family]) >= 3


@in_one_test
@pytest.mark.parametrize(
    ("model", "family"), [(model, family) for family in SPELLINGS for model in SPELLINGS[family]]
)
def test_family_by_catalogue_spellings(model: str, family: str) -> None:
    assert family == detect(model)
    assert family == detect(model.upper())


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("moonshot/kimi-k2", "kimi_k2"),
        ("kimi-k2-instruct", "kimi_k2"),
        ("KIMI-K2", "kimi_k2"),
        ("qwen/qwen3-coder", "qwen3_coder"),
        ("qwen3-coder-plus", "qwen3_coder"),
        ("qwen-deepseek-mix", "hermes"),
        ("deepseek/deepseek-chat", "deepseek_v32"),
        ("deepseek-r1", "deepseek_v3"),
        ("DeepSeek-V3", "deepseek_v3"),
        ("claude-3-opus", "standard"),
        ("gpt-4", "standard"),
        ("unknown/model", "standard"),
    ],
)
def test_p_1_family_of_the_twelve_examples(model: str, family: str) -> None:
    assert family == detect(model)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("acme/mix-deepseek-qwen-kimi-k2", "kimi_k2"),
        ("acme/mix-deepseek-qwen3-coder", "qwen3_coder"),
        ("acme/mix-glm-4.7-deepseek-v3.1", "deepseek_v31"),
        ("acme/mix-mistral-glm-4.7", "mistral"),
    ],
)
def test_of_names_inside_a_name_kimi_wins_then_qwen_then_deepseek_then_the_rest(
    model: str, family: str
) -> None:
    assert family == detect(model)


@pytest.mark.parametrize(
    "model",
    [
        "k2-think",
        "my-k2-model",
        "LLM360/K2-V2-Instruct",
        "acme/assistant-1",
        "distil-qwen-7b",
        "acme/small-distilled-qwen3",
        "alibaba-pai/DistilQwen2.5-7B-Instruct",
        "google/gemma-3-27b-it",
        "microsoft/phi-4",
        "command-assistant",
        "upstage/solar-pro",
        "codellama:7b",
        "",
    ],
)
def test_a_bare_substring_is_no_family(model: str) -> None:
    assert known_family(model) is None
    assert detect(model) == STANDARD


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "openai/gpt-5.1-codex",
        "claude-sonnet-4-5",
        "anthropic/claude-opus-4.5:beta",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "google/gemini-2.5-pro",
        "x-ai/grok-4",
        "o3",
        "o4-mini",
    ],
)
def test_models_of_vendors_who_give_structured_calls_are_left_alone(model: str) -> None:
    assert known_family(model) == STANDARD
    assert choose_format(model) is None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b-instruct"),
        ("kimi-k2:1t-cloud", "kimi-k2"),
        ("qwen/qwen3-32b:nitro", "qwen3-32b"),
        ("z-ai/glm-4.6@preset", "glm-4.6"),
        ("glm-4.7-fp8-cloud", "glm-4.7"),
        ("hf.co/unsloth/Kimi-K2-Instruct-GGUF:Q4_K_M", "kimi-k2-instruct"),
        ("eu.meta.llama3-2-3b-instruct-v1:0", "llama3-2-3b-instruct-v1"),
        ("deepseek-v3p2", "deepseek-v3.2"),
    ],
)
def test_what_hosts_put_around_a_name_is_stripped(model: str, name: str) -> None:
    assert name == bare_name(model)


def test_what_is_set_wins_over_the_model_and_what_is_unknown_shows_in_the_stream() -> None:
    assert FORMATS["glm45"] is choose_format("moonshotai/kimi-k2", "glm45")
    assert FORMATS["hermes"] is choose_format("moonshotai/kimi-k2", "granite4")
    assert choose_format("moonshotai/kimi-k2", "none") is None
    assert FORMATS["kimi_k2"] is choose_format("moonshotai/kimi-k2")
    assert AUTO is choose_format("acme/assistant-1")
    assert AUTO is choose_format("")
