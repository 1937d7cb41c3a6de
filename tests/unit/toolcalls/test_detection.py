import pytest

from dragoman.toolcalls.detection import detect, known_family


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
def test_p1_family_of_the_twelve_examples(model: str, family: str) -> None:
    assert family == detect(model)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("moonshotai/Kimi-K2.5", "kimi_k2"),
        ("kimi-k2:1t-cloud", "kimi_k2"),
        ("moonshotai/kimi-k2-thinking:nitro", "kimi_k2"),
        ("moonshotai/kimi-k3", "kimi_k3"),
        ("Qwen/Qwen3-235B-A22B", "hermes"),
        ("qwen/qwen3.5-plus", "qwen3_coder"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "hermes"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v31"),
        ("deepseek/deepseek-v3.2", "deepseek_v32"),
        ("deepseek-v3.1:671b-cloud", "deepseek_v31"),
        ("deepseek/deepseek-chat-v3-0324", "deepseek_v3"),
        ("deepseek/deepseek-chat-v3.1", "deepseek_v31"),
        ("deepseek-r1-distill-qwen-32b", "deepseek_v3"),
        ("z-ai/glm-4.6", "glm45"),
        ("zai-org/GLM-4.7-FP8", "glm47"),
        ("z-ai/glm-5", "glm47"),
        ("minimax/minimax-m2.5", "minimax_m2"),
        ("MiniMaxAI/MiniMax-M3", "minimax_m3"),
        ("mistralai/devstral-small", "mistral"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3_json"),
        ("nousresearch/hermes-3-llama-3.1-405b", "hermes"),
        ("nvidia/llama-3.3-nemotron-super-49b-v1", "nemotron_deci"),
        ("nvidia/nemotron-3-nano-30b", "qwen3_coder"),
        ("openai/gpt-oss-120b", "gpt_oss"),
        ("ibm-granite/granite-4.0-h-small", "hermes"),
        ("granite3.3:8b", "granite"),
        ("meta-llama/llama-4-scout", "pythonic"),
        ("stepfun/step-3.5-flash", "qwen3_coder"),
        ("stepfun-ai/step3", "step3"),
        ("someone/my-qwen3-coder-merge", "qwen3_coder"),
    ],
)
def test_family_by_catalogue_spellings(model: str, family: str) -> None:
    assert family == detect(model)


def test_a_bare_substring_is_no_family() -> None:
    assert detect("k2-think") == "standard"
    assert known_family("acme/assistant-1") is None
