"""Which format a name or a model means: built-in families and their aliases, installed formats, formats of users.

    choose_format(model, name)    what commands, settings, the client and the translators call
    find_format(name)             a format by its name alone

Names are case-insensitive, and `-` and `_` are the same.  Installed formats are entry points of the group
`dragoman.formats` (`dragoman/plugins.py`).
"""

import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from dragoman.errors import ConfigError, did_you_mean
from dragoman.globs import Glob
from dragoman.plugins import Plugin, installed
from dragoman.toolcalls.detection import STANDARD, bare_name, known_family
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.own_formats import validated

GROUP: Final = "dragoman.formats"  # the entry points of installed formats
NONE: Final = "none"
RESERVED: Final = (AUTO.key, NONE, STANDARD)

# Names that inference engines and people use for the same formats.
ALIASES: Final = {
    "kimi": "kimi_k2",
    "kimi_vl": "kimi_k2",
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3": "hermes",
    "granite4": "hermes",
    "trinity": "hermes",
    "qwen3_xml": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "mimo": "qwen3_coder",
    "nemotron_v3": "qwen3_coder",
    "nemotron_nano": "qwen3_coder",
    "deepseek": "deepseek_v3",
    "deepseek_r1": "deepseek_v3",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek_v32",
    "deepseekv4": "deepseek_v4",
    "glm": "glm45",
    "ling3": "glm47",
    # One engine uses this name for M1; people who type it have M2 or later, as the model's id does.
    "minimax": "minimax_m2",
    "llama3": "llama3_json",
    "llama4_pythonic": "pythonic",
    "openai": "gpt_oss",
    "harmony": "gpt_oss",
    "internlm": "internlm2",
    "interns1": "internlm2",
    "phi4_mini_json": "phi4_mini",
    "ernie": "ernie45",
    "cohere": "cohere_command",
}
_NAMES: Final = {**{alias: FORMATS[key] for alias, key in ALIASES.items()}, **FORMATS}


def normalized_name(name: str) -> str:
    """Return a name in the spelling of the tables."""
    return name.strip().lower().replace("-", "_")


def canonical_name(name: str) -> str:
    """Return the key that a name means; a name that is not built in is returned as it is."""
    wanted = normalized_name(name)
    if wanted in _NAMES:
        return _NAMES[wanted].key
    return wanted if wanted in RESERVED else name.strip()


def aliases_of(key: str) -> list[str]:
    """Return the other names of a built-in family."""
    return [alias for alias, meant in ALIASES.items() if meant == key and alias not in FORMATS]


def is_built_in(name: str) -> bool:
    """Return whether a name is taken by a built-in family, an alias, `auto`, `none` or `standard`."""
    return normalized_name(name) in _NAMES or normalized_name(name) in RESERVED


def find_format(
    name: Format | str, own: Iterable[Format] = (), *, words: Iterable[str] = (AUTO.key,)
) -> Format:
    """Return a format by its key or alias; `own`: formats of the caller, which come first.

    `words` are the names beside those of formats that the caller knows: an error suggests them too.

    Raises:
        ConfigError: no format has that name, an installed package cannot be loaded, or a given format is not legal.
    """
    if isinstance(name, Format):
        return validated(name)
    wanted = normalized_name(name)
    for format_ in own:
        if normalized_name(format_.key) == wanted:
            return validated(format_)
    if wanted == AUTO.key:
        return AUTO
    if wanted in _NAMES:
        return _NAMES[wanted]
    for plugin in _plugins():
        if normalized_name(plugin.name) == wanted:
            return _format_of(plugin)
    raise UnknownFormatError(name, own, words)


class UnknownFormatError(ConfigError):
    """No format has this name."""

    def __init__(self, name: str, own: Iterable[Format], words: Iterable[str]) -> None:
        theirs = [*(one.key for one in own), *(plugin.name for plugin in _plugins())]
        near = did_you_mean(normalized_name(name), [*words, *theirs, *_NAMES])
        self.reason: str = f"no tool-call format `{name}`"
        self.suggestion: str = near or f"known formats: {', '.join([*theirs, *sorted(FORMATS)])}"
        super().__init__(f"{self.reason}; {self.suggestion}")


def choose_format(
    model: str, native_format: Format | str = AUTO.key, own: Sequence[Format] = ()
) -> Format | None:
    """Return the format to look for: the given one, the model's, or what the stream may show.

    A model's format is the first of `own` and of the installed formats whose globs match the model's id, else the
    built-in family of the model.  None: the model's calls are structured, or none are wanted.

    Raises:
        ConfigError: see `find_format`.
    """
    wanted = native_format if isinstance(native_format, Format) else normalized_name(native_format)
    if wanted in (NONE, STANDARD):
        return None
    if wanted != AUTO.key:
        return find_format(native_format, own, words=RESERVED)
    for format_ in (*own, *installed_formats()):
        if matches_model(format_, model):
            return validated(format_)
    family = known_family(model)
    if family == STANDARD:
        return None
    return AUTO if family is None else FORMATS.get(family, AUTO)


def own_format(model: str, name: str, own: Sequence[Format]) -> Format | str:
    """Return the format of `own` that a name or a model means, or the name if it means another one."""
    if not own:
        return name
    wanted = normalized_name(name)
    if wanted == AUTO.key:
        return next((one for one in own if matches_model(one, model)), name)
    return next((one for one in own if normalized_name(one.key) == wanted), name)


def matches_model(format_: Format, model: str) -> bool:
    """Return whether a glob of a format matches a model's id, with or without its provider and host suffixes."""
    if not model or not format_.models:
        return False
    names = (model.strip(), bare_name(model))
    return any(_glob(glob).matches(name) for glob in format_.models for name in names)


@cache
def _glob(text: str) -> Glob:
    return Glob(text)


# --- installed formats ----------------------------------------------------------------------------------


def _plugins() -> tuple[Plugin, ...]:
    return installed(GROUP)


def _loaded() -> tuple[tuple[Format, ...], tuple[str, ...]]:
    """Return the installed formats, and for each that cannot be used the reason."""
    formats, reasons = [], []
    for plugin in _plugins():
        try:
            formats.append(_format_of(plugin))
        except ConfigError as error:
            reasons.append(str(error))
    return tuple(formats), tuple(reasons)


@cache
def installed_formats() -> tuple[Format, ...]:
    """Return the installed formats.  One that cannot be used is left out, with a warning."""
    formats, reasons = _loaded()
    for reason in reasons:
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    return formats


def broken_plugins() -> tuple[str, ...]:
    """Return why installed formats cannot be used, one reason per format."""
    return _loaded()[1]


def _format_of(plugin: Plugin) -> Format:
    """Return the format of an installed package.

    Raises:
        ConfigError: it cannot be loaded or is not legal; names the package.
    """
    label = f"the tool-call format `{plugin.name}` of the package `{plugin.package}`"
    if plugin.error:
        raise ConfigError(f"{label} cannot be loaded: {plugin.error}")
    if not isinstance(plugin.value, Format):
        kind = type(plugin.value).__name__
        raise ConfigError(f"{label} is a `{kind}`; expected a `dragoman.Format`")
    if normalized_name(plugin.value.key) != normalized_name(plugin.name):
        raise ConfigError(f"{label} has another key: `{plugin.value.key}`")
    if is_built_in(plugin.name):
        raise ConfigError(f"{label} has the name of a built-in format; choose another")
    try:
        return validated(plugin.value)
    except ConfigError as error:
        raise ConfigError(f"{label} is not legal: {error}") from error
