"""Tool calls written as text in the grammar of each family, by the keys of `dragoman.toolcalls.formats`."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

import json
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from dragoman.simulator.conversation import calls_made
from dragoman.simulator.play import Json, Play, SimulatedCall
from dragoman.toolcalls.formats import FORMATS
from dragoman.turn.events import Flavor

Arguments: TypeAlias = dict[str, Json]


class NativeCall(NamedTuple):
    name: str
    arguments: Arguments
    before: int = 0  # calls that the conversation held before this answer


Render: TypeAlias = Callable[[list[NativeCall]], str]
RenderOne: TypeAlias = Callable[[NativeCall], str]


class Family(NamedTuple):
    """How a family writes calls, and the limits of its grammar."""

    render: Render
    typed: bool = False  # values need the tool's schema
    before: bool = True  # text may precede the calls
    after: bool = True  # text may follow the calls
    trims: bool = False  # blanks around a string are not kept
    most: int = 4  # calls in one answer
    declared: bool = False  # only declared tools are calls


def dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Json) -> str:
    """Write a value between tags."""
    return value if isinstance(value, str) else dumps(value)


def each(before: str, after: str, one: RenderOne, between: str = "") -> Render:
    """Write every call between its own markers."""
    return lambda calls: between.join(f"{before}{one(call)}{after}" for call in calls)


def array(before: str, after: str, one: RenderOne) -> Render:
    """Write all calls as one list."""
    return lambda calls: f"{before}[{', '.join(map(one, calls))}]{after}"


def within(outer: tuple[str, str], inner: Render) -> Render:
    """Write a section around calls."""
    return lambda calls: f"{outer[0]}{inner(calls)}{outer[1]}"


def objects(name: str = "name", arguments: str = "arguments") -> RenderOne:
    """Write a call as a JSON object."""
    return lambda call: dumps({name: call.name, arguments: call.arguments})


# --- arguments as JSON ---

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
_JSON: Final[dict[str, Family]] = {
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


# --- arguments as tags ---

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


_TAGS: Final[dict[str, Family]] = {
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


# --- calls as expressions: in Python's syntax, or in the family's own ---


def python_call(call: NativeCall) -> str:
    inner = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({inner})"


def python_objects(calls: list[NativeCall]) -> str:
    listed = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return f"<|tool_calls|>{listed!r}"


def _quoted(quote: str) -> Callable[[Json], str]:
    def value(one: Json) -> str:
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


def gemma(before: str, after: str, quote: str) -> Render:
    value = _quoted(quote)
    return each(before, after, lambda call: f"call:{call.name}{value(call.arguments)}")


def functiongemma(calls: list[NativeCall]) -> str:
    return "".join(
        f"<start_function_call>call:{call.name}{{"
        + ",".join(f"{key}:<escape>{raw(value)}<escape>" for key, value in call.arguments.items())
        + "}<end_function_call>"
        for call in calls
    )


_EXPRESSIONS: Final[dict[str, Family]] = {
    "pythonic": Family(array("", "", python_call), before=False),
    "olmo3": Family(
        within(("<function_calls>\n", "\n</function_calls>"), each("", "", python_call, "\n"))
    ),
    "lfm2": Family(array("<|tool_call_start|>", "<|tool_call_end|>", python_call)),
    "functiongemma": Family(functiongemma, typed=True),
    "gemma4": Family(gemma("<|tool_call>", "<tool_call|>", '<|"|>')),
    "sarashina": Family(python_objects, after=False),
}


# --- all families ---

_ARGUMENTS: Final[msgspec.json.Decoder[Arguments]] = msgspec.json.Decoder(dict)
_BY_GRAMMAR: Final = {**_JSON, **_TAGS, **_EXPRESSIONS}
# In the order of the families' own table.
FAMILIES: Final[dict[str, Family]] = {
    key: _BY_GRAMMAR[key] for key in FORMATS if key in _BY_GRAMMAR
}


def arguments_of(call: SimulatedCall) -> Arguments:
    """Return a call's arguments, decoded; the text of a custom tool becomes `input`."""
    if call.flavor is Flavor.CUSTOM:
        return {"input": call.arguments}
    return _ARGUMENTS.decode(call.arguments)


def render(play: Play) -> Play:
    """Write the calls as text, if the model belongs to a family with a native grammar."""
    reply = play.reply
    if not play.asked.family or not reply.calls:
        return play
    family = FAMILIES[play.asked.family]
    calls = reply.calls[: family.most]
    before = calls_made(play.asked.request)
    native = family.render([NativeCall(one.name, arguments_of(one), before) for one in calls])
    if play.style.leak:
        lead = f"{reply.reasoning}\n" if reply.reasoning and family.before else ""
        reply = structs.replace(reply, reasoning=lead + native, leaked=True)
    else:
        lead = f"{reply.text}\n" if reply.text and family.before else ""
        reply = structs.replace(reply, text=lead + native)
    return structs.replace(
        play, reply=structs.replace(reply, calls=(), written=calls, finish="stop")
    )
