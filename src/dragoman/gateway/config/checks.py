"""Checks of settings that depend on each other.

Each check is a function over all settings; the two tables at the end list these functions.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import structs
from yarl import URL

from dragoman.errors import ConfigError, did_you_mean
from dragoman.gateway.config.formats import format_mistakes
from dragoman.gateway.config.problems import Mistake
from dragoman.gateway.config.settings import Match, Route, Secret, Settings, Upstream
from dragoman.gateway.config.texts import is_near
from dragoman.gateway.config.vendors import vendor_at
from dragoman.gateway.origins import is_loopback
from dragoman.gateway.overrides import check as check_overrides
from dragoman.gateway.routing import Router
from dragoman.globs import Glob, is_glob
from dragoman.profiles.catalogue import ALIASES as PROFILE_ALIASES
from dragoman.profiles.catalogue import PROFILES
from dragoman.transport import environment_rule

_SEAL_KEY_BYTES: Final = 16
_STATE_ADDRESS: Final = re.compile(r"rediss?://.")


def mistakes(settings: Settings) -> list[Mistake]:
    """Return the errors because of which these settings cannot be used."""
    return [mistake for check in _MISTAKES for mistake in check(settings)]


def warnings(settings: Settings) -> list[Mistake]:
    """Return warnings about settings that are valid, but probably a mistake."""
    return [warning for check in _WARNINGS for warning in check(settings)]


# --- mistakes ---


def _public_without_keys(settings: Settings) -> Iterator[Mistake]:
    server = settings.server
    if server.keys or server.insecure or is_loopback(server.host):
        return
    yield Mistake(
        "server.host",
        f"`{server.host}` can be reached from the network, and no key is required",
        'under [server] set `keys = ["env:DRAGOMAN_KEY"]`, or `insecure = true` (--insecure) if everyone may use it',
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
            f"must have at least {_SEAL_KEY_BYTES} bytes, because anyone who guesses it can forge reasoning state",
            "make one with `openssl rand -hex 32`",
        )


def _state(settings: Settings) -> Iterator[Mistake]:
    secret = settings.server.state
    if secret is not None and secret.value and not _STATE_ADDRESS.match(secret.value):
        yield Mistake("server.state", "must be an address `redis://…` or `rediss://…`")


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
    known = {*settings.profiles, *PROFILES, *PROFILE_ALIASES}
    for path, wanted in named:
        if wanted and wanted not in known:
            listed = ", ".join([*settings.profiles, *sorted(PROFILES)])
            near = did_you_mean(wanted, [*settings.profiles, *PROFILES, *PROFILE_ALIASES])
            yield Mistake(
                f"{path}.profile", f"no profile `{wanted}`", near or f"there are {listed}"
            )


def _certificates(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        if upstream.tls.key and not upstream.tls.cert:
            yield Mistake(f"upstreams.{name}.tls.key", "a private key without `cert`")


def _proxies(settings: Settings) -> Iterator[Mistake]:
    """Find proxies of the environment that cannot be used; other addresses were checked when they were read."""
    for name, upstream in settings.upstreams.items():
        try:
            if upstream.proxy is not None and upstream.proxy.found:
                upstream.proxy.find(URL(upstream.base_url))
        except ConfigError as error:
            yield Mistake(f"upstreams.{name}.proxy", str(error))


def _vendor_keys(settings: Settings) -> Iterator[Mistake]:
    """Find vendors that need a key and get none: every request to them would fail."""
    for name, upstream in settings.upstreams.items():
        path = f"upstreams.{name}.key"
        vendor = vendor_at(upstream.base_url)
        if upstream.auth == "none" and upstream.key is not None:
            yield Mistake(path, 'never sent, because of `auth = "none"`', "remove one of them")
        if upstream.auth == "none" or upstream.key is not None or vendor is None:
            continue
        if vendor.key_variable and not _has_other_credential(name, settings):
            yield Mistake(
                path,
                f"{vendor.title} needs a key",
                f'write `key = "env:{vendor.key_variable}"` and export {vendor.key_variable}=…, '
                'or write `auth = "none"` if it needs none',
            )


def _has_other_credential(name: str, settings: Settings) -> bool:
    """Return whether requests to an upstream carry a header with a credential, or the client's own."""
    if _credential_header(settings.upstreams[name].headers):
        return True
    prefix = f"{name}/"
    if any(one.startswith(prefix) for targets in settings.tiers.values() for one in targets):
        return False
    routes = [one for one in settings.routes if any(to.startswith(prefix) for to in one.to)]
    return bool(routes) and all(
        one.auth == "passthrough" or _credential_header(one.headers) for one in routes
    )


def _credential_header(headers: Mapping[str, Secret | str]) -> bool:
    return any(isinstance(value, Secret) for value in headers.values())


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


def _weights(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        path = f"routes[{number}].weights"
        if not route.weights:
            continue
        if route.choose == "in_order":
            yield Mistake(
                path,
                "never used: the targets are asked in order",
                'write `choose = "weighted"`, "least_busy" or "sticky"',
            )
        elif len(route.weights) != len(route.to):
            yield Mistake(
                path,
                f"there are {len(route.to)} targets in `to` and {len(route.weights)} weights",
                "write one number for each target",
            )
        elif not any(route.weights):
            yield Mistake(path, "all weights are 0", "a target of weight 0 is only a fallback")


def _overrides(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        for message in check_overrides(route.params):
            yield Mistake(f"routes[{number}].params", message)


def _several_processes(settings: Settings) -> Iterator[Mistake]:
    if settings.server.workers > 1 and not hasattr(os, "fork"):
        yield Mistake(
            "server.workers",
            f"processes cannot share a port on this system ({sys.platform})",
            "leave it at 1; for more, start several gateways on different ports",
        )


# --- warnings ---


def _insecure(settings: Settings) -> Iterator[Mistake]:
    server = settings.server
    if server.insecure and not server.keys and not is_loopback(server.host):
        yield Mistake("server.insecure", f"everyone who reaches `{server.host}` may use your keys")


def _several_memories(settings: Settings) -> Iterator[Mistake]:
    alone = settings.server.state is None
    if settings.server.workers > 1 and settings.store.responses == "memory" and alone:
        yield Mistake(
            "store.responses",
            f"each of {settings.server.workers} processes stores its own responses and does not find those of the others",
            'set it to "sqlite", or to "off" if no client uses stored responses',
        )


def _unused_queues(settings: Settings) -> Iterator[Mistake]:
    for number, key in enumerate(settings.server.keys, start=1):
        if key.max_queue and not key.concurrent:
            yield Mistake(
                f"server.keys[{number}].max_queue",
                "has no effect without a limit of concurrent requests",
                "set `concurrent`",
            )
    usual = {field.name: field.default for field in structs.fields(Upstream)}["max_queue"]
    for name, upstream in settings.upstreams.items():
        if upstream.max_queue != usual and not upstream.max_concurrent:
            yield Mistake(
                f"upstreams.{name}.max_queue",
                "has no effect without a limit of concurrent requests",
                "set `max_concurrent`",
            )


def _unreachable_routes(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        for before, earlier in enumerate(settings.routes[: number - 1], start=1):
            if _covers(earlier.match, route.match):
                yield Mistake(
                    f"routes[{number}]",
                    f"never reached: {_called(earlier, before)} matches everything that it matches",
                    "move it before that one",
                )
                break


def _unreachable_tiers(settings: Settings) -> Iterator[Mistake]:
    for number, route in enumerate(settings.routes, start=1):
        if settings.tiers and _covers(route.match, Match()):
            yield Mistake(
                "tiers",
                f"never reached: {_called(route, number)} matches every model, and routes are checked first",
            )
            break


def _called(route: Route, number: int) -> str:
    return f"route {number} (`{route.name}`)" if route.name else f"route {number}"


def _covers(earlier: Match, later: Match) -> bool:
    """Return whether every request that fits the later match also fits the earlier one."""
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
        and earlier.server_tool in (None, later.server_tool)
        and earlier.offers_server_tool in (None, later.offers_server_tool)
        and earlier.dialect in (None, later.dialect)
        and all(
            name.lower() in headers and glob.lower() in ("*", headers[name.lower()])
            for name, glob in earlier.header.items()
        )
    )


def _routes_without_the_tool(settings: Settings) -> Iterator[Mistake]:
    """Find routes for a vendor-run tool that none of their upstreams runs."""
    hops = iter(Router(settings).hops())
    for number, route in enumerate(settings.routes, start=1):
        targets = [next(hops) for _ in route.to]
        tool = route.match.server_tool
        if tool is None or any(hop.may_run(tool) for hop in targets):
            continue
        yield Mistake(
            f"routes[{number}].match.server_tool",
            f"no target of the route is known to run `{tool}`: requests that need it are refused",
            "choose an upstream that runs it, or set `profile` of one",
        )


def _unreachable_prices(settings: Settings) -> Iterator[Mistake]:
    for number, price in enumerate(settings.prices, start=1):
        upstream, slash, _ = price.model.partition("/")
        if not is_glob(upstream) and upstream not in settings.upstreams:
            yield Mistake(
                f"prices[{number}].model",
                f"never used: there is no upstream `{upstream}`",
                did_you_mean(upstream, settings.upstreams)
                or ("" if slash else f"write `*/{price.model}` for every upstream"),
            )
        for before, earlier in enumerate(settings.prices[: number - 1], start=1):
            glob, name = earlier.model.lower(), price.model.lower()
            if glob in ("*", name) or (not is_glob(name) and Glob(glob).matches(name)):
                yield Mistake(
                    f"prices[{number}].model",
                    f"never used: price {before} (`{earlier.model}`) matches everything that it matches",
                    "move it before that one",
                )
                break


def _budgets(settings: Settings) -> Iterator[Mistake]:
    """Find budgets that count nothing, or only until the next restart."""
    for number, key in enumerate(settings.server.keys, start=1):
        name = "budget_month" if key.budget_month else "budget_day"
        if not (key.budget_month or key.budget_day):
            continue
        if not settings.prices:
            yield Mistake(
                f"server.keys[{number}].{name}",
                "counts only responses whose upstream reports a cost",
                "add `[[prices]]` for the others",
            )
        elif key.budget_month and settings.server.state is None:
            yield Mistake(
                f"server.keys[{number}].{name}",
                "a restart of the gateway forgets what was spent",
                "set `server.state` to keep it in Redis",
            )


def _chained_aliases(settings: Settings) -> Iterator[Mistake]:
    names = {name.lower() for name in settings.aliases}
    for name, meant in settings.aliases.items():
        if meant.lower() in names and meant.lower() != name.lower():
            yield Mistake(
                f'aliases."{name}"',
                f"`{meant}` is an alias too, and aliases are resolved only once",
            )


def _addresses(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        path = f"upstreams.{name}.base_url"
        parts = urlsplit(upstream.base_url)
        vendor = vendor_at(upstream.base_url)
        if vendor is not None and not parts.path and urlsplit(vendor.base_url).path:
            yield Mistake(
                path,
                f"this address of {vendor.description} has no path",
                f"`{vendor.base_url}` is the usual one",
            )
        if parts.scheme == "http" and upstream.key and not is_near(parts.hostname or ""):
            yield Mistake(
                path, "the key is sent unencrypted", "write `https://…` if the server supports it"
            )


def _verification(settings: Settings) -> Iterator[Mistake]:
    for name, upstream in settings.upstreams.items():
        if not upstream.base_url.startswith("http://"):
            if not upstream.tls.verify:
                yield Mistake(
                    f"upstreams.{name}.tls.verify",
                    "anyone on the network path can read the key and change responses",
                    "set `ca` to the authority's file instead",
                )
        elif _has_tls(upstream):
            yield Mistake(
                f"upstreams.{name}.tls", "has no effect: the address begins with `http://`"
            )


def unused_proxies(settings: Settings, environ: Mapping[str, str]) -> Iterator[Mistake]:
    """Find upstreams on the internet that the environment's proxy is not used for: most often by oversight."""
    rule = environment_rule(environ)
    for name, upstream in settings.upstreams.items():
        url = URL(upstream.base_url)
        if upstream.proxy is None and not is_near(url.host or "") and rule.address(url):
            yield Mistake(
                f"upstreams.{name}.proxy",
                f"{url.scheme.upper()}_PROXY is set and not used",
                'write `proxy = "env"` (or --proxy env) to use it, or `proxy = "none"`',
            )


def _has_tls(upstream: Upstream) -> bool:
    return bool(upstream.tls.ca or upstream.tls.cert or not upstream.tls.verify)


_Check = Callable[[Settings], Iterator[Mistake]]

_MISTAKES: Final[tuple[_Check, ...]] = (
    _public_without_keys,
    _names_of_keys,
    _same_keys,
    _seal_key,
    _state,
    _limits,
    _inflight_bytes,
    _formats_of_upstreams,
    format_mistakes,
    _profiles,
    _certificates,
    _proxies,
    _vendor_keys,
    _targets,
    _names_of_routes,
    _weights,
    _overrides,
    _several_processes,
)
_WARNINGS: Final[tuple[_Check, ...]] = (
    _insecure,
    _several_memories,
    _unused_queues,
    _unreachable_routes,
    _unreachable_tiers,
    _routes_without_the_tool,
    _unreachable_prices,
    _budgets,
    _chained_aliases,
    _addresses,
    _verification,
)
