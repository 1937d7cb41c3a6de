"""From a file, the environment and command-line flags to checked settings.

Flags override the environment, and the environment overrides the file.  Both are written into the
document before it is read, so that one set of checks applies to all three; `Labels` records where a
value came from, so that a message names the flag or variable instead of a key of the file.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, structs

from dragoman.errors import ConfigError
from dragoman.gateway.config import checks
from dragoman.gateway.config.environment import ConfigEnvironment, read_dotenv, read_text
from dragoman.gateway.config.problems import ConfigMistakesError, Mistake, Problem
from dragoman.gateway.config.read import SettingsReader
from dragoman.gateway.config.settings import Settings
from dragoman.gateway.config.vendors import vendor_at

FILE_NAME: Final = "dragoman.toml"
Document: TypeAlias = dict[str, object]
_NO_UPSTREAM: Final = "there is no upstream, only the built-in simulator"
Labels: TypeAlias = dict[str, str]  # path of a value: the flag or variable that set it

DEFAULT_UPSTREAM: Final = "default"  # the name of the upstream that flags describe
FILE_VARIABLE: Final = "DRAGOMAN_CONFIG"  # names the file where no flag does

# Variables that override the file: table and key.
VARIABLES: Final[dict[str, tuple[str, str]]] = {
    "DRAGOMAN_HOST": ("server", "host"),
    "DRAGOMAN_PORT": ("server", "port"),
    "DRAGOMAN_WORKERS": ("server", "workers"),
    "DRAGOMAN_LOG_FORMAT": ("log", "format"),
    "DRAGOMAN_LOG_LEVEL": ("log", "level"),
}


class Flags(Struct, frozen=True, kw_only=True):
    """The flags of the command line; None: not given."""

    upstream: str | None = None  # an address: replaces the file's upstreams, routes and tiers
    upstream_dialect: str | None = None
    upstream_key_env: str | None = None
    no_key: bool | None = None  # the upstream takes requests without a key
    model: str | None = None
    format: str | None = None
    proxy: str | None = None  # of every upstream
    tls_ca: str | None = None  # likewise
    host: str | None = None
    port: int | None = None
    workers: int | None = None
    insecure: bool | None = None
    record: str | None = None  # a folder


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
    """Read the file, put the environment over it and the flags over both, and check the result.

    Without a path the file is looked for, and it may be absent.  Without `need_secrets` a
    secret that cannot be found is left empty.

    Raises:
        ConfigError: there is no file of that name, or `ConfigMistakesError` with everything that is wrong.
    """
    found = find_file(environ, cwd) if path is None else cwd / path
    try:
        document = {} if found is None else parse(found, cwd)
    except ConfigMistakesError:
        raise
    except ConfigError as error:
        if path is None and environ.get(FILE_VARIABLE):
            raise ConfigError(f"{FILE_VARIABLE}: {error}") from error
        raise
    folder = cwd if found is None else found.parent
    variables, warnings = read_dotenv(folder / ".env")
    environment = ConfigEnvironment(environ={**variables, **environ}, folder=folder)
    try:
        loaded = make_settings(document, environment, flags=flags, need_secrets=need_secrets)
    except ConfigMistakesError as error:
        by_flags = all(one.path.startswith("--") for one in error.mistakes)
        source = "" if by_flags else _shown(found, cwd)
        raise ConfigMistakesError(error.mistakes, source=source) from None
    if found is not None and not loaded.settings.upstreams:
        warnings.append(Mistake("upstreams", "no upstream is set: the built-in simulator answers"))
    return structs.replace(loaded, path=found, warnings=(*warnings, *loaded.warnings))


def from_flags(flags: Flags, *, environ: Mapping[str, str], cwd: Path) -> Settings:
    """Return the settings that flags and environment alone describe; no file is looked for.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return make_settings({}, ConfigEnvironment(environ=environ, folder=cwd), flags=flags).settings


def make_settings(
    document: Document,
    environment: ConfigEnvironment,
    *,
    flags: Flags = NO_FLAGS,
    need_secrets: bool = True,
) -> Loaded:
    """Put environment and flags over a document, which is changed, and check the result.

    Raises:
        ConfigMistakesError: with everything that is wrong.
    """
    labels: Labels = {}
    apply_environment(document, environment.environ, labels)
    mistakes = apply_flags(document, flags, environment.environ, labels)
    reading = SettingsReader(environment, need_secrets=need_secrets)
    settings = _with_proxy(reading.settings(document))
    mistakes += reading.mistakes
    reported = {mistake.path for mistake in mistakes}
    mistakes += [one for one in checks.mistakes(settings) if one.path not in reported]
    if mistakes:
        raise ConfigMistakesError([_labelled(one, labels) for one in mistakes])
    found = [*checks.warnings(settings), *checks.unused_proxies(settings, environment.environ)]
    return Loaded(settings=settings, warnings=tuple(_labelled(one, labels) for one in found))


def _with_proxy(settings: Settings) -> Settings:
    """Give upstreams without a proxy the server's."""
    rule = settings.server.proxy
    if rule is None:
        return settings
    upstreams = {
        name: one if one.proxy is not None else structs.replace(one, proxy=rule)
        for name, one in settings.upstreams.items()
    }
    return structs.replace(settings, upstreams=upstreams)


def find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the file that is used when no flag names one; None: there is none.

    The file that `DRAGOMAN_CONFIG` names is returned even if it does not exist: reading it then fails.
    """
    if environ.get(FILE_VARIABLE):
        return cwd / environ[FILE_VARIABLE]
    return next((one for one in usual_files(environ, cwd) if one.is_file()), None)


def usual_files(environ: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """Return where a file is looked for, in order: this folder, then the folder for settings."""
    folders = [cwd]
    if Path(environ.get("XDG_CONFIG_HOME", "")).is_absolute():
        folders.append(Path(environ["XDG_CONFIG_HOME"], "dragoman"))
    elif home := environ.get("HOME") or environ.get("USERPROFILE"):  # the second: on Windows
        folders.append(Path(home, ".config", "dragoman"))
    return tuple(folder / FILE_NAME for folder in folders)


def parse(path: Path, cwd: Path) -> Document:
    """Return the document in a file.

    Raises:
        ConfigError: it cannot be read, or `ConfigMistakesError` with the place where it is not TOML.
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


def _not_toml(error: str) -> Mistake:
    reason, at, place = error.removesuffix(")").rpartition(" (at ")
    if not at or not error.endswith(")"):
        reason, place = error, ""
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


# --- values of the environment and of flags ---


def apply_environment(document: Document, environ: Mapping[str, str], labels: Labels) -> None:
    """Put the variables' values into the document."""
    for variable, (table, key) in VARIABLES.items():
        value = environ.get(variable, "").strip()
        # Kubernetes sets `DRAGOMAN_PORT=tcp://…` beside a service that is called `dragoman`.
        if value and not (key == "port" and value.startswith("tcp://")):
            number = value.isascii() and value.isdigit() and len(value) < 10
            _put(document, table, key, int(value) if number else value)
            labels[f"{table}.{key}"] = variable


def apply_flags(
    document: Document, flags: Flags, environ: Mapping[str, str], labels: Labels
) -> list[Mistake]:
    """Put the flags' values into the document; return mistakes in how they were combined."""
    for key in ("host", "port", "workers", "insecure"):
        value = getattr(flags, key)
        if value is not None:
            _put(document, "server", key, value)
            labels[f"server.{key}"] = f"--{key}"
    if flags.record is not None:
        _put(document, "record", "dir", flags.record)
        labels["record.dir"] = "--record"
    if flags.upstream is not None:
        name, mistakes = DEFAULT_UPSTREAM, list[Mistake]()
        document["upstreams"] = {name: {"base_url": flags.upstream}}
        document.pop("tiers", None)
        document["routes"] = [_catch_all(name, flags.model)]
        labels[f"upstreams.{name}.base_url"] = "--upstream"
    else:
        name, mistakes = _only_upstream(document, flags)
        if name and flags.model is not None:
            document.pop("tiers", None)
            document["routes"] = [_catch_all(name, flags.model)]
    mistakes += _connect_by(document, flags, labels)
    if name:
        labels["routes[1].to[1]"] = "--model" if flags.model is not None else "--upstream"
        _describe(document, name, flags, environ, labels)
        mistakes += _missing_key(document, name, flags, labels)
    return mistakes


def _catch_all(name: str, model: str | None) -> Document:
    return {"match": {"model": "*"}, "to": [f"{name}/{'*' if model is None else model}"]}


def _only_upstream(document: Document, flags: Flags) -> tuple[str, list[Mistake]]:
    """Return the one upstream that flags without `--upstream` are about; empty: they say nothing."""
    given = structs.asdict(flags)
    about = [
        f"--{flag.replace('_', '-')}"
        for flag in ("upstream_dialect", "upstream_key_env", "no_key", "model", "format")
        if given[flag] is not None
    ]
    if not about:
        return "", []
    upstreams = document.get("upstreams")
    names = list(upstreams) if isinstance(upstreams, dict) else []
    if len(names) == 1:
        return str(names[0]), []
    missing = (
        f"the file has {len(names)} upstreams, and it is not clear which one is meant"
        if names
        else _NO_UPSTREAM
    )
    return "", [Mistake(flag, missing, "add --upstream URL") for flag in about]


def _describe(
    document: Document, name: str, flags: Flags, environ: Mapping[str, str], labels: Labels
) -> None:
    """Put into an upstream's table what the flags say of it."""
    upstreams = document["upstreams"]
    table = upstreams.get(name) if isinstance(upstreams, dict) else None
    if not isinstance(table, dict):
        return  # the reader reports it
    variable = flags.upstream_key_env
    if variable is None and flags.upstream is not None and not flags.no_key:
        variable = _usual_variable(flags.upstream, environ)
    if flags.no_key:
        table.pop("key", None)
    given = (
        ("dialect", flags.upstream_dialect, "--upstream-dialect"),
        ("auth", "none" if flags.no_key else None, "--no-key"),
        ("key", None if variable is None else f"env:{variable}", "--upstream-key-env"),
        ("format", flags.format, "--format"),
    )
    for key, value, flag in given:
        if value is not None:
            table[key] = value
            labels[f"upstreams.{name}.{key}"] = flag
    if flags.format is not None:
        routes = document.get("routes")
        for route in routes if isinstance(routes, list) else ():
            if isinstance(route, dict):
                route.pop("format", None)


def _connect_by(document: Document, flags: Flags, labels: Labels) -> list[Mistake]:
    """Put the flags about connections into the table of every upstream."""
    upstreams = document.get("upstreams")
    tables = upstreams if isinstance(upstreams, dict) else {}
    given = (("--proxy", flags.proxy), ("--tls-ca", flags.tls_ca))
    if not tables:
        return [Mistake(flag, _NO_UPSTREAM, "add --upstream URL") for flag, text in given if text]
    for name, table in tables.items():
        if not isinstance(table, dict):
            continue  # the reader reports it
        if flags.proxy is not None:
            table["proxy"] = flags.proxy
            labels[f"upstreams.{name}.proxy"] = "--proxy"
        if flags.tls_ca is not None and isinstance(tls := table.setdefault("tls", {}), dict):
            tls["ca"] = str(Path(flags.tls_ca).absolute())
            labels[f"upstreams.{name}.tls.ca"] = "--tls-ca"
    return []


def _missing_key(document: Document, name: str, flags: Flags, labels: Labels) -> Iterator[Mistake]:
    """Find flags that name a vendor and no key for it, or a key and its absence."""
    if flags.no_key and flags.upstream_key_env is not None:
        yield Mistake("--no-key", "contradicts --upstream-key-env", "remove one of them")
    vendor = None if flags.upstream is None else vendor_at(flags.upstream)
    upstreams = document["upstreams"]
    table = upstreams[name] if isinstance(upstreams, dict) else {}
    if vendor is None or not vendor.key_variable or flags.no_key or "key" in table:
        return
    # The same path as the check for files has: one mistake is reported once.
    path = f"upstreams.{name}.key"
    labels[path] = "--upstream"
    variable = vendor.key_variable
    if _sends_usual_key(flags.upstream or ""):
        message = f"{vendor.title} needs a key, and {variable} is not set"
        how = f"export {variable}=…, name another variable with --upstream-key-env, or pass --no-key if it needs none"
    else:
        message = f"{vendor.title} needs a key"
        how = "name the variable that holds it with --upstream-key-env, or pass --no-key if it needs none"
    yield Mistake(path, message, how)


def _usual_variable(address: str, environ: Mapping[str, str]) -> str | None:
    """Return the variable in which a vendor's key usually is, if it is set and goes to that vendor."""
    vendor = vendor_at(address)
    if vendor is None or not _sends_usual_key(address):
        return None
    return vendor.key_variable if environ.get(vendor.key_variable) else None


def _sends_usual_key(address: str) -> bool:
    """Return whether an address is where a vendor's key may be sent without being named."""
    return address.startswith("https://") and not urlsplit(address).port


def _put(document: Document, table: str, key: str, value: object) -> None:
    held = document.setdefault(table, {})
    if isinstance(held, dict):  # else the reader reports it
        held[key] = value
