"""From a file, the environment and flags to settings that can be used, or all that is wrong with them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from dragoman.errors import ConfigError
from dragoman.gateway.config import checking
from dragoman.gateway.config.mistakes import ConfigMistakesError, Mistake, Problem
from dragoman.gateway.config.overlays import (
    Document,
    Flags,
    Labels,
    apply_environment,
    apply_flags,
)
from dragoman.gateway.config.reading import Reading
from dragoman.gateway.config.settings import Settings
from dragoman.gateway.config.surroundings import Surroundings, read_dotenv, read_text

FILE_NAME: Final = "dragoman.toml"
NO_FLAGS: Final = Flags()


class Loaded(Struct, frozen=True, kw_only=True):
    settings: Settings
    path: Path | None = None  # of the file; None: there is none
    warnings: tuple[Mistake, ...] = ()


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    flags: Flags = NO_FLAGS,
    need_secrets: bool = True,
) -> Loaded:
    """Read the file, put the environment over it and the flags over both, and judge the result.

    Without a path the file is looked for, and its absence is no mistake.  Without `need_secrets` a
    secret that cannot be found is left empty.

    Raises:
        ConfigError: there is no file of that name, or `ConfigMistakesError` with everything that is wrong.
    """
    found = find_file(environ, cwd) if path is None else cwd / path
    document = {} if found is None else parse(found, cwd)
    folder = cwd if found is None else found.parent
    variables, warnings = read_dotenv(folder / ".env")
    around = Surroundings(environ={**variables, **environ}, folder=folder)
    try:
        loaded = settle(document, around, flags=flags, need_secrets=need_secrets)
    except ConfigMistakesError as error:
        raise ConfigMistakesError(error.mistakes, source=_shown(found, cwd)) from None
    if found is not None and not loaded.settings.upstreams:
        warnings.append(Mistake("upstreams", "there is none: the built-in simulator answers"))
    return structs.replace(loaded, path=found, warnings=(*warnings, *loaded.warnings))


def from_flags(flags: Flags, *, environ: Mapping[str, str], cwd: Path) -> Settings:
    """Return the settings that flags and environment alone describe; no file is looked for.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return settle({}, Surroundings(environ=environ, folder=cwd), flags=flags).settings


def settle(
    document: Document,
    around: Surroundings,
    *,
    flags: Flags = NO_FLAGS,
    need_secrets: bool = True,
) -> Loaded:
    """Put environment and flags over a document, which is changed, and judge the result.

    Raises:
        ConfigMistakesError: with everything that is wrong.
    """
    labels: Labels = {}
    apply_environment(document, around.environ, labels)
    mistakes = apply_flags(document, flags, around.environ, labels)
    reading = Reading(around, need_secrets=need_secrets)
    settings = reading.settings(document)
    mistakes += reading.mistakes
    told = {mistake.path for mistake in mistakes}
    mistakes += [one for one in checking.mistakes(settings) if one.path not in told]
    if mistakes:
        raise ConfigMistakesError([_labelled(one, labels) for one in mistakes])
    found = checking.warnings(settings)
    return Loaded(settings=settings, warnings=tuple(_labelled(one, labels) for one in found))


def find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the file that counts when none is named: here, else in the folder for settings."""
    folders = [cwd]
    if Path(environ.get("XDG_CONFIG_HOME", "")).is_absolute():
        folders.append(Path(environ["XDG_CONFIG_HOME"], "dragoman"))
    elif environ.get("HOME"):
        folders.append(Path(environ["HOME"], ".config", "dragoman"))
    return next((one for folder in folders if (one := folder / FILE_NAME).is_file()), None)


def parse(path: Path, cwd: Path) -> Document:
    """Return the document in a file.

    Raises:
        ConfigError: it cannot be read, or `ConfigMistakesError` with the place where it is no TOML.
    """
    text = read_text(path)
    if isinstance(text, Problem):
        raise ConfigError(str(Mistake("", text.message, text.suggestion)))
    try:
        return tomllib.loads(text)
    except RecursionError:
        mistake = Mistake("", "nested too deep")
    except ValueError as error:  # `TOMLDecodeError`, and numbers of thousands of digits
        mistake = _not_toml(str(error))
    raise ConfigMistakesError([mistake], source=_shown(path, cwd))


def _not_toml(said: str) -> Mistake:
    reason, at, place = said.removesuffix(")").rpartition(" (at ")
    if not at or not said.endswith(")"):
        reason, place = said, ""
    return Mistake(place, f"not TOML: {reason[:1].lower()}{reason[1:]}")


def _labelled(mistake: Mistake, labels: Labels) -> Mistake:
    """Name the flag or variable that set a value, where one did."""
    label = labels.get(mistake.path)
    return mistake if label is None else structs.replace(mistake, path=label)


def _shown(path: Path | None, cwd: Path) -> str:
    """Return a file's name as people know it."""
    if path is None:
        return ""
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
