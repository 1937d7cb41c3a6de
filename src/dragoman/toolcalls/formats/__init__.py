"""The registry: families of native tool calls by key, and `AUTO`, which recognizes them by their markers.

Names and aliases are in `format_names.py`.

One file per lineage, one section and one `Format` constant per family: `kimi_k2` is `kimi.KIMI_K2`.
"""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    FIRST,
    Action,
    Format,
    Pattern,
    Rule,
    Run,
    one_of,
)
from dragoman.toolcalls.formats import (
    cohere,
    deepseek,
    gemma,
    glm,
    gpt_oss,
    granite,
    hermes,
    hunyuan,
    invokes,
    json_families,
    kimi,
    llama,
    messages,
    minimax,
    mistral,
    pythonic,
    qwen,
    step,
)

# In the order of the table in docs/native-formats.md.
_ALL: Final = (
    kimi.KIMI_K2,
    kimi.KIMI_K3,
    hermes.HERMES,
    qwen.QWEN3_CODER,
    qwen.SEED_OSS,
    deepseek.DEEPSEEK_V3,
    deepseek.DEEPSEEK_V31,
    deepseek.DEEPSEEK_V32,
    deepseek.DEEPSEEK_V4,
    glm.GLM45,
    glm.GLM47,
    hunyuan.HY_V3,
    hunyuan.HUNYUAN_A13B,
    glm.POOLSIDE_V1,
    minimax.MINIMAX_M1,
    minimax.MINIMAX_M2,
    minimax.MINIMAX_M3,
    mistral.MISTRAL,
    llama.LLAMA3_JSON,
    pythonic.PYTHONIC,
    pythonic.OLMO3,
    pythonic.LFM2,
    gpt_oss.GPT_OSS,
    granite.GRANITE,
    granite.GRANITE_20B_FC,
    json_families.INTERNLM2,
    json_families.JAMBA,
    json_families.PHI4_MINI,
    json_families.ERNIE45,
    step.STEP3,
    json_families.XLAM,
    gemma.FUNCTIONGEMMA,
    gemma.GEMMA4,
    json_families.LONGCAT,
    llama.NEMOTRON_DECI,
    cohere.COHERE_COMMAND,
    json_families.APERTUS,
    json_families.GIGACHAT3,
    invokes.MINICPM5,
    invokes.DOTS,
    messages.INKLING,
    messages.MUSE_GLIMMER,
    json_families.SARASHINA,
    messages.SOLAR_OPEN,
    json_families.APRIEL,
    llama.FUNCTIONARY,
    llama.FIREFUNCTION,
)

FORMATS: Final[dict[str, Format]] = {one.key: one for one in _ALL}

# Markers that identify a family, for models whose family is unknown.  Several families may share a marker:
# they are tried in this order, and the text after the marker decides.
_BAR: Final = Run("[｜|]", 1, 2)
_LOW: Final = Run("[▁_]", 1, 1)
_SIGNS: Final[tuple[tuple[Pattern, tuple[Format, ...]], ...]] = (
    (
        (
            "<|tool_call",
            one_of("s_section_begin|>", "_section_begin|>", "_begin|>", "s_begin|>"),
        ),
        (kimi.KIMI_K2, step.STEP3, deepseek.DEEPSEEK_V3),
    ),
    (("<｜tool", _LOW, "call"), (step.STEP3, deepseek.DEEPSEEK_V3)),
    (("<", _BAR, "DSML", _BAR), (deepseek.DEEPSEEK_V32,)),
    (("<tool_call>",), (hermes.HERMES, glm.GLM47, hunyuan.HY_V3)),
    (("<tool_calls",), (json_families.JAMBA, hunyuan.HY_V3)),
    (("<function=",), (hermes.HERMES, llama.FUNCTIONARY)),
    (("<function name=",), (invokes.MINICPM5, hermes.HERMES)),
    (("<function_calls>",), (pythonic.OLMO3,)),
    (("<function_call>",), (granite.GRANITE_20B_FC,)),
    (("<minimax:tool_call>",), (minimax.MINIMAX_M2,)),
    (("<invoke name=",), (minimax.MINIMAX_M2,)),
    (("]<]minimax[>[",), (minimax.MINIMAX_M3,)),
    (("[TOOL_CALLS]",), (mistral.MISTRAL,)),
    ((one_of("<|channel|>", "<|start|>assistant"),), (gpt_oss.GPT_OSS, messages.MUSE_GLIMMER)),
    (("<|START_",), (cohere.COHERE_COMMAND,)),
    ((one_of("<|tool_call>call:", "<|channel>thought"),), (gemma.GEMMA4,)),
    (("<start_function_call>call:",), (gemma.FUNCTIONGEMMA,)),
    (("<|open|>",), (kimi.KIMI_K3,)),
    (("<seed:tool_call>",), (qwen.SEED_OSS,)),
    (("<TOOLCALL>",), (llama.NEMOTRON_DECI,)),
    (("<longcat_tool_call>",), (json_families.LONGCAT,)),
    (("<|tools_prefix|>",), (json_families.APERTUS,)),
    (("<|action_start|>",), (json_families.INTERNLM2,)),
    (("<|tool_call_start|>",), (pythonic.LFM2,)),
    (("<|tool_call|>",), (granite.GRANITE,)),
    (("<|function_call|>",), (json_families.GIGACHAT3,)),
    ((one_of("<|message_model|>", "<|content_invoke_tool_json|>"),), (messages.INKLING,)),
    (("<|tool_call:begin|>",), (messages.SOLAR_OPEN,)),
    (("<|tool_calls|>",), (messages.SOLAR_OPEN, json_families.SARASHINA)),
    (("<dots_function_call>",), (invokes.DOTS,)),
)

# Markers that begin like a word count only at the start of an answer: elsewhere words would be held back.
_FIRST_SIGNS: Final[tuple[tuple[Pattern, tuple[Format, ...]], ...]] = (
    (
        (
            "to=",
            one_of(
                ("self<|message|>",),
                ("user<|message|>",),
                (Run(r"[^<\s]", 1, 128), "<|message|>", BLANKS, "<atem:"),
            ),
        ),
        (messages.MUSE_GLIMMER,),
    ),
    (
        (
            "to=functions.",
            Run(r"[^<\s]", 1, 128),
            one_of("<|channel|>", "<|constrain|>", "<|message|>"),
        ),
        (gpt_oss.GPT_OSS,),
    ),
)

AUTO: Final = Format(
    key="auto",
    description="any family with unmistakable markers",
    models=(),
    rules=tuple(
        Rule(
            pattern=(AHEAD, *pattern),
            action=Action.TRY_FAMILIES,
            at=places,
            families=families,
        )
        for signs, places in ((_SIGNS, ANYWHERE), (_FIRST_SIGNS, FIRST))
        for pattern, families in signs
    ),
    think=(
        ("<think>", "</think>"),
        *kimi.KIMI_K2.think[1:],
        *(
            pair
            for one in (
                mistral.MISTRAL,
                qwen.SEED_OSS,
                minimax.MINIMAX_M3,
                json_families.LONGCAT,
                json_families.APERTUS,
                cohere.COHERE_COMMAND,
                kimi.KIMI_K3,
            )
            for pair in one.think[:1]
        ),
    ),
)
