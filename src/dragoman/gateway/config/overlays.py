"""What stands over the file: variables of the environment, and flags over those.

Both are written into the document before it is read, so that they are judged like the file; `Labels`
remembers where a value came from, so that a mistake names the flag and not the key.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, structs

from dragoman.gateway.config.mistakes import Mistake
from dragoman.gateway.config.vendors import vendor_at

Document: TypeAlias = dict[str, object]
Labels: TypeAlias = dict[str, str]  # path of a value: the flag or variable that set it

DEFAULT_UPSTREAM: Final = "default"  # the name of the upstream that flags describe

# Variables that stand over the file: table and key.
VARIABLES: Final[dict[str, tuple[str, str]]] = {
    "DRAGOMAN_HOST": ("server", "host"),
    "DRAGOMAN_PORT": ("server", "port"),
    "DRAGOMAN_WORKERS": ("server", "workers"),
    "DRAGOMAN_LOG_FORMAT": ("log", "format"),
    "DRAGOMAN_LOG_LEVEL": ("log", "level"),
}


class Flags(Struct, frozen=True, kw_only=True):
    """What the command line says; None: nothing."""

    upstream: str | None = None  # an address: replaces the file's upstreams, routes and tiers
    upstream_dialect: str | None = None
    upstream_key_env: str | None = None
    model: str | None = None
    format: str | None = None
    host: str | None = None
    port: int | None = None
    workers: int | None = None
    insecure: bool | None = None


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
    if name:
        labels["routes[1].to[1]"] = "--model" if flags.model is not None else "--upstream"
        _describe(document, name, flags, environ, labels)
    return mistakes


def _catch_all(name: str, model: str | None) -> Document:
    return {"match": {"model": "*"}, "to": [f"{name}/{'*' if model is None else model}"]}


def _only_upstream(document: Document, flags: Flags) -> tuple[str, list[Mistake]]:
    """Return the one upstream that flags without `--upstream` are about; empty: they say nothing."""
    said = structs.asdict(flags)
    about = [
        f"--{flag.replace('_', '-')}"
        for flag in ("upstream_dialect", "upstream_key_env", "model", "format")
        if said[flag] is not None
    ]
    if not about:
        return "", []
    upstreams = document.get("upstreams")
    names = list(upstreams) if isinstance(upstreams, dict) else []
    if len(names) == 1:
        return str(names[0]), []
    listed = f"the file names {len(names)} upstreams" if names else "no file names an upstream"
    return "", [
        Mistake(flag, f"of which upstream: {listed}", "add --upstream URL") for flag in about
    ]


def _describe(
    document: Document, name: str, flags: Flags, environ: Mapping[str, str], labels: Labels
) -> None:
    """Put into an upstream's table what the flags say of it."""
    upstreams = document["upstreams"]
    table = upstreams.get(name) if isinstance(upstreams, dict) else None
    if not isinstance(table, dict):
        return  # the reader will say so
    variable = flags.upstream_key_env
    if variable is None and flags.upstream is not None:
        variable = _usual_variable(flags.upstream, environ)
    said = (
        ("dialect", flags.upstream_dialect, "--upstream-dialect"),
        ("key", None if variable is None else f"env:{variable}", "--upstream-key-env"),
        ("format", flags.format, "--format"),
    )
    for key, value, flag in said:
        if value is not None:
            table[key] = value
            labels[f"upstreams.{name}.{key}"] = flag
    if flags.format is not None:
        routes = document.get("routes")
        for route in routes if isinstance(routes, list) else ():
            if isinstance(route, dict):
                route.pop("format", None)


def _usual_variable(address: str, environ: Mapping[str, str]) -> str | None:
    """Return the variable in which a vendor's key usually is, if it is set and goes to that vendor."""
    vendor = vendor_at(address)
    if vendor is None or not address.startswith("https://") or urlsplit(address).port:
        return None
    return vendor.key_variable if environ.get(vendor.key_variable) else None


def _put(document: Document, table: str, key: str, value: object) -> None:
    held = document.setdefault(table, {})
    if isinstance(held, dict):  # else the reader will say so
        held[key] = value
