"""The upstreams of `dragoman mcp`: a client for the first target of each route in the settings.

Retries, fallbacks to further targets and changes to requests are features of the gateway, not of this module.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.cli.models import list_models
from dragoman.client.client import Client
from dragoman.client.settings import Timeouts
from dragoman.dialects import dialect as find_dialect
from dragoman.errors import ConfigError
from dragoman.gateway.config.formats import declared_formats
from dragoman.gateway.config.settings import Route, Settings
from dragoman.gateway.plan import upstream_headers
from dragoman.gateway.routing import Hop, Question, RouteChoice, Router
from dragoman.mcp_server.upstreams import ListedModel, ModelList, Target
from dragoman.toolcalls.format import Format
from dragoman.transport import TLS

# Headers that carry a key: see `_headers`.
_AUTH: Final = frozenset({"authorization", "x-api-key"})


class RoutedUpstreams:
    """The upstream of each model, by the settings.

    Raises:
        ConfigError: a route names an unknown upstream.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._router = Router(settings)
        self._clients: dict[tuple[str, str], Client] = {}  # by route and upstream
        self.formats: tuple[Format, ...] = declared_formats(settings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that have no effect here."""
        paths = [
            f"upstreams.{name}.body" for name, up in self._settings.upstreams.items() if up.body
        ]
        for number, route in enumerate(self._settings.routes, start=1):
            paths += [f"routes[{number}].body"] if route.body else []
            paths += [f"routes[{number}].params"] if route.params else []
            paths += [f"routes[{number}].auth"] if route.auth == "passthrough" else []
        return tuple(f"`{path}` has no effect here" for path in paths)

    def target(self, model: str, /) -> Target:
        """Return the client and the upstream's name for a model.

        Raises:
            ConfigError: no route matches.
        """
        choice = self._router.choose(Question(model=model))
        if choice is None:
            raise ConfigError(
                f"no route for the model `{model[:200]}`; `list_models` lists the models"
            )
        hop = choice.hops[0]
        if not hop.model:
            raise ConfigError("no default model is set; pass `model`")
        key = (choice.route_name, hop.upstream_name)
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._client(choice, hop)
        return Target(client, hop.model)

    async def models(self) -> ModelList:
        listed, faults = await list_models(self._settings)
        models = [
            ListedModel(
                name=one.name,
                owner=one.owner,
                context=one.facts.context or None,
                output=one.facts.output or None,
            )
            for one in listed
        ]
        return ModelList(models=models, unreachable=[fault.message for fault in faults])

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def _client(self, choice: RouteChoice, hop: Hop) -> Client:
        upstream, times, tls = hop.upstream, hop.timeouts, hop.upstream.tls
        as_usual = upstream.auth in ("auto", find_dialect(upstream.dialect).auth)
        key = upstream.key.value if upstream.key is not None and as_usual else ""
        return Client(
            upstream.base_url,
            dialect=upstream.dialect,
            api_key=key,
            profile=hop.profile,
            native_format=hop.native_format,
            limits=self._settings.server.limits,
            timeouts=Timeouts(
                connect=times.connect,
                first_byte=times.first_byte,
                idle=times.idle,
                total=times.total,
            ),
            tls=TLS(verify=tls.verify, ca=tls.ca, cert=tls.cert, key=tls.key),
            headers=_headers(hop, choice.route, has_key=bool(key)),
            strict=upstream.strict,
        )


def _headers(hop: Hop, route: Route, *, has_key: bool) -> Mapping[str, str]:
    """Return the headers that the settings add, without those that the client sends itself."""
    sent = {"content-type", *dict(find_dialect(hop.upstream.dialect).request_headers)}
    own = sent | (_AUTH if has_key else set())
    set_by_hand = {name.lower() for name in (*hop.upstream.headers, *route.headers)}
    headers = upstream_headers(hop, route, {}, same_dialect=False)
    return {
        name: value for name, value in headers.items() if name not in own or name in set_by_hand
    }
