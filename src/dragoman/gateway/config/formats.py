"""The `[formats.NAME]` tables: formats of tool calls in text that the operator declares."""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from dragoman.gateway.config.problems import Mistake
from dragoman.gateway.config.settings import FormatTable, Settings
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import UnknownFormatError, choose_format
from dragoman.toolcalls.own_formats import FormatError, json_format, tags_format

# The keys of each shape, besides those of all shapes.
_SHAPES: Final = {
    "json": ("name_key", "arguments_key", "id_key"),
    "tags": ("parameter", "parameter_close", "section", "trim"),
}


def declared_formats(settings: Settings) -> tuple[Format, ...]:
    """Return the formats that the settings declare, in their order.

    Raises:
        FormatError: one is not legal; `format_mistakes` finds all of them.
    """
    return tuple(declared_format(name, table) for name, table in settings.formats.items())


def declared_format(name: str, table: FormatTable) -> Format:
    """Return the format of one table.

    Raises:
        FormatError: it is not legal; names the key.
    """
    given = structs.asdict(table)
    for shape, keys in _SHAPES.items():
        for key in keys if shape != table.shape else ():
            if given.pop(key) != _default(key):
                raise FormatError(key, f'is for `shape = "{shape}"`')
    del given["shape"]
    return json_format(name, **given) if table.shape == "json" else tags_format(name, **given)


def _default(key: str) -> object:
    return next(field.default for field in structs.fields(FormatTable) if field.name == key)


def format_mistakes(settings: Settings) -> Iterator[Mistake]:
    """Yield what is wrong with declared formats, and names of formats that do not exist."""
    formats = []
    for name, table in settings.formats.items():
        if table.shape not in _SHAPES:
            continue  # the reader has reported it
        try:
            formats.append(declared_format(name, table))
        except FormatError as error:
            yield Mistake(f"formats.{name}.{error.field}", error.reason)
    broken = settings.formats.keys() - {one.key for one in formats}
    named = [(f"upstreams.{name}", one.format) for name, one in settings.upstreams.items()]
    named += [(f"routes[{at}]", one.format) for at, one in enumerate(settings.routes, start=1)]
    for path, wanted in named:
        if wanted and wanted not in broken:
            try:
                choose_format("", wanted, formats)
            except UnknownFormatError as error:
                yield Mistake(f"{path}.format", error.reason, error.suggestion)
