"""Families that write arguments as JSON."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.simulator.native.family import Family, NativeCall, array, dumps, each, objects, within

_DEEPSEEK: Final = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALL: Final = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")


def kimi(calls: list[NativeCall]) -> str:
    inner = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{call.before + number}"
        f"<|tool_call_argument_begin|>{dumps(call.arguments)}<|tool_call_end|>"
        for number, call in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


def deepseek(call: NativeCall) -> str:
    return f"function<｜tool▁sep｜>{call.name}\n```json\n{dumps(call.arguments)}\n```"


def solar(calls: list[NativeCall]) -> str:
    return "".join(
        f"<|tool_call:begin|>c{call.before + number}<|tool_call:name|>{call.name}<|tool_call:args|>"
        f"{dumps(call.arguments)}<|tool_call:end|>"
        for number, call in enumerate(calls)
    )


def gpt_oss(calls: list[NativeCall]) -> str:
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>"
        f"{dumps(call.arguments)}<|call|>"
        for call in calls
    )


_TAGGED: Final = Family(each("<tool_call>\n", "\n</tool_call>", objects(), "\n"))
_LISTED: Final = Family(array("<tool_calls>", "</tool_calls>", objects()))
FAMILIES: Final[dict[str, Family]] = {
    "kimi_k2": Family(kimi),
    "hermes": _TAGGED,
    "deepseek_v3": Family(within(_DEEPSEEK, each(*_DEEPSEEK_CALL, deepseek, "\n"))),
    "deepseek_v31": Family(
        within(
            _DEEPSEEK,
            each(*_DEEPSEEK_CALL, lambda call: f"{call.name}<｜tool▁sep｜>{dumps(call.arguments)}"),
        )
    ),
    "hunyuan_a13b": _LISTED,
    "minimax_m1": Family(
        within(("<tool_calls>\n", "\n</tool_calls>"), each("", "", objects(), "\n"))
    ),
    "mistral": Family(
        each("[TOOL_CALLS]", "", lambda call: f"{call.name}[ARGS]{dumps(call.arguments)}")
    ),
    "llama3_json": Family(
        each("", "", objects(arguments="parameters"), "; "), before=False, declared=True
    ),
    "gpt_oss": Family(gpt_oss),
    "granite": Family(array("<|tool_call|>", "", objects())),
    "granite_20b_fc": Family(each("<function_call> ", "", objects())),
    "internlm2": Family(
        each("<|action_start|><|plugin|>\n", "<|action_end|>", objects(arguments="parameters"))
    ),
    "jamba": _LISTED,
    "phi4_mini": Family(array("functools", "", objects())),
    "ernie45": _TAGGED,
    "xlam": Family(array("", "", objects()), before=False, declared=True),
    "longcat": Family(each("<longcat_tool_call>", "</longcat_tool_call>", objects())),
    "nemotron_deci": Family(array("<TOOLCALL>", "</TOOLCALL>", objects())),
    "cohere_command": Family(
        array("<|START_ACTION|>", "<|END_ACTION|>", objects("tool_name", "parameters"))
    ),
    "apertus": Family(
        array(
            "<|tools_prefix|>",
            "<|tools_suffix|>",
            lambda call: dumps({call.name: call.arguments}),
        )
    ),
    "gigachat3": Family(each("<|function_call|>", "", objects()), most=1),
    "inkling": Family(
        each(
            "<|message_model|><|content_invoke_tool_json|>",
            "<|end_message|>",
            objects(arguments="args"),
        )
    ),
    "solar_open": Family(solar),
    "apriel": _LISTED,
    "functionary": Family(
        each("<function=", "</function>", lambda call: f"{call.name}>{dumps(call.arguments)}")
    ),
    "firefunction": Family(array(" functools", "", objects()), before=False),
}
