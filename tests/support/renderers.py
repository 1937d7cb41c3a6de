"""Calls written as each family's models write them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

Arguments = dict[str, Any]


class Call(NamedTuple):
    name: str
    arguments: Arguments


class Family(NamedTuple):
    """How a family writes, and what its grammar cannot say."""

    render: Callable[[list[Call]], str]
    typed: bool = False  # values need the tool's schema
    before: bool = True  # text may stand before the calls
    after: bool = True  # text may stand after them
    trims: bool = False  # blanks around a string are not kept
    most: int = 4  # calls in one answer
    nested: bool = True  # values may be objects and arrays
    declared: bool = False  # only declared tools are calls


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Any) -> str:
    """Write a value between tags."""
    return value if isinstance(value, str) else dumps(value)


def objects(name: str = "name", arguments: str = "arguments") -> Callable[[Call], str]:
    return lambda call: dumps({name: call.name, arguments: call.arguments})


def each(before: str, after: str, one: Callable[[Call], str], between: str = "") -> Any:
    return lambda calls: between.join(f"{before}{one(call)}{after}" for call in calls)


def array(before: str, after: str, one: Callable[[Call], str]) -> Any:
    return lambda calls: f"{before}[{', '.join(map(one, calls))}]{after}"


def kimi(calls: list[Call]) -> str:
    inner = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{number}<|tool_call_argument_begin|>"
        f"{dumps(call.arguments)}<|tool_call_end|>"
        for number, call in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


def kimi_k3(calls: list[Call]) -> str:
    def argument(key: str, value: Any) -> str:
        kind = "string" if isinstance(value, str) else "object"
        head = f'<|open|>argument key="{key}" type="{kind}"<|sep|>'
        return f"{head}{raw(value)}<|close|>argument<|sep|>"

    inner = "".join(
        f'<|open|>call tool="{call.name}" index="{number}"<|sep|>'
        + "".join(argument(*item) for item in call.arguments.items())
        + "<|close|>call<|sep|>"
        for number, call in enumerate(calls, 1)
    )
    return f"<|open|>tools<|sep|>{inner}<|close|>tools<|sep|>"


def functions(opener: str, closer: str) -> Any:
    def one(call: Call) -> str:
        inner = "".join(
            f"<parameter={key}>\n{raw(value)}\n</parameter>\n"
            for key, value in call.arguments.items()
        )
        return f"{opener}\n<function={call.name}>\n{inner}</function>\n{closer}"

    return lambda calls: "\n".join(map(one, calls))


def keyed(gap: str) -> Any:
    def one(call: Call) -> str:
        inner = "".join(
            f"<arg_key>{key}</arg_key>{gap}<arg_value>{raw(value)}</arg_value>{gap}"
            for key, value in call.arguments.items()
        )
        return f"<tool_call>{call.name}{gap}{inner}</tool_call>"

    return lambda calls: "\n".join(map(one, calls))


def hy(calls: list[Call]) -> str:
    def one(call: Call) -> str:
        inner = "".join(
            f"<arg_key:z>{key}</arg_key:z>\n<arg_value:z>{raw(value)}</arg_value:z>\n"
            for key, value in call.arguments.items()
        )
        return f"<tool_call:z>{call.name}<tool_sep:z>\n{inner}</tool_call:z>"

    return f"<tool_calls:z>{''.join(map(one, calls))}</tool_calls:z>"


def invokes(
    prefix: str, opener: str, closer: str, *, before: str = "", after: str = "", flag: bool = False
) -> Any:
    def parameter(key: str, value: Any) -> str:
        kind = f' string="{str(isinstance(value, str)).lower()}"' if flag else ""
        return f'<{prefix}parameter name="{key}"{kind}>{raw(value)}</{prefix}parameter>\n'

    def one(call: Call) -> str:
        inner = "".join(parameter(*item) for item in call.arguments.items())
        return f'{before}<{prefix}invoke name="{call.name}">\n{inner}</{prefix}invoke>{after}'

    return lambda calls: f"{opener}\n" + "\n".join(map(one, calls)) + f"\n{closer}"


def minicpm(calls: list[Call]) -> str:
    def one(call: Call) -> str:
        inner = "".join(
            f'<param name="{key}">{raw(value)}</param>' for key, value in call.arguments.items()
        )
        return f'<function name="{call.name}">{inner}</function>'

    return "".join(map(one, calls))


def deepseek(call: Call) -> str:
    return f"function<｜tool▁sep｜>{call.name}\n```json\n{dumps(call.arguments)}\n```"


DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")


def within(outer: tuple[str, str], inner: Callable[[list[Call]], str]) -> Any:
    return lambda calls: f"{outer[0]}{inner(calls)}{outer[1]}"


def solar(calls: list[Call]) -> str:
    return "".join(
        f"<|tool_call:begin|>c{number}<|tool_call:name|>{call.name}<|tool_call:args|>"
        f"{dumps(call.arguments)}<|tool_call:end|>"
        for number, call in enumerate(calls)
    )


def gpt_oss(calls: list[Call]) -> str:
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>"
        f"{dumps(call.arguments)}<|call|>"
        for call in calls
    )


def python_call(call: Call) -> str:
    inner = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({inner})"


def gemma(quote: str) -> Callable[[Any], str]:
    def value(one: Any) -> str:
        match one:
            case str():
                return f"{quote}{one}{quote}"
            case dict():
                return "{" + ",".join(f"{key}:{value(item)}" for key, item in one.items()) + "}"
            case list():
                return "[" + ",".join(map(value, one)) + "]"
            case _:
                return dumps(one)

    return value


def gemma_call(before: str, after: str, quote: str) -> Any:
    value = gemma(quote)
    return each(before, after, lambda call: f"call:{call.name}{value(call.arguments)}")


def functiongemma(calls: list[Call]) -> str:
    return "".join(
        f"<start_function_call>call:{call.name}{{"
        + ",".join(f"{key}:<escape>{raw(value)}<escape>" for key, value in call.arguments.items())
        + "}<end_function_call>"
        for call in calls
    )


def elements(calls: list[Call]) -> str:
    mark = "]<]minimax[>["

    def element(key: str, value: Any) -> str:
        if isinstance(value, dict):
            inner = "".join(element(*item) for item in value.items())
        elif isinstance(value, list):
            inner = "".join(element("item", item) for item in value)
        else:
            inner = raw(value)
        return f"{mark}<{key}>{inner}{mark}</{key}>"

    inner = "".join(
        f'{mark}<invoke name="{call.name}">'
        + "".join(element(*item) for item in call.arguments.items())
        + f"{mark}</invoke>"
        for call in calls
    )
    return f"{mark}<tool_call>{inner}{mark}</tool_call>"


def glimmer(calls: list[Call]) -> str:
    opener = " to=tools<|message|><atem:function_calls>"
    return str(invokes("atem:", opener, "</atem:function_calls><|eom|>")(calls))


TAGS = Family(functions("<tool_call>", "</tool_call>"), typed=True)
DSML = "｜DSML｜"
BARE = {"before": False, "declared": True}
FAMILIES: dict[str, Family] = {
    "kimi_k2": Family(kimi),
    "kimi_k3": Family(kimi_k3),
    "hermes": Family(each("<tool_call>\n", "\n</tool_call>", objects(), "\n")),
    "qwen3_coder": TAGS,
    "seed_oss": Family(functions("<seed:tool_call>", "</seed:tool_call>"), typed=True),
    "deepseek_v3": Family(within(DEEPSEEK, each(*DEEPSEEK_CALL, deepseek, "\n"))),
    "deepseek_v31": Family(
        within(
            DEEPSEEK,
            each(*DEEPSEEK_CALL, lambda call: f"{call.name}<｜tool▁sep｜>{dumps(call.arguments)}"),
        )
    ),
    "deepseek_v32": Family(
        invokes(DSML, f"<{DSML}function_calls>", f"</{DSML}function_calls>", flag=True)
    ),
    "deepseek_v4": Family(invokes(DSML, f"<{DSML}tool_calls>", f"</{DSML}tool_calls>", flag=True)),
    "glm45": Family(keyed("\n"), typed=True),
    "glm47": Family(keyed(""), typed=True),
    "poolside_v1": Family(keyed("\n"), typed=True),
    "hy_v3": Family(hy, typed=True),
    "hunyuan_a13b": Family(array("<tool_calls>", "</tool_calls>", objects())),
    "minimax_m1": Family(
        within(("<tool_calls>\n", "\n</tool_calls>"), each("", "", objects(), "\n"))
    ),
    "minimax_m2": Family(invokes("", "<minimax:tool_call>", "</minimax:tool_call>"), typed=True),
    "minimax_m3": Family(elements, typed=True),
    "mistral": Family(
        each("[TOOL_CALLS]", "", lambda call: f"{call.name}[ARGS]{dumps(call.arguments)}")
    ),
    "llama3_json": Family(each("", "", objects(arguments="parameters"), "; "), **BARE),
    "pythonic": Family(array("", "", python_call), before=False),
    "olmo3": Family(
        within(("<function_calls>\n", "\n</function_calls>"), each("", "", python_call, "\n"))
    ),
    "lfm2": Family(array("<|tool_call_start|>", "<|tool_call_end|>", python_call)),
    "gpt_oss": Family(gpt_oss),
    "granite": Family(array("<|tool_call|>", "", objects())),
    "granite_20b_fc": Family(each("<function_call> ", "", objects())),
    "internlm2": Family(
        each("<|action_start|><|plugin|>\n", "<|action_end|>", objects(arguments="parameters"))
    ),
    "jamba": Family(array("<tool_calls>", "</tool_calls>", objects())),
    "phi4_mini": Family(array("functools", "", objects())),
    "ernie45": Family(each("<tool_call>\n", "\n</tool_call>", objects(), "\n")),
    "step3": Family(
        invokes(
            "steptml:",
            "<｜tool_calls_begin｜>",
            "<｜tool_calls_end｜>",
            before="<｜tool_call_begin｜>function<｜tool_sep｜>",
            after="<｜tool_call_end｜>",
        ),
        typed=True,
        trims=True,
    ),
    "xlam": Family(array("", "", objects()), **BARE),
    "functiongemma": Family(functiongemma, typed=True),
    "gemma4": Family(gemma_call("<|tool_call>", "<tool_call|>", '<|"|>')),
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
    "minicpm5": Family(minicpm, typed=True, trims=True),
    "dots": Family(
        invokes("", "<dots_function_call>", "</dots_function_call>"), typed=True, trims=True
    ),
    "inkling": Family(
        each(
            "<|message_model|><|content_invoke_tool_json|>",
            "<|end_message|>",
            objects(arguments="args"),
        )
    ),
    "muse_glimmer": Family(glimmer, typed=True, before=False),
    "sarashina": Family(
        lambda calls: (
            "<|tool_calls|>"
            + repr([{"name": call.name, "arguments": call.arguments} for call in calls])
        ),
        after=False,
    ),
    "solar_open": Family(solar),
    "apriel": Family(array("<tool_calls>", "</tool_calls>", objects())),
    "functionary": Family(
        each("<function=", "</function>", lambda call: f"{call.name}>{dumps(call.arguments)}")
    ),
    "firefunction": Family(array(" functools", "", objects()), before=False),
}
