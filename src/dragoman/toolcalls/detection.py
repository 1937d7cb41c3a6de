"""Finds the family of native tool calls that a model writes, by the model's id.

The provider and the suffixes that hosts append are removed from the id.  Then, in this order: an exact name in
`_CATALOGUE`; the first row of `_ROWS` that matches the beginning; a known name inside; the maker.  A compound name
(`deepseek-r1-distill-qwen-32b`) follows its beginning, which names the last training.
"""

import re
from functools import lru_cache
from typing import Final

STANDARD: Final = "standard"  # the vendor's servers return structured calls

_HOST_SUFFIX: Final = re.compile(
    r"(?:[:@].*|-(?:fp8|fp4|nvfp4|mxfp4|bf16|int4|int8|awq|gptq|gguf|mlx|maas|cloud|[248]bit))\Z"
)
# `us.meta.llama3-…`: some hosts prefix region and maker, with dots.
_DOTTED_MAKER: Final = re.compile(
    r"\A(?:(?:us|eu|apac|global)\.)?"
    r"(?:ai21|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot(?:ai)?|nvidia|openai|qwen|zai)"
    r"\.(?![vr][0-9])"
)
_POINT: Final = re.compile(r"(?<=[0-9])p(?=[0-9])")  # some hosts write `k2p5` for `k2.5`
# The rest of the name is the base model, which does not determine the format.
_DISTILLED: Final = re.compile(r"distil(?:l|led)?(?![a-z])")

# Models that the rows below would match wrongly or not at all.
_CATALOGUE: Final = {
    "deepseek-chat": "deepseek_v32",  # the vendor's alias for its newest model
    "deepseek-reasoner": "deepseek_v32",
    "nemotron": "llama3_json",  # Llama 3.1 Nemotron 70B, under its short name
    "athene-v2": "hermes",
}

# Beginnings of model names, most specific first within a family.
_ROWS: Final[tuple[tuple[str, str], ...]] = (
    (r"kimi[-_.]?k3", "kimi_k3"),
    (r"kimi[-_.]?k2", "kimi_k2"),
    (r"kimi", "kimi_k2"),
    (r"qwen[-_.]?3[-_.]?coder", "qwen3_coder"),
    (r"qwen-?3\.[5-9]|qwen-?[4-9](?![0-9]*b)", "qwen3_coder"),
    (r"qwen|qwq|qvq|codeqwen", "hermes"),
    (r"deepseek[-_.]?v4", "deepseek_v4"),
    (r"deepseek[-_.]?(?:chat-)?v3[-_.]2[-_.]?exp", "deepseek_v31"),
    (r"deepseek[-_.]?(?:chat-)?v3[-_.]2(?![0-9])", "deepseek_v32"),
    (r"deepseek[-_.]?(?:chat-)?v3[-_.]1(?![0-9])|deepseek.{0,64}terminus", "deepseek_v31"),
    (r"deepseek", "deepseek_v3"),
    (r"(?:glm|chatglm)[-_.]?(?:4\.[7-9]|4-[7-9](?!b)|[5-9](?!b))", "glm47"),
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
        r"(?:nvidia[-_.])?(?:llama[-_.]?3(?:[._]\d)?[-_.]nemotron|nemotron[-_.]?(?:super|ultra))",
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
    (r"llama[-_.]?3[-_.]groq", "hermes"),
    (r"(?:llama[-_.]?3[-_.])?firefunction", "firefunction"),
    (r"(?:meta[-_.])?llama[-_.]?v?3", "llama3_json"),
    (r"toolace", "pythonic"),
    (r"olmo[-_.]?3", "olmo3"),
    (r"lfm[-_.]?2", "lfm2"),
    (r"gpt[-_.]?oss", "gpt_oss"),
    (r"intern(?:lm|[-_.]?s1)", "internlm2"),
    (r"(?:ai21[-_.])?jamba", "jamba"),
    (r"phi[-_.]?4[-_.]?mini", "phi4_mini"),
    (r"ernie", "ernie45"),
    (r"(?:llama-)?xlam", "xlam"),
    (r"functiongemma", "functiongemma"),
    (r"gemma[-_.]?4", "gemma4"),
    (r"longcat", "longcat"),
    (r"(?:c4ai[-_.])?command[-_.]?[ar34](?![a-z])", "cohere_command"),
    (r"apertus", "apertus"),
    (r"gigachat[-_.]?3", "gigachat3"),
    (r"minicpm[-_.]?5", "minicpm5"),
    (r"dots[-_.]|rednote", "dots"),
    (r"inkling", "inkling"),
    (r"muse.{0,64}glimmer", "muse_glimmer"),
    (r"sarashina", "sarashina"),
    (r"solar[-_.]?open", "solar_open"),
    (r"apriel", "apriel"),
    (r"functionary", "functionary"),
    (r"claude|gpt|chatgpt|o[134](?:-|\Z)|codex|gemini|grok|nova-", STANDARD),
)
_TABLE: Final = tuple((re.compile(pattern), family) for pattern, family in _ROWS)
# Names that also count inside a name, by priority.
_INSIDE: Final = tuple(
    re.compile(rf"(?<![a-z]){name}")
    for name in (
        "kimi",
        "(?:qwen|qwq)",
        "deepseek",
        "hermes",
        "xlam",
        "(?:mistral|devstral)",
        "glm",
        "minimax",
        "gpt[-_.]?oss",
    )
)
# Makers whose models all write one format.
_MAKERS: Final = {
    "bytedance-seed": "seed_oss",
    "liquid": "lfm2",
    "liquidai": "lfm2",
    "poolside": "poolside_v1",
    "rednote-hilab": "dots",
    "swiss-ai": "apertus",
}


@lru_cache(maxsize=256)
def bare_name(model: str) -> str:
    """Return a model's name in lower case, without provider and host suffixes."""
    name = model.strip().lower().rstrip("/").rpartition("/")[2]
    name = name.rpartition("~")[2]
    name = _POINT.sub(".", _DOTTED_MAKER.sub("", name, count=1))
    while True:
        stripped = _HOST_SUFFIX.sub("", name)
        if stripped in (name, ""):
            return name
        name = stripped


@lru_cache(maxsize=256)
def known_family(model: str) -> str | None:
    """Return the key of a model's family, `standard` for structured calls, or None if unknown."""
    name = bare_name(model)
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    name = _DISTILLED.split(name, maxsplit=1)[0]
    family = _by_beginning(name)
    if family is not None:
        return family
    for inside in _INSIDE:
        found = inside.search(name)
        if found is not None:
            return _by_beginning(name[found.start() :])
    return _MAKERS.get(model.strip().lower().rpartition("/")[0].rpartition("/")[2])


def _by_beginning(name: str) -> str | None:
    return next((family for pattern, family in _TABLE if pattern.match(name)), None)


def detect(model: str) -> str:
    """Return the key of a model's family; `standard` if it has none or is unknown."""
    return known_family(model) or STANDARD
