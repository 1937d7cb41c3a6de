"""Families that write arguments as tags."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.simulator.native.family import Family, NativeCall, Render, raw
from dragoman.simulator.play import Json

_DSML: Final = "｜DSML｜"
_MINIMAX: Final = "]<]minimax[>["


def functions(opener: str, closer: str) -> Render:
    def one(call: NativeCall) -> str:
        inner = "".join(
            f"<parameter={key}>\n{raw(value)}\n</parameter>\n"
            for key, value in call.arguments.items()
        )
        return f"{opener}\n<function={call.name}>\n{inner}</function>\n{closer}"

    return lambda calls: "\n".join(map(one, calls))


def keyed(gap: str) -> Render:
    def one(call: NativeCall) -> str:
        inner = "".join(
            f"<arg_key>{key}</arg_key>{gap}<arg_value>{raw(value)}</arg_value>{gap}"
            for key, value in call.arguments.items()
        )
        return f"<tool_call>{call.name}{gap}{inner}</tool_call>"

    return lambda calls: "\n".join(map(one, calls))


def hy(calls: list[NativeCall]) -> str:
    def one(call: NativeCall) -> str:
        inner = "".join(
            f"<arg_key:z>{key}</arg_key:z>\n<arg_value:z>{raw(value)}</arg_value:z>\n"
            for key, value in call.arguments.items()
        )
        return f"<tool_call:z>{call.name}<tool_sep:z>\n{inner}</tool_call:z>"

    return f"<tool_calls:z>{''.join(map(one, calls))}</tool_calls:z>"


def invokes(  # noqa: PLR0913 -- the marks of one grammar
    prefix: str, opener: str, closer: str, *, before: str = "", after: str = "", flag: bool = False
) -> Render:
    def parameter(key: str, value: Json) -> str:
        kind = f' string="{str(isinstance(value, str)).lower()}"' if flag else ""
        return f'<{prefix}parameter name="{key}"{kind}>{raw(value)}</{prefix}parameter>\n'

    def one(call: NativeCall) -> str:
        inner = "".join(parameter(*item) for item in call.arguments.items())
        return f'{before}<{prefix}invoke name="{call.name}">\n{inner}</{prefix}invoke>{after}'

    return lambda calls: f"{opener}\n" + "\n".join(map(one, calls)) + f"\n{closer}"


def minicpm(calls: list[NativeCall]) -> str:
    def one(call: NativeCall) -> str:
        inner = "".join(
            f'<param name="{key}">{raw(value)}</param>' for key, value in call.arguments.items()
        )
        return f'<function name="{call.name}">{inner}</function>'

    return "".join(map(one, calls))


def elements(calls: list[NativeCall]) -> str:
    mark = _MINIMAX

    def element(key: str, value: Json) -> str:
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


def kimi_k3(calls: list[NativeCall]) -> str:
    def argument(key: str, value: Json) -> str:
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


FAMILIES: Final[dict[str, Family]] = {
    "kimi_k3": Family(kimi_k3),
    "qwen3_coder": Family(functions("<tool_call>", "</tool_call>"), typed=True),
    "seed_oss": Family(functions("<seed:tool_call>", "</seed:tool_call>"), typed=True),
    "deepseek_v32": Family(
        invokes(_DSML, f"<{_DSML}function_calls>", f"</{_DSML}function_calls>", flag=True)
    ),
    "deepseek_v4": Family(
        invokes(_DSML, f"<{_DSML}tool_calls>", f"</{_DSML}tool_calls>", flag=True)
    ),
    "glm45": Family(keyed("\n"), typed=True),
    "glm47": Family(keyed(""), typed=True),
    "poolside_v1": Family(keyed("\n"), typed=True),
    "hy_v3": Family(hy, typed=True),
    "minimax_m2": Family(invokes("", "<minimax:tool_call>", "</minimax:tool_call>"), typed=True),
    "minimax_m3": Family(elements, typed=True),
    "step3": Family(
        invokes(
            "steptml:",
            "<｜tool_calls_begin｜>",
            "<｜tool_calls_end｜>",
            before="<｜tool_call_begin｜>function<｜tool_sep｜>",
            after="<｜tool_call_end｜>",
        ),
        typed=True,
    ),
    "minicpm5": Family(minicpm, typed=True, trims=True),
    "dots": Family(
        invokes("", "<dots_function_call>", "</dots_function_call>"), typed=True, trims=True
    ),
    "muse_glimmer": Family(
        invokes(
            "atem:", " to=tools<|message|><atem:function_calls>", "</atem:function_calls><|eom|>"
        ),
        typed=True,
        before=False,
    ),
}
