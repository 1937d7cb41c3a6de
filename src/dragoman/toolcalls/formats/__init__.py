"""The families of native tool calls, by key."""

from typing import Final

from dragoman.errors import ConfigError
from dragoman.toolcalls.format import Format
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
    llama3_json,
    longcat,
    minicpm5,
    minimax_m1,
    minimax_m2,
    mistral,
    nemotron_deci,
    phi4_mini,
    poolside_v1,
    qwen3_coder,
    sarashina,
    seed_oss,
    solar_open,
    step3,
    xlam,
)

# In the order of the families' table; where markers are shared, the first that fits is taken.
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
    mistral.FORMAT,
    llama3_json.FORMAT,
    gpt_oss.FORMAT,
    granite.FORMAT,
    granite_20b_fc.FORMAT,
    internlm2.FORMAT,
    jamba.FORMAT,
    phi4_mini.FORMAT,
    ernie45.FORMAT,
    step3.FORMAT,
    xlam.FORMAT,
    longcat.FORMAT,
    nemotron_deci.FORMAT,
    cohere_command.FORMAT,
    apertus.FORMAT,
    gigachat3.FORMAT,
    minicpm5.FORMAT,
    dots.FORMAT,
    inkling.FORMAT,
    sarashina.FORMAT,
    solar_open.FORMAT,
    apriel.FORMAT,
    functionary.FORMAT,
    firefunction.FORMAT,
)

FORMATS: Final[dict[str, Format]] = {one.key: one for one in _ALL}

# Whatever marks itself beyond doubt: for models of which nothing is known.
AUTO: Final = Format(
    key="auto",
    says="any family whose markers cannot be mistaken",
    models=(),
    rules=tuple(dict.fromkeys(rule for one in _ALL if not one.bare for rule in one.rules)),
)


def find_format(key: str) -> Format:
    """Return a family by its key.

    Raises:
        ConfigError: there is none of that name.
    """
    found = AUTO if key == AUTO.key else FORMATS.get(key)
    if found is None:
        raise ConfigError(f"no tool-call format `{key}`; there are {', '.join(sorted(FORMATS))}")
    return found
