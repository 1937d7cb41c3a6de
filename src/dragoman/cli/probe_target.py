"""The upstream that `dragoman probe` tests: from arguments and settings to a `Peer`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from dragoman.errors import ConfigError, did_you_mean
from dragoman.gateway.config.load import (
    DEFAULT_UPSTREAM,
    FILE_NAME,
    NO_FLAGS,
    Flags,
    Loaded,
    find_file,
    load,
)
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.read import names_secret
from dragoman.gateway.config.settings import Route, Secret, Settings
from dragoman.gateway.config.vendors import vendor_at
from dragoman.gateway.plan import proxy_of, secrets_of, tls_context, upstream_headers
from dragoman.gateway.routing import Hop, Router
from dragoman.probe.probe import Peer
from dragoman.toolcalls.format_names import choose_format
from dragoman.turn.request import DialectName

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*+:\s*+([\x20-\x7e]*)")
# Flags of `serve`, and what they are called in the messages of this command.
_LABELS: Final = {
    "--upstream": "URL",
    "--upstream-dialect": "--dialect",
    "--upstream-key-env": "--key-env",
}
_LEAST_SECRET: Final = 8  # characters; a shorter header value is not redacted
_ROUTE: Final = Route(to=())


class Wanted(Struct, frozen=True, kw_only=True):
    """The arguments that select an upstream."""

    where: str | None = None
    model: str | None = None
    dialect: DialectName | None = None
    key_env: str | None = None
    no_key: bool = False
    headers: tuple[str, ...] = ()
    flags: Flags = NO_FLAGS  # --proxy and --tls-ca


class Chosen(Struct, frozen=True, kw_only=True):
    """The upstream to probe, and the file that a profile would be saved in."""

    peer: Peer
    upstream: str  # its name in the settings; empty if it is not there
    file: Path
    base: str  # the built-in profile that it has so far
    key: str = ""  # as written in a settings file
    simulated: bool = False

    @property
    def shown(self) -> str:
        return "the built-in simulator" if self.simulated else self.peer.url

    @property
    def family(self) -> str:
        """The format of tool calls that the model's name implies."""
        found = choose_format(self.peer.model, own=self.peer.own_formats)
        return "" if found is None else found.key


def chosen(
    wanted: Wanted, path: Path | None, *, timeout: float, environ: Mapping[str, str], cwd: Path
) -> Chosen:
    """Find the upstream to probe.

    Raises:
        ConfigError: there is no such upstream, or its settings are not valid.
    """
    loaded = load(path, environ=environ, cwd=cwd, need_secrets=False)
    if wanted.flags != NO_FLAGS and loaded.settings.upstreams:
        loaded = load(path, environ=environ, cwd=cwd, flags=wanted.flags, need_secrets=False)
    file = loaded.path or find_file(environ, cwd) or cwd / FILE_NAME
    settings, name = _settings(wanted, loaded, environ, cwd)
    if not settings.upstreams:
        peer = Peer(
            url="", dialect=wanted.dialect or "chat", model=wanted.model or "", timeout=timeout
        )
        return Chosen(peer=peer, upstream="", file=file, base="generic", simulated=True)
    hop = next(one for one in Router(settings).upstreams() if one.upstream_name == name)
    return Chosen(
        peer=_peer(hop, settings, wanted, timeout),
        upstream=name if name in loaded.settings.upstreams else "",
        file=file,
        base=_base(hop, settings),
        key="" if hop.upstream.key is None else hop.upstream.key.source,
    )


def _settings(
    wanted: Wanted, loaded: Loaded, environ: Mapping[str, str], cwd: Path
) -> tuple[Settings, str]:
    """Return settings that contain the upstream, and its name in them."""
    where, known = wanted.where, loaded.settings.upstreams
    if where is None or "://" not in where:
        if where is None and not known:
            return Settings(), ""
        if where is None and len(known) > 1:
            raise ConfigError(
                f"the settings have several upstreams; name one of {', '.join(known)}"
            )
        name = where or next(iter(known))
        if name not in known:
            near = did_you_mean(name, known) or "a URL starts with `http://` or `https://`"
            raise ConfigError(f"there is no upstream `{name}`; {near}")
        return _overlaid(loaded.settings, name, wanted, environ), name
    address = where.rstrip("/")
    same = [name for name, one in known.items() if one.base_url == address]
    if same and wanted.dialect in (None, known[same[0]].dialect):
        return _overlaid(loaded.settings, same[0], wanted, environ), same[0]
    flags = structs.replace(
        wanted.flags,
        upstream=where,
        upstream_dialect=wanted.dialect or _usual_dialect(where),
        upstream_key_env=wanted.key_env,
        no_key=wanted.no_key or _header_has_key(wanted) or None,
        model=wanted.model,
    )
    try:
        found = load(loaded.path, environ=environ, cwd=cwd, flags=flags, need_secrets=False)
    except ConfigMistakesError as error:
        labelled = [
            structs.replace(
                one,
                path=_LABELS.get(one.path, one.path),
                suggestion=one.suggestion.replace("--upstream-key-env", "--key-env"),
            )
            for one in error.mistakes
        ]
        raise ConfigMistakesError(labelled, source=error.source) from error
    return found.settings, DEFAULT_UPSTREAM


def _overlaid(
    settings: Settings, name: str, wanted: Wanted, environ: Mapping[str, str]
) -> Settings:
    """Override an upstream of the settings with the flags."""
    upstream = settings.upstreams[name]
    if wanted.dialect is not None:
        upstream = structs.replace(upstream, dialect=wanted.dialect)
    if wanted.key_env is not None:
        value = environ.get(wanted.key_env, "").strip()
        upstream = structs.replace(upstream, key=Secret(f"env:{wanted.key_env}", value))
    if wanted.no_key:
        upstream = structs.replace(upstream, key=None, auth="none")
    return structs.replace(settings, upstreams={**settings.upstreams, name: upstream})


def _header_has_key(wanted: Wanted) -> bool:
    """Return whether a header of the flags carries the key."""
    names = (one.partition(":")[0].strip() for one in wanted.headers)
    return wanted.key_env is None and any(map(names_secret, names))


def _usual_dialect(address: str) -> DialectName | None:
    """Return the dialect of a known vendor at exactly this address."""
    vendor = vendor_at(address)
    if vendor is None or vendor.base_url != address.rstrip("/"):
        return None
    return vendor.dialect


def _peer(hop: Hop, settings: Settings, wanted: Wanted, timeout: float) -> Peer:
    upstream = hop.upstream
    if upstream.key is not None and not upstream.key.value:
        raise ConfigError(
            f"the key `{upstream.key.source}` is not set; set it, or name another variable with --key-env"
        )
    headers = upstream_headers(hop, _ROUTE, {}, same_dialect=False)
    given: list[str] = []
    for text in wanted.headers:
        parts = _HEADER.fullmatch(text.strip())
        if parts is None:
            raise ConfigError("--header needs the form 'NAME: VALUE'")
        headers[parts[1].lower()] = value = parts[2].strip()
        if len(value) >= _LEAST_SECRET:
            given.append(value)  # it may be a credential
    return Peer(
        url=upstream.base_url,
        dialect=upstream.dialect,
        model=wanted.model or _model(hop, settings),
        headers=headers,
        secrets=(*secrets_of(settings), *given),
        extra=upstream.body,
        tls=tls_context(upstream.tls, hop.upstream_name),
        proxy=proxy_of(upstream, hop.upstream_name),
        own_formats=hop.own_formats,
        timeout=timeout,
        profile=hop.profile,
    )


def _model(hop: Hop, settings: Settings) -> str:
    """Return the first model that the settings name for an upstream."""
    targets = [target for route in settings.routes for target in route.to]
    targets += [target for tier in settings.tiers.values() for target in tier]
    named = [
        model
        for upstream, _, model in (target.partition("/") for target in targets)
        if upstream == hop.upstream_name and "*" not in model
    ]
    return next(iter((*named, *hop.upstream.models)), "")


def _base(hop: Hop, settings: Settings) -> str:
    """Return the built-in profile that an upstream's profile is based on."""
    own = settings.profiles.get(hop.profile.name)
    if own is not None:
        return own.base or "generic"
    return hop.profile.name
