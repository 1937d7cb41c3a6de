"""Which family of native tool calls a model writes, by its id.

An id is stripped of its provider and of what hosts append; then the first row that fits decides.  A name
made of several (`deepseek-r1-distill-qwen-32b`) follows the one it begins with, for that is who trained
it last; only then do names inside count.
"""

import re
from functools import lru_cache
from typing import Final

STANDARD: Final = "standard"  # the vendor's own servers give structured calls

_HOST_SUFFIX: Final = re.compile(
    r"(?:[:@].*|-(?:fp8|fp4|nvfp4|bf16|int4|int8|awq|gptq|gguf|mlx|cloud|[248]bit))\Z"
)

# Beginnings of model names, most specific first within a family.
_ROWS: Final[tuple[tuple[str, str], ...]] = (
    (r"kimi[-_.]?k3", "kimi_k3"),
    (r"kimi[-_.]?k2", "kimi_k2"),
    (r"kimi", "kimi_k2"),
    (r"qwen3[-_.]?coder", "qwen3_coder"),
    (r"qwen-?3\.[5-9]|qwen-?[4-9]", "qwen3_coder"),
    (r"qwen|qwq|qvq|codeqwen", "hermes"),
    (r"deepseek[-_.]?v4", "deepseek_v4"),
    (r"deepseek[-_.]?(?:chat-)?v3\.2[-_.]?exp", "deepseek_v31"),
    (r"deepseek[-_.]?(?:chat-)?v3\.2", "deepseek_v32"),
    (r"deepseek[-_.]?(?:chat-)?v3\.1|deepseek.*terminus", "deepseek_v31"),
    (r"deepseek[-_.]?(?:chat-)?v3|deepseek[-_.]?r1", "deepseek_v3"),
    (r"deepseek[-_.]?(?:chat|reasoner)\Z", "deepseek_v32"),  # the vendor's own: the newest
    (r"deepseek", "deepseek_v3"),
    (r"(?:glm|chatglm)[-_.]?(?:4\.[7-9]|[5-9])", "glm47"),
    (r"ling[-_.]?3", "glm47"),
    (r"(?:glm|chatglm)", "glm45"),
    (r"hunyuan[-_.]?a13b", "hunyuan_a13b"),
    (r"hy[-_.]?3|hunyuan[-_.]?3|hy[-_.]?v3", "hy_v3"),
    (r"laguna", "poolside_v1"),
    (r"minimax[-_.]?m3", "minimax_m3"),
    (r"minimax[-_.]?m2", "minimax_m2"),
    (r"minimax[-_.]?m1", "minimax_m1"),
    (r"minimax", "minimax_m2"),
    (r"seed[-_.]?oss", "seed_oss"),
    (r"(?:nvidia[-_.])?nemotron[-_.]?3|(?:nvidia[-_.])?nemotron[-_.]?nano[-_.]?3", "qwen3_coder"),
    (
        r"(?:nvidia[-_.])?(?:llama[-_.]?3(?:[._]\d)?[-_.])?nemotron[-_.]?(?:super|ultra)",
        "nemotron_deci",
    ),
    (r"(?:nvidia[-_.])?nemotron[-_.]?nano[-_.](?:9b|12b)[-_.]v2", "nemotron_deci"),
    (r"mimo", "qwen3_coder"),
    (r"step[-_.]?3[-_.p]?5", "qwen3_coder"),
    (r"step[-_.]?3", "step3"),
    (r"(?:open)?hermes|nous[-_.]?hermes|deephermes", "hermes"),
    (r"trinity|smollm3|reka", "hermes"),
    (r"granite[-_.]?20b[-_.]?function", "granite_20b_fc"),
    (r"granite[-_.]?4", "hermes"),
    (r"granite", "granite"),
    (
        r"mistral|mixtral|ministral|codestral|devstral|magistral|pixtral|voxtral|open-mi[sx]tral",
        "mistral",
    ),
    (r"(?:meta[-_.])?llama[-_.]?4", "pythonic"),
    (r"(?:meta[-_.])?llama[-_.]?3", "llama3_json"),
    (r"toolace", "pythonic"),
    (r"olmo[-_.]?3", "olmo3"),
    (r"lfm[-_.]?2", "lfm2"),
    (r"gpt[-_.]?oss", "gpt_oss"),
    (r"intern(?:lm|-s1)", "internlm2"),
    (r"(?:ai21[-_.])?jamba", "jamba"),
    (r"phi[-_.]?4[-_.]?mini", "phi4_mini"),
    (r"ernie", "ernie45"),
    (r"(?:llama-)?xlam", "xlam"),
    (r"functiongemma", "functiongemma"),
    (r"gemma[-_.]?4", "gemma4"),
    (r"longcat", "longcat"),
    (r"(?:c4ai-)?command[-_.]?(?:a|r7b|[34])", "cohere_command"),
    (r"apertus", "apertus"),
    (r"gigachat[-_.]?3", "gigachat3"),
    (r"minicpm[-_.]?5", "minicpm5"),
    (r"dots[-_.]", "dots"),
    (r"inkling", "inkling"),
    (r"muse.*glimmer", "muse_glimmer"),
    (r"sarashina", "sarashina"),
    (r"solar[-_.]?open", "solar_open"),
    (r"apriel", "apriel"),
    (r"functionary", "functionary"),
    (r"firefunction", "firefunction"),
    (r"claude|gpt|chatgpt|o[134](?:-|\Z)|codex|gemini|grok|nova-", STANDARD),
)
_TABLE: Final = tuple((re.compile(pattern), family) for pattern, family in _ROWS)
# Names inside a name, in the order in which they win.
_INSIDE: Final = (
    (re.compile(r"(?<![a-z])kimi[-_.]?k3"), "kimi_k3"),
    (re.compile(r"(?<![a-z])kimi"), "kimi_k2"),
    (re.compile(r"(?<![a-z])qwen3[-_.]?coder"), "qwen3_coder"),
    (re.compile(r"(?<![a-z])(?:qwen|qwq)"), "hermes"),
    (re.compile(r"(?<![a-z])deepseek"), "deepseek_v3"),
    (re.compile(r"(?<![a-z])hermes"), "hermes"),
    (re.compile(r"(?<![a-z])xlam"), "xlam"),
    (re.compile(r"(?<![a-z])(?:mistral|devstral)"), "mistral"),
    (re.compile(r"(?<![a-z])glm[-_.]?(?:4\.[7-9]|[5-9])"), "glm47"),
    (re.compile(r"(?<![a-z])glm[-_.]?4"), "glm45"),
    (re.compile(r"(?<![a-z])minimax[-_.]?m2"), "minimax_m2"),
    (re.compile(r"(?<![a-z])gpt[-_.]?oss"), "gpt_oss"),
)


def bare_name(model: str) -> str:
    """Return a model's name in lower case, without provider and without what hosts append."""
    name = model.strip().lower().rstrip("/").rpartition("/")[2]
    name = name.rpartition("~")[2]
    while True:
        stripped = _HOST_SUFFIX.sub("", name)
        if stripped in (name, ""):
            return name
        name = stripped


@lru_cache(maxsize=256)
def known_family(model: str) -> str | None:
    """Return the key of a model's family, `standard` for structured calls, or None if it says nothing."""
    name = bare_name(model)
    for pattern, family in _TABLE:
        if pattern.match(name):
            return family
    for pattern, family in _INSIDE:
        if pattern.search(name):
            return family
    return None


def detect(model: str) -> str:
    """Return the key of a model's family; `standard` if it has none or none is known."""
    return known_family(model) or STANDARD
