"""The families of native tool calls, by key."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from types import ModuleType
from typing import Final

from dragoman.errors import ConfigError
from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    Do,
    Format,
    Pattern,
    Rule,
    Run,
    Where,
    one_of,
)
from dragoman.toolcalls.formats import (
    apertus,
    apriel,
    cohere_command,
    deepseek_v3,
    deepseek_v4,
    deepseek_v31,
    deepseek_v32,
    dots,
    ernie45,
    firefunction,
    functionary,
    functiongemma,
    gemma4,
    gigachat3,
    glm45,
    glm47,
    gpt_oss,
    granite,
    granite_20b_fc,
    hermes,
    hunyuan_a13b,
    hy_v3,
    inkling,
    internlm2,
    jamba,
    kimi_k2,
    kimi_k3,
    lfm2,
    llama3_json,
    longcat,
    minicpm5,
    minimax_m1,
    minimax_m2,
    minimax_m3,
    mistral,
    muse_glimmer,
    nemotron_deci,
    olmo3,
    phi4_mini,
    poolside_v1,
    pythonic,
    qwen3_coder,
    sarashina,
    seed_oss,
    solar_open,
    step3,
    xlam,
)

# In the order of the families' table.
_ALL: Final = (
    kimi_k2.FORMAT,
    kimi_k3.FORMAT,
    hermes.FORMAT,
    qwen3_coder.FORMAT,
    seed_oss.FORMAT,
    deepseek_v3.FORMAT,
    deepseek_v31.FORMAT,
    deepseek_v32.FORMAT,
    deepseek_v4.FORMAT,
    glm45.FORMAT,
    glm47.FORMAT,
    hy_v3.FORMAT,
    hunyuan_a13b.FORMAT,
    poolside_v1.FORMAT,
    minimax_m1.FORMAT,
    minimax_m2.FORMAT,
    minimax_m3.FORMAT,
    mistral.FORMAT,
    llama3_json.FORMAT,
    pythonic.FORMAT,
    olmo3.FORMAT,
    lfm2.FORMAT,
    gpt_oss.FORMAT,
    granite.FORMAT,
    granite_20b_fc.FORMAT,
    internlm2.FORMAT,
    jamba.FORMAT,
    phi4_mini.FORMAT,
    ernie45.FORMAT,
    step3.FORMAT,
    xlam.FORMAT,
    functiongemma.FORMAT,
    gemma4.FORMAT,
    longcat.FORMAT,
    nemotron_deci.FORMAT,
    cohere_command.FORMAT,
    apertus.FORMAT,
    gigachat3.FORMAT,
    minicpm5.FORMAT,
    dots.FORMAT,
    inkling.FORMAT,
    muse_glimmer.FORMAT,
    sarashina.FORMAT,
    solar_open.FORMAT,
    apriel.FORMAT,
    functionary.FORMAT,
    firefunction.FORMAT,
)

FORMATS: Final[dict[str, Format]] = {one.key: one for one in _ALL}

# Names under which engines know models that write like another family.
ALIASES: Final = {
    "qwen25": "hermes",
    "granite4": "hermes",
    "qwen3_xml": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "mimo": "qwen3_coder",
    "nemotron_v3": "qwen3_coder",
    "nemotron_nano": "qwen3_coder",
    "llama4_pythonic": "pythonic",
}

# What shows beyond doubt which family writes, for models of which nothing is known.  Where several share
# a marker, what follows it decides: they are tried in this order.
_BAR: Final = Run("[｜|]", 1, 2)
_LOW: Final = Run("[▁_]", 1, 1)
_SIGNS: Final[tuple[tuple[Pattern, tuple[ModuleType, ...]], ...]] = (
    (
        (
            "<|tool_call",
            one_of("s_section_begin|>", "_section_begin|>", "_begin|>", "s_begin|>"),
        ),
        (kimi_k2, step3, deepseek_v3),
    ),
    (("<｜tool", _LOW, "call"), (step3, deepseek_v3)),
    (("<", _BAR, "DSML", _BAR), (deepseek_v32,)),
    (("<tool_call>",), (hermes, glm47, hy_v3)),
    (("<tool_calls",), (jamba, hy_v3)),
    (("<function=",), (hermes, functionary)),
    (("<function name=",), (minicpm5, hermes)),
    (("<function_calls>",), (olmo3,)),
    (("<function_call>",), (granite_20b_fc,)),
    (("<minimax:tool_call>",), (minimax_m2,)),
    (("<invoke name=",), (minimax_m2,)),
    (("]<]minimax[>[",), (minimax_m3,)),
    (("[TOOL_CALLS]",), (mistral,)),
    ((one_of("<|channel|>", "<|start|>assistant"),), (gpt_oss, muse_glimmer)),
    (("<|START_",), (cohere_command,)),
    (("<|tool_call>call:",), (gemma4,)),
    (("<start_function_call>call:",), (functiongemma,)),
    (("<|open|>",), (kimi_k3,)),
    (("<seed:tool_call>",), (seed_oss,)),
    (("<TOOLCALL>",), (nemotron_deci,)),
    (("<longcat_tool_call>",), (longcat,)),
    (("<|tools_prefix|>",), (apertus,)),
    (("<|action_start|>",), (internlm2,)),
    (("<|tool_call_start|>",), (lfm2,)),
    (("<|tool_call|>",), (granite,)),
    (("<|function_call|>",), (gigachat3,)),
    ((one_of("<|message_model|>", "<|content_invoke_tool_json|>"),), (inkling,)),
    (("<|tool_call:begin|>",), (solar_open,)),
    (("<|tool_calls|>",), (solar_open, sarashina)),
    (("<dots_function_call>",), (dots,)),
)

# Signs that begin like a word: only where an answer begins can they be waited for.
_FIRST_SIGNS: Final[tuple[tuple[Pattern, tuple[ModuleType, ...]], ...]] = (
    (
        (
            "to=",
            one_of(
                ("self<|message|>",),
                ("user<|message|>",),
                (Run(r"[^<\s]", 1, 128), "<|message|>", BLANKS, "<atem:"),
            ),
        ),
        (muse_glimmer,),
    ),
)

AUTO: Final = Format(
    key="auto",
    says="any family whose markers cannot be mistaken",
    models=(),
    rules=tuple(
        Rule(
            pattern=(AHEAD, *pattern),
            do=Do.ADOPT,
            at=places,
            adopt=tuple(module.FORMAT for module in modules),
        )
        for signs, places in ((_SIGNS, ANYWHERE), (_FIRST_SIGNS, frozenset({Where.START})))
        for pattern, modules in signs
    ),
    think=(
        ("<think>", "</think>"),
        *(
            pair
            for one in (mistral, seed_oss, minimax_m3, longcat)
            for pair in one.FORMAT.think[:1]
        ),
    ),
)


def find_format(key: str) -> Format:
    """Return a family by its key.

    Raises:
        ConfigError: there is none of that name.
    """
    found = AUTO if key == AUTO.key else FORMATS.get(ALIASES.get(key, key))
    if found is None:
        raise ConfigError(f"no tool-call format `{key}`; there are {', '.join(sorted(FORMATS))}")
    return found
