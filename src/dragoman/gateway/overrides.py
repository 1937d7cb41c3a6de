"""Applies the `params` of a route to requests; their names belong to no dialect.

| Name | Value | What it sets |
|---|---|---|
| `temperature`, `top_p` | number | sampling |
| `top_k`, `seed` | integer | sampling |
| `frequency_penalty`, `presence_penalty` | number | sampling |
| `max_tokens` | integer | the longest answer |
| `stop` | text or list of texts | stop sequences |
| `thinking` | true or false | reasoning on or off |
| `thinking_budget` | integer | tokens for reasoning |
| `effort` | `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max` | reasoning effort |
| `parallel_tool_calls` | true or false | several calls in one answer |
| `tool_choice` | `auto`, `required`, `none` or a tool's name | which tools must be used |
| `verbosity` | `low`, `medium`, `high` | length of the answer |
| `service_tier` | text | the vendor's tier |
| `user` | text | the end user's id |
| `cache_key` | text | the prompt cache's key |

A plain value is set whatever the client sent.  `{ default = v }` is set if the client sent nothing;
`{ min = v }` and `{ max = v }` limit what the client sent; all three may be combined.
`"drop"` removes what the client sent.  Thinking that the client switched off is switched on by a plain
value alone; a budget in the client's request counts as the effort it amounts to.
"""

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from dragoman.dialects.request_policy import effort_of
from dragoman.turn.request import ReasoningSettings, Request, ToolChoice

DROP: Final = "drop"
_FORMS: Final = ("default", "min", "max")
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MODES: Final[dict[str, Literal["auto", "required", "none"]]] = {
    "auto": "auto",
    "required": "required",
    "none": "none",
}

Kind: TypeAlias = Literal["number", "integer", "bool", "text", "texts", "effort", "verbosity"]
Mode: TypeAlias = Literal["default", "off", "auto", "budget", "effort"]
Get: TypeAlias = Callable[[Request], object]  # None: the client sent nothing
Put: TypeAlias = Callable[[Request, object], Request]  # None takes it away


class Param(Struct, frozen=True):
    """One parameter: the values it takes, and how it is read and set in a request."""

    kind: Kind
    get: Get
    put: Put
    least: float = -math.inf
    most: float = math.inf
    is_open: Callable[[Request], bool] | None = (
        None  # a default may be set; without: nothing was sent
    )


def apply(params: Mapping[str, object], request: Request) -> Request:
    """Return the request with a route's overrides; the same object if nothing changes.

    The settings were checked before: an override that `check` would report has no effect.
    """
    for name, setting in params.items():
        param = PARAMS.get(name)
        if param is None:
            continue
        current = param.get(request)
        is_open = current is None if param.is_open is None else param.is_open(request)
        meant = _meant(param, setting, current, is_open=is_open)
        is_set = setting == DROP or _fits(param, setting)
        if is_set or meant != current:
            changed = param.put(request, meant)
            request = request if changed == request else changed
    return request


def check(params: Mapping[str, object]) -> list[str]:
    """Return every mistake in a table of overrides, each with what to write instead."""
    mistakes: list[str] = []
    for name, setting in params.items():
        param = PARAMS.get(name)
        if param is None:
            near = difflib.get_close_matches(name, PARAMS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(PARAMS)}"
            mistakes.append(f"`{name}` is not a parameter; {hint}")
        elif isinstance(setting, Mapping):
            mistakes += _check_forms(name, param, setting)
        elif setting != DROP and not _fits(param, setting):
            mistakes.append(f"`{name}` must be {_wanted(param)}, a table or `{DROP}`")
    asks = [one for one in ("effort", "thinking_budget") if _sets(params.get(one))]
    if params.get("thinking") is False and asks:
        mistakes.append(f"`thinking` is false, but `{asks[0]}` asks for it")
    return mistakes


def _check_forms(name: str, param: Param, setting: Mapping[str, object]) -> list[str]:
    mistakes = [
        f"`{name}.{form}` is not a form; there are {', '.join(_FORMS)}"
        for form in setting
        if form not in _FORMS
    ]
    if not setting:
        mistakes.append(f"`{name}` is an empty table; write {', '.join(_FORMS)}, or a value")
    for form in _FORMS:
        if form in setting and not _fits(param, setting[form]):
            mistakes.append(f"`{name}.{form}` must be {_wanted(param)}")
        elif form in setting and form != "default" and param.kind not in _RANKED:
            mistakes.append(f"`{name}` has no order, so it cannot have `{form}`")
    least, most = setting.get("min"), setting.get("max")
    bounded = not mistakes and least is not None and most is not None
    if bounded and _rank(param, least) > _rank(param, most):
        mistakes.append(f"`{name}.min` is above `{name}.max`")
    return mistakes


_RANKED: Final = frozenset({"number", "integer", "effort"})


def _sets(setting: object) -> bool:
    return (
        setting is not None and setting not in (DROP, "none") and not isinstance(setting, Mapping)
    )


def _meant(param: Param, setting: object, current: object, *, is_open: bool) -> object:
    """Return the value after an override: the client's own if the override does not apply."""
    if setting == DROP:
        return None
    if not isinstance(setting, Mapping):
        return _value(param, setting) if _fits(param, setting) else current
    if is_open and _fits(param, setting.get("default")):
        current = _value(param, setting["default"])
    if current is None or param.kind not in _RANKED:
        return current
    for form, keeps in (("min", max), ("max", min)):
        bound = setting.get(form)
        if _fits(param, bound):
            current = keeps(current, _value(param, bound), key=lambda one: _rank(param, one))
    return current


def _fits(param: Param, value: object) -> bool:
    match param.kind:
        case "number":
            right = isinstance(value, int | float) and not isinstance(value, bool)
            return right and param.least <= _number(value) <= param.most
        case "integer":
            right = isinstance(value, int) and not isinstance(value, bool)
            return right and param.least <= _number(value) <= param.most
        case "bool":
            return isinstance(value, bool)
        case "text":
            return isinstance(value, str) and value != ""
        case "texts":
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list | tuple):
                return False
            return all(isinstance(one, str) and one for one in texts)
        case "effort":
            return value in _EFFORTS
        case "verbosity":
            return value in ("low", "medium", "high")


def _wanted(param: Param) -> str:
    """Return which values a parameter takes."""
    match param.kind:
        case "number" | "integer":
            word = "a number" if param.kind == "number" else "a whole number"
            if math.isinf(param.most):
                return word if math.isinf(param.least) else f"{word} of at least {param.least:g}"
            return f"{word} from {param.least:g} to {param.most:g}"
        case "bool":
            return "true or false"
        case "text":
            return "a string"
        case "texts":
            return "a string or a list of strings"
        case "effort":
            return f"one of {', '.join(_EFFORTS)}"
        case "verbosity":
            return "low, medium or high"


def _value(param: Param, value: object) -> object:
    """Return a checked value as a request holds it."""
    match param.kind, value:
        case "number", int():
            return float(value)
        case "texts", str():
            return (value,)
        case "texts", list():
            return tuple(value)
        case _:
            return value


def _rank(param: Param, value: object) -> float:
    if param.kind == "effort":
        return _EFFORTS.index(str(value)) if value in _EFFORTS else 0.0
    return _number(value)


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else math.nan


# --- where each parameter is in a request ---------------------------------------------------------


def _field(name: str, nothing: object = None) -> tuple[Get, Put]:
    """Return how to read and write a field of the request; `nothing` is its value if the client sent none."""

    def get(request: Request) -> object:
        value = getattr(request, name)
        return None if value == nothing else value

    def put(request: Request, value: object) -> Request:
        return structs.replace(request, **{name: nothing if value is None else value})

    return get, put


def _sampled(name: str) -> tuple[Get, Put]:
    def get(request: Request) -> object:
        return getattr(request.sampling, name)

    def put(request: Request, value: object) -> Request:
        return structs.replace(request, sampling=structs.replace(request.sampling, **{name: value}))

    return get, put


def _get_thinking(request: Request) -> object:
    mode = request.reasoning.mode
    return None if mode == "default" else mode != "off"


def _put_thinking(request: Request, value: object) -> Request:
    show = request.reasoning.show
    if value is None:
        return structs.replace(request, reasoning=ReasoningSettings(show=show))
    if value and _get_thinking(request):
        return request  # the client has sent how much
    mode: Mode = "auto" if value else "off"
    return structs.replace(request, reasoning=ReasoningSettings(mode=mode, show=show))


def _is_thinking_open(request: Request) -> bool:
    """Return whether the client left it to the model how much to think."""
    setting = request.reasoning
    return setting.mode == "default" or (setting.mode == "auto" and not setting.effort)


def _get_effort(request: Request) -> object:
    setting = request.reasoning
    if setting.mode == "off":
        return None  # bounds do not wake what is off
    if setting.effort or setting.budget is None:
        return setting.effort or None
    return effort_of(setting.budget)


def _put_effort(request: Request, value: object) -> Request:
    setting = request.reasoning
    if value == "none":
        return _put_thinking(request, False)
    if value is not None:
        mode: Mode = "auto" if setting.mode == "auto" else "effort"
        fresh = structs.replace(setting, mode=mode, effort=str(value), budget=None)
    elif setting.mode == "effort":
        fresh = ReasoningSettings(show=setting.show)
        if setting.budget is not None:
            fresh = structs.replace(setting, mode="budget", effort="")
    else:
        fresh = structs.replace(setting, effort="")
    return structs.replace(request, reasoning=fresh)


def _get_budget(request: Request) -> object:
    return None if request.reasoning.mode == "off" else request.reasoning.budget


def _put_budget(request: Request, value: object) -> Request:
    setting = request.reasoning
    if isinstance(value, int):
        fresh = ReasoningSettings(mode="budget", budget=value, show=setting.show)
    else:
        mode: Mode = "default" if setting.mode == "budget" else setting.mode
        fresh = structs.replace(setting, mode=mode, budget=None)
    return structs.replace(request, reasoning=fresh)


def _get_choice(request: Request) -> object:
    choice = request.tool_choice
    if choice is None:
        return None
    return choice.name if choice.mode == "tool" else choice.mode


def _put_choice(request: Request, value: object) -> Request:
    if value is None:
        return structs.replace(request, tool_choice=None)
    name = str(value)
    mode = _MODES.get(name)
    allowed = () if request.tool_choice is None else request.tool_choice.allowed
    choice = ToolChoice("tool", name) if mode is None else ToolChoice(mode, allowed=allowed)
    return structs.replace(request, tool_choice=choice)


PARAMS: Final[dict[str, Param]] = {
    "temperature": Param("number", *_sampled("temperature"), 0, 2),
    "top_p": Param("number", *_sampled("top_p"), 0, 1),
    "top_k": Param("integer", *_sampled("top_k"), -1),  # -1: some servers' word for all
    "seed": Param("integer", *_sampled("seed")),
    "frequency_penalty": Param("number", *_sampled("frequency_penalty"), -2, 2),
    "presence_penalty": Param("number", *_sampled("presence_penalty"), -2, 2),
    "max_tokens": Param("integer", *_field("max_output"), 1),
    "stop": Param("texts", *_field("stop", ())),
    "thinking": Param("bool", _get_thinking, _put_thinking),
    "thinking_budget": Param("integer", _get_budget, _put_budget, 1, is_open=_is_thinking_open),
    "effort": Param("effort", _get_effort, _put_effort, is_open=_is_thinking_open),
    "parallel_tool_calls": Param("bool", *_field("parallel")),
    "tool_choice": Param("text", _get_choice, _put_choice),
    "verbosity": Param("verbosity", *_field("verbosity", "")),
    "service_tier": Param("text", *_field("tier", "")),
    "user": Param("text", *_field("user_id", "")),
    "cache_key": Param("text", *_field("cache_key", "")),
}
