"""What must hold between settings, after each was read alone: mistakes, and warnings.

Each check is a function over the whole; the two tables at the end are the list of them.
"""

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from msgspec import structs

from dragoman.gateway.config.mistakes import Mistake, did_you_mean
from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from dragoman.gateway.config.texts import is_near
from dragoman.gateway.config.vendors import vendor_at
from dragoman.gateway.globs import Glob, is_glob
from dragoman.gateway.origins import is_loopback
from dragoman.gateway.overrides import check as check_overrides
from dragoman.profiles.catalogue import ALIASES, PROFILES

_SEAL_KEY_BYTES: Final = 16


def mistakes(settings: Settings) -> list[Mistake]:
    """Return everything that keeps these settings from being used."""
    return [mistake for check in _MISTAKES for mistake in check(settings)]


def warnings(settings: Settings) -> list[Mistake]:
    """Return what is allowed and probably not meant."""
    return [warning for check in _WARNINGS for warning in check(settings)]


# --- mistakes ---


def _public_without_keys(settings: Settings) -> Iterator[Mistake]:
    server = settings.server
    if server.keys or server.insecure or is_loopback(server.host):
        return
    yield Mistake(
        "server.host",
        f"`{server.host}` is open to the network and no key is asked",
        'set `keys = ["env:DRAGOMAN_KEY"]`, or `insecure = true` if everyone may use it',
    )


def _names_of_keys(settings: Settings) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for number, key in enumerate(settings.server.keys, start=1):
        name = key.name or f"key-{number}"
        if name in seen:
            yield Mistake(
                f"server.keys[{number}].name", f"key {seen[name]} has the name `{name}` already"
            )
        seen.setdefault(name, number)


def _same_keys(settings: Settings) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for number, key in enumerate(settings.server.keys, start=1):
        value = key.key.value
        if value and value in seen:
            yield Mistake(f"server.keys[{number}].key", f"the same secret as key {seen[value]}")
        seen.setdefault(value, number)


def _seal_key(settings: Settings) -> Iterator[Mistake]:
    secret = settings.server.seal_key
    if secret is None or not secret.value:  # absent, or not looked up
        return
    if len(secret.value.encode("utf-8", "surrogatepass")) < _SEAL_KEY_BYTES:
        yield Mistake(
            "server.seal_key",
            f"must have at least {_SEAL_KEY_BYTES} bytes: who guesses it can forge reasoning state",
            "make one with `openssl rand -hex 32`",
        )


def _limits(settings: Settings) -> Iterator[Mistake]:
    for name, value in structs.asdict(settings.server.limits).items():
        if value < 1:
            yield Mistake(f"server.limits.{name}", f"must be at least 1, not {value}")


def _inflight_bytes(settings: Settings) -> Iterator[Mistake]:
    """Find a process that could not take even one of the requests that it allows."""
    server = settings.server
    if server.max_inflight_bytes < server.limits.max_request_bytes:
        yield Mistake(
            "server.max_inflight_bytes",
            f"{server.max_inflight_bytes} is less than `server.limits.max_request_bytes`"
            f" ({server.limits.max_request_bytes}): the largest request would never fit",
        )


def _formats_of_upstreams(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        if not upstream.format:
            yield Mistake(
                f"upstreams.{name}.format", "no tool-call format", "write `auto` or `none`"
            )


def _profiles(settings: Settings) -> Iterator[Mistake]:
    """Find names of profiles that neither the file nor the package has."""
    named = [(f"upstreams.{name}", one.profile) for name, one in settings.upstreams.items()]
    named += [(f"routes[{at}]", one.profile) for at, one in enumerate(settings.routes, start=1)]
    known = {*settings.profiles, *PROFILES, *ALIASES}
    for path, wanted in named:
        if wanted and wanted not in known:
            listed = ", ".join([*settings.profiles, *sorted(PROFILES)])
            near = did_you_mean(wanted, [*settings.profiles, *PROFILES, *ALIASES])
            yield Mistake(
                f"{path}.profile", f"no profile `{wanted}`", near or f"there are {listed}"
            )


def _certificates(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        if upstream.tls.key and not upstream.tls.cert:
            yield Mistake(f"upstreams.{name}.tls.key", "a private key without `cert`")


def _targets(settings: Settings) -> Iterator[Mistake]:
    """Find targets that name no upstream."""
    listed = [
        (f"routes[{number}].to", route.to) for number, route in enumerate(settings.routes, start=1)
    ]
    listed += [(f"tiers.{tier}", targets) for tier, targets in settings.tiers.items()]
    for path, targets in listed:
        for number, target in enumerate(targets, start=1):
            name = target.partition("/")[0]
            if name not in settings.upstreams:
                known = ", ".join(f"`{one}`" for one in settings.upstreams)
                yield Mistake(
                    f"{path}[{number}]",
                    f"there is no upstream `{name}`",
                    did_you_mean(name, settings.upstreams)
                    or (f"there are {known}" if known else "add a table `[upstreams.NAME]`"),
                )


def _names_of_routes(settings: Settings) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for number, route in enumerate(settings.routes, start=1):
        name = route.name or f"route-{number}"
        if name in seen:
            yield Mistake(
                f"routes[{number}].name", f"route {seen[name]} has the name `{name}` already"
            )
        seen.setdefault(name, number)


def _overrides(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        for told in check_overrides(route.params):
            yield Mistake(f"routes[{number}].params", told)


# --- warnings ---


def _insecure(settings: Settings) -> Iterator[Mistake]:
    server = settings.server
    if server.insecure and not server.keys and not is_loopback(server.host):
        yield Mistake("server.insecure", f"everyone who reaches `{server.host}` may use your keys")


def _several_memories(settings: Settings) -> Iterator[Mistake]:
    if settings.server.workers > 1 and settings.store.responses == "memory":
        yield Mistake(
            "store.responses",
            f"each of {settings.server.workers} processes keeps its own answers, and finds no others",
            'set it to "sqlite", or to "off" if no client asks for kept answers',
        )


def _unreachable_routes(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        for before, earlier in enumerate(settings.routes[: number - 1], start=1):
            if _covers(earlier.match, route.match):
                yield Mistake(
                    f"routes[{number}]",
                    f"never reached: {_called(earlier, before)} takes everything it could take",
                    "put it before",
                )
                break


def _unreachable_tiers(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        if settings.tiers and _covers(route.match, Match()):
            yield Mistake(
                "tiers",
                f"never reached: {_called(route, number)} takes every model, and routes come first",
            )
            break


def _called(route: Route, number: int) -> str:
    return f"route {number} (`{route.name}`)" if route.name else f"route {number}"


def _covers(earlier: Match, later: Match) -> bool:
    """Return whether whatever fits the later match also fits the earlier one."""
    glob, name = earlier.model.lower(), later.model.lower()
    if not (glob in ("*", name) or (not is_glob(name) and Glob(glob).matches(name))):
        return False
    if earlier.tokens_above is not None and (
        later.tokens_above is None or later.tokens_above < earlier.tokens_above
    ):
        return False
    headers = {name.lower(): glob.lower() for name, glob in later.header.items()}
    return (
        earlier.thinking in (None, later.thinking)
        and earlier.images in (None, later.images)
        and earlier.dialect in (None, later.dialect)
        and all(
            name.lower() in headers and glob.lower() in ("*", headers[name.lower()])
            for name, glob in earlier.header.items()
        )
    )


def _chained_aliases(settings: Settings) -> Iterator[Mistake]:
    names = {name.lower() for name in settings.aliases}
    for name, meant in settings.aliases.items():
        if meant.lower() in names and meant.lower() != name.lower():
            yield Mistake(
                f'aliases."{name}"', f"`{meant}` is an alias too, and aliases are followed once"
            )


def _addresses(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        path = f"upstreams.{name}.base_url"
        parts = urlsplit(upstream.base_url)
        vendor = vendor_at(upstream.base_url)
        if vendor is not None and not parts.path and urlsplit(vendor.base_url).path:
            yield Mistake(
                path,
                f"this address of {vendor.says} has no path",
                f"`{vendor.base_url}` is the usual one",
            )
        if parts.scheme == "http" and upstream.key and not is_near(parts.hostname or ""):
            yield Mistake(path, "the key travels unencrypted", "write `https://…` if it is served")


def _verification(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        if not upstream.base_url.startswith("http://"):
            if not upstream.tls.verify:
                yield Mistake(
                    f"upstreams.{name}.tls.verify",
                    "anyone between here and there can read the key and change answers",
                    "name the authority by `ca` instead",
                )
        elif _has_tls(upstream):
            yield Mistake(f"upstreams.{name}.tls", "of no use: the address begins with `http://`")


def _has_tls(upstream: Upstream) -> bool:
    return bool(upstream.tls.ca or upstream.tls.cert or not upstream.tls.verify)


_Check = Callable[[Settings], Iterator[Mistake]]

_MISTAKES: Final[tuple[_Check, ...]] = (
    _public_without_keys,
    _names_of_keys,
    _same_keys,
    _seal_key,
    _limits,
    _inflight_bytes,
    _formats_of_upstreams,
    _profiles,
    _certificates,
    _targets,
    _names_of_routes,
    _overrides,
)
_WARNINGS: Final[tuple[_Check, ...]] = (
    _insecure,
    _several_memories,
    _unreachable_routes,
    _unreachable_tiers,
    _chained_aliases,
    _addresses,
    _verification,
)
