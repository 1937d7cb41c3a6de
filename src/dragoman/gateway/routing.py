"""Where a request goes: aliases, then routes, then tiers, then `upstream/model`, then the only upstream.

A name is first replaced by its alias, if it has one.  Then the first that fits decides:

1. a route, in the order of the file;
2. a tier: `haiku` means every name such as `claude-haiku-4-5`;
3. `upstream/model`, which names its upstream;
4. the only upstream there is, if there are no routes at all.

Everything is worked out once, from settings that were checked; choosing compiles and looks up nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from dragoman.context import Rendering
from dragoman.dialects import dialect
from dragoman.errors import ConfigError
from dragoman.gateway.config.formats import declared_formats
from dragoman.gateway.config.settings import (
    Match,
    ModelFacts,
    ProfileChanges,
    Route,
    RouteServerTools,
    Server,
    Settings,
    TimeoutChanges,
    Timeouts,
    Upstream,
)
from dragoman.gateway.config.vendors import GENERIC, profile_for
from dragoman.gateway.target_order import TargetOrder
from dragoman.globs import Glob, fill, is_glob
from dragoman.profiles import for_model
from dragoman.profiles import profile as find_profile
from dragoman.profiles.catalogue import FAMILIES_WANTING_REASONING
from dragoman.profiles.profile import Profile
from dragoman.toolcalls.detection import bare_name, known_family
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import choose_format, own_format
from dragoman.turn.request import DialectName

# Test: test_tiers_of_claude_go_where_they_are_set.
# Names by which Claude Code asks for a tier.
_TIERS: Final[dict[Literal["haiku", "sonnet", "opus"], tuple[str, ...]]] = {
    "haiku": ("claude-*haiku*", "haiku"),
    "sonnet": ("claude-*sonnet*", "sonnet"),
    "opus": ("claude-*opus*", "opus"),
}
_NO_SERVER_TOOLS: Final = RouteServerTools()
_CHOICES: Final = 128  # models of one route whose targets are kept
DIRECT: Final = "direct"  # the name of the route of requests that name their upstream
ONLY: Final = "only"  # the name of the route to the only upstream there is


class Question(Struct, frozen=True, kw_only=True):
    """What routes may ask about a request."""

    model: str  # as the client names it
    dialect: DialectName = "chat"  # of the client
    thinking: bool = False
    tokens: int = 0  # by the estimate
    images: bool = False
    needed: frozenset[str] = frozenset()  # vendor-run tools, as `ServerKind` names them
    offered: frozenset[str] = frozenset()
    headers: Mapping[str, str] = {}  # names in lower case, or a mapping that ignores the case


class Hop(Struct, frozen=True, kw_only=True, dict=True):
    """One upstream that may answer."""

    upstream_name: str
    upstream: Upstream
    model: str  # as the upstream calls it
    profile: Profile
    format_name: str  # family of native tool calls, a format of the settings, `auto` or `none`
    timeouts: Timeouts
    own_formats: tuple[Format, ...] = ()  # that the settings declare
    counted: bool = (
        False  # its requests are: `max_concurrent` limits them, or a route compares them
    )

    @cached_property
    def model_profile(self) -> Profile:
        """The profile with what it leaves to the model."""
        family: str | None = self.format_name
        if family not in FAMILIES_WANTING_REASONING:
            family = known_family(self.model)
        return for_model(self.profile, bare_name(self.model), family, self.upstream.dialect)

    def may_run(self, tool: str) -> bool:
        """Return whether it is known to run a vendor-run tool; of a model that the client chooses, it may."""
        api, named = dialect(self.upstream.dialect), not is_glob(self.model)
        profile = self.model_profile if named else self.profile
        own = profile.vendor_tools or (profile.vendor_models and not named)
        return profile.runs(tool, api.name) or (own and not api.host_fields)

    @cached_property
    def native_format(self) -> Format | str:
        """The format of the settings that the model writes, else the name of the format."""
        return own_format(self.model, self.format_name, self.own_formats)

    @cached_property
    def family(self) -> Format | None:
        """The format of native tool calls that is looked for; None: there is none."""
        return choose_format(self.model, self.native_format)


class RouteChoice(Struct, frozen=True, kw_only=True):
    """The upstreams that may answer, in this order, and how they are asked."""

    route_name: str
    hops: tuple[Hop, ...]  # at least one
    route: Route
    rendering: Rendering  # how the client's answers look
    order: TargetOrder | None = None  # None: the hops are asked in their order
    counted: bool = False  # a hop is


class Listed(Struct, frozen=True, kw_only=True):
    """A model that clients may ask for."""

    name: str
    owner: str  # the upstream that is asked first
    facts: ModelFacts = ModelFacts()


class _Condition:
    """A `match` table, compiled."""

    __slots__ = ("_headers", "_match", "_model")

    def __init__(self, match: Match) -> None:
        self._match = match
        self._model = Glob(match.model)
        self._headers = tuple((name.lower(), Glob(glob)) for name, glob in match.header.items())

    def holds(self, model: str, question: Question) -> bool:
        match = self._match
        return (
            self._model.matches(model)
            and match.thinking in (None, question.thinking)
            and match.images in (None, question.images)
            and (match.server_tool is None or match.server_tool in question.needed)
            and (match.offers_server_tool is None or match.offers_server_tool in question.offered)
            and match.dialect in (None, question.dialect)
            and (match.tokens_above is None or question.tokens > match.tokens_above)
            and all(
                (value := question.headers.get(name)) is not None and glob.matches(value)
                for name, glob in self._headers
            )
        )


class _Way:
    """A route with its targets resolved."""

    __slots__ = ("_choice", "choice", "condition")

    def __init__(
        self, name: str, route: Route, match: Match, hops: Iterable[Hop], server: Server
    ) -> None:
        self.condition = _Condition(match)
        found = tuple(hops)
        self._choice = RouteChoice(
            route_name=name,
            hops=found,
            route=route,
            rendering=Rendering(
                chat_reasoning=route.chat_reasoning,
                responses_reasoning=route.responses_reasoning,
                stream_error_tail=route.stream_error_tail or server.stream_error_tail,
            ),
            order=_order(route),
            counted=any(hop.counted for hop in found),
        )
        # Clients ask for the same few models again and again.
        self.choice: Callable[[str], RouteChoice] = lru_cache(maxsize=_CHOICES)(self._choose)

    @property
    def owner(self) -> str:
        return self.hops[0].upstream_name

    @property
    def hops(self) -> tuple[Hop, ...]:
        return self._choice.hops

    def _choose(self, model: str) -> RouteChoice:
        """Return the upstreams for a model: its name replaces a `*`."""
        return structs.replace(
            self._choice, hops=tuple(_filled(hop, model) for hop in self._choice.hops)
        )


class Router:
    """Chooses, and lists what can be chosen.

    Raises:
        ConfigError: a target names no upstream, or there is no profile of a name that is set.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._formats = declared_formats(settings)
        self._upstreams = settings.upstreams
        # Upstreams of which a route chooses the least busy.
        self._compared = {
            target.partition("/")[0]
            for route in settings.routes
            if route.choose == "least_busy"
            for target in route.to
        }
        exact = {name: meant for name, meant in settings.aliases.items() if not is_glob(name)}
        self._aliases = {name.lower(): meant for name, meant in exact.items()}
        self._alias_globs = tuple(
            (Glob(name), meant) for name, meant in settings.aliases.items() if name not in exact
        )
        self._routes = tuple(
            self._way(route_name(route, number), route, route.match)
            for number, route in enumerate(settings.routes, start=1)
        )
        self._tiers = tuple(
            self._way(f"tier-{tier}", Route(to=settings.tiers[tier]), Match(model=glob))
            for tier, globs in _TIERS.items()
            if settings.tiers.get(tier)
            for glob in globs
        )
        self._direct = {
            name: self._way(DIRECT, Route(to=(f"{name}/*",)), Match()) for name in self._upstreams
        }
        self._only = self._sole_way()
        # Some route asks whether a request holds pictures, which takes a look at all its parts.
        self.asks_for_images: bool = any(
            route.match.images is not None for route in settings.routes
        )
        # Some route asks for vendor-run tools, which takes a look at all tools.
        self.asks_for_server_tools: bool = any(
            route.match.server_tool or route.match.offers_server_tool for route in settings.routes
        )
        self._facts = {name.lower(): facts for name, facts in settings.models.items()}
        self._fact_globs = tuple(
            (Glob(name), facts) for name, facts in settings.models.items() if is_glob(name)
        )

    def choose(self, question: Question) -> RouteChoice | None:
        """Return the route and its upstreams, or None if no route matches and the name shows no upstream."""
        model = self.meant(question.model)
        for way in self._routes:
            if way.condition.holds(model, question):
                return way.choice(model)
        for way in self._tiers:
            if way.condition.holds(model, question):
                return way.choice(model)
        named, slash, rest = model.partition("/")
        if slash and rest and (direct := self._direct.get(named)) is not None:
            return direct.choice(model)
        return None if self._only is None else self._only.choice(model)

    def hops(self) -> tuple[Hop, ...]:
        """Return every target of the settings; a `*` in a model is not replaced yet."""
        ways = (*self._routes, *self._tiers, *([self._only] if self._only else []))
        return tuple(hop for way in ways for hop in way.hops)

    def upstreams(self) -> tuple[Hop, ...]:
        """Return one hop for each upstream, to ask it something that no client asked for."""
        return tuple(hop for way in self._direct.values() for hop in way.hops)

    def meant(self, model: str) -> str:
        """Return the name that routes see: what an alias means, or the name itself."""
        meant = self._aliases.get(model.lower())
        if meant is not None:
            return meant
        for glob, target in self._alias_globs:
            if glob.matches(model):
                return fill(target, model)
        return model

    def facts(self, model: str) -> ModelFacts:
        """Return what is set about a model, by the name clients use."""
        facts = self._facts.get(model.lower())
        if facts is not None:
            return facts
        return next((f for glob, f in self._fact_globs if glob.matches(model)), ModelFacts())

    def models(self, found: Mapping[str, Sequence[str]] = {}) -> tuple[Listed, ...]:
        """Return the names that clients may ask for, each with the facts that are set about it.

        `found` has the models of upstreams whose settings list none.  Models of upstreams are listed in one style:
        by their own names if each of these leads to its model, otherwise as `upstream/model`.
        """
        owners: dict[str, str] = {}
        for route, way in zip(self._settings.routes, self._routes, strict=True):
            if not is_glob(route.match.model):
                owners.setdefault(route.match.model, way.owner)
        wanted = [name for name in self._settings.aliases if not is_glob(name)]
        wanted += [f"claude-{tier}" for tier in _TIERS if self._settings.tiers.get(tier)]
        wanted += [name for name in self._settings.models if not is_glob(name)]
        for name in wanted:
            if (choice := self.choose(Question(model=name))) is not None:
                owners.setdefault(name, choice.hops[0].upstream_name)
        offered = [
            (
                owner,
                model,
                self._leads(model, owner, model),
                self._leads(f"{owner}/{model}", owner, model),
            )
            for owner, upstream in self._upstreams.items()
            for model in upstream.models or found.get(owner, ())
        ]
        all_plain = all(plain for _, _, plain, full in offered if plain or full)
        for owner, model, plain, full in offered:
            if plain and (all_plain or not full):
                owners.setdefault(model, owner)
            elif full:
                owners.setdefault(f"{owner}/{model}", owner)
        return tuple(
            Listed(name=name, owner=owner, facts=self.facts(name)) for name, owner in owners.items()
        )

    def covered(self, name: str) -> Listed | None:
        """Return a name that an alias or a route takes by a pattern, so that no list has it; None: none takes it."""
        choice = self.choose(Question(model=name))
        if choice is None or (choice.route.match.model == "*" and self.meant(name) == name):
            return None  # a route for everything says nothing about a name
        return Listed(name=name, owner=choice.hops[0].upstream_name, facts=self.facts(name))

    def _leads(self, name: str, upstream: str, model: str) -> bool:
        """Return whether a request for a name is sent to a model of an upstream first."""
        choice = self.choose(Question(model=name))
        if choice is None:
            return False
        return (upstream, model) == (choice.hops[0].upstream_name, choice.hops[0].model)

    def _way(self, name: str, route: Route, match: Match) -> _Way:
        hops = [self._hop(one, route) for one in route.to]
        return _Way(name, route, match, hops, self._settings.server)

    def _hop(self, target: str, route: Route) -> Hop:
        name, _, model = target.partition("/")
        upstream = self._upstreams.get(name)
        if upstream is None:
            raise ConfigError(f"route target `{target}` has no upstream")
        return Hop(
            upstream_name=name,
            upstream=upstream,
            model=model,
            profile=_resolved_profile(self._settings.profiles, upstream, route),
            format_name=route.format or upstream.format,
            timeouts=_changed(upstream.timeouts, route.timeouts),
            own_formats=self._formats,
            counted=bool(upstream.max_concurrent) or name in self._compared,
        )

    def _sole_way(self) -> _Way | None:
        if len(self._upstreams) != 1 or self._settings.routes:
            return None
        (name,) = self._upstreams
        return self._way(ONLY, Route(to=(f"{name}/*",)), Match())


def _order(route: Route) -> TargetOrder | None:
    if route.choose == "in_order" or len(route.to) == 1:
        return None
    return TargetOrder(route.choose, route.weights or (1,) * len(route.to))


def route_name(route: Route, number: int) -> str:
    """Return the name of a route in logs; `number` is its place in the file, from 1."""
    return route.name or f"route-{number}"


def _filled(hop: Hop, name: str) -> Hop:
    """Put the client's name into a target; `upstream/model` sent to that upstream loses the first part."""
    if "*" not in hop.model:
        return hop
    return structs.replace(
        hop, model=fill(hop.model, name.removeprefix(f"{hop.upstream_name}/") or name)
    )


def _resolved_profile(
    own: Mapping[str, ProfileChanges], upstream: Upstream, route: Route
) -> Profile:
    name = route.profile or upstream.profile or profile_for(upstream.base_url, upstream.dialect)
    changes = own.get(name.strip().lower())
    found = find_profile(name) if changes is None else _changed_profile(name, changes)
    if upstream.tool_calls:
        found = structs.replace(found, tool_calls=upstream.tool_calls)
    tools = route.server_tools
    if tools != _NO_SERVER_TOOLS:
        found = structs.replace(found, mcp_credentials=tools.mcp, cached_search=tools.cached_search)
    return found


def _changed_profile(name: str, changes: ProfileChanges) -> Profile:
    """Return a profile of the file.  It stays of its base's kind: they share reasoning state."""
    base = find_profile(changes.base or GENERIC)
    facts = {key: value for key, value in structs.asdict(changes).items() if value is not None}
    del facts["base"]
    if "extra_fields" in facts:
        fields = facts["extra_fields"].items()
        facts["extra_fields"] = tuple(
            (key, msgspec.json.encode(value).decode()) for key, value in fields
        )
    return structs.replace(base, name=name, vendor=base.origin, **facts)


def _changed(timeouts: Timeouts, changes: TimeoutChanges) -> Timeouts:
    given = {name: value for name, value in structs.asdict(changes).items() if value is not None}
    return structs.replace(timeouts, **given)
