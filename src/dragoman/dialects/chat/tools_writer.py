"""Encodes tools and tool choice for a Chat Completions upstream."""

from typing import Final, TypeAlias

from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import (
    CustomFormatOut,
    CustomOut,
    CustomToolGrammar,
    CustomToolOut,
    FunctionOut,
    FunctionToolOut,
    ToolOut,
)
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import fitted_schema
from dragoman.dialects.server_tools import (
    accepts_declared,
    kept_options,
    may_search,
    needed_tools,
    written_place,
)
from dragoman.dialects.tool_policy import (
    FREE_INPUT,
    NO_ARGUMENTS,
    WrittenChoice,
    declared_tools,
    flat_name,
    function_description,
    refuse_schemaless,
    strict_flag,
    written_choice,
)
from dragoman.profiles.profile import ChatSearch, Profile
from dragoman.profiles.schema import without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.server_tools import ServerKind, ServerOptions
from dragoman.turn.tools import made_once, wire_name

# --- definitions ----------------------------------------------------------------------------------

_CUSTOM: Final = Flavor.CUSTOM


class Definitions(Struct, gc=False, frozen=True):
    """The tools of a request as an upstream gets them."""

    by_name: dict[str, ToolOut]  # by the name on the wire
    json: Raw  # all of them, as a list
    fields: dict[str, object]  # of the request that ask for vendor-run tools
    running: frozenset[str]  # names of vendor-run tools that the upstream runs
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """The upstream that gets the definitions."""

    profile: Profile
    native: bool  # the client speaks this dialect too
    needed: bool = False  # the request makes no sense without its vendor-run tools


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience)
    by_name: dict[str, ToolOut] = {}
    for tool in tools:
        out = definer.define(tool)
        if out is not None:
            by_name[wire_name(tool.name, tool.namespace)] = out
    json = Raw(encode(list(by_name.values())))
    return Definitions(
        by_name, json, definer.fields, frozenset(definer.running), tuple(definer.losses)
    )


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.fields: dict[str, object] = {}
        self.running: set[str] = set()
        self.losses: list[Loss] = []
        self._profile = audience.profile
        self._native = audience.native
        self._needed = audience.needed

    def define(self, tool: Tool) -> ToolOut | None:
        if tool.server:
            return self._server_tool(tool)
        refuse_schemaless(tool)
        name = flat_name(tool, self.losses)
        if tool.options:
            self.losses += [Loss("tool_option_dropped", tool.path, one) for one in tool.options]
        if tool.flavor is _CUSTOM:
            return self._custom(tool, name)
        description = function_description(tool, self.losses)
        strict = strict_flag(tool, self._profile, self.losses)
        function = FunctionOut(name, description, self._schema(tool), strict)
        return FunctionToolOut("function", function)

    def _custom(self, tool: Tool, name: str) -> ToolOut:
        if self._profile.supports_custom_tools:
            form = None
            if tool.grammar is not None:
                form = CustomFormatOut(
                    "grammar", CustomToolGrammar(tool.grammar[1], tool.grammar[0])
                )
            return CustomToolOut("custom", CustomOut(name, tool.description, form))
        description = function_description(tool, self.losses)
        return FunctionToolOut("function", FunctionOut(name, description, FREE_INPUT))

    def _schema(self, tool: Tool) -> Raw:
        if tool.schema is None:
            return NO_ARGUMENTS
        schema = tool.schema if self._native else without_meta(tool.schema)
        return fitted_schema(schema, self._profile, self.losses, path=tool.path, name=tool.name)

    def _server_tool(self, tool: Tool) -> ToolOut | None:
        does = tool.does or ServerKind.OTHER
        if self._native and accepts_declared(tool, self._profile):
            self.running.add(tool.name)
            return self._as_declared(tool)
        live = may_search(tool, self._profile)
        if not self._profile.runs(does, "chat") or not live:
            if self._profile.chat_search == "perplexity" and not live:
                self.fields["disable_search"] = True  # it would search unasked
            detail = tool.kind or tool.name if live else "cached search only"
            self.losses.append(Loss("server_tool_dropped", tool.path, detail))
            return None
        self.running.add(tool.name)
        word, out = self._mapped(tool, does)
        self.losses.append(Loss("server_tool_mapped", tool.path, word))
        return out

    def _as_declared(self, tool: Tool) -> ToolOut | None:
        """Return a tool as a client of this dialect declared it: in the list, or in a field."""
        if tool.path.startswith("$.tools"):
            return tool.raw
        if tool.raw is not None:
            self.fields[tool.path.removeprefix("$.")] = tool.raw
        return None

    def _mapped(self, tool: Tool, does: ServerKind) -> tuple[str, ToolOut | None]:
        """Return the host's own name for a tool, and its entry in the list, if it has one there."""
        style = self._profile.chat_search
        asked = kept_options(tool, _KEPT[style], self.losses)
        if does is not ServerKind.WEB_SEARCH:
            word = _OTHERS[style][does]
            if style == "compound":
                self._enable(word)
                return word, None
            parameters = {"parameters": _openrouter(asked)} if style == "openrouter" else {}
            return word, Raw(encode({"type": word, **parameters}))
        match style:
            case "openrouter":
                word = "openrouter:web_search"
                return word, Raw(encode({"type": word, "parameters": _openrouter(asked)}))
            case "kimi":
                return "$web_search", Raw(_KIMI_SEARCH)
            case "zai":
                return "web_search", Raw(encode(self._zai(tool, asked)))
            case "browser":
                return "browser_search", Raw(b'{"type":"browser_search"}')
            case "compound":
                self._enable("web_search")
                self.fields |= _settings("search_settings", _compound(asked))
                return "compound_custom", None
            case "qwen":
                self.fields["enable_search"] = True
                if self._needed:
                    self.fields["search_options"] = {"forced_search": True}
                return "enable_search", None
            case "xai":
                self.fields["search_parameters"] = _xai(asked, forced=self._needed)
                return "search_parameters", None
            case "perplexity":
                self.fields |= _perplexity(asked)
                return "the model searches for every answer", None
            case _:
                self.fields["web_search_options"] = _nested(asked)
                return "web_search_options", None

    def _enable(self, word: str) -> None:
        known = self.fields.setdefault("compound_custom", {"tools": {"enabled_tools": []}})
        known["tools"]["enabled_tools"].append(word)  # type: ignore[index]  # made in the line above

    def _zai(self, tool: Tool, asked: ServerOptions) -> dict[str, object]:
        settings: dict[str, object] = {
            "enable": True,
            "search_engine": "search_pro",
            "search_result": True,
        }
        if len(asked.allowed) == 1:
            settings["search_domain_filter"] = asked.allowed[0]
        elif asked.allowed:
            self.losses.append(
                Loss("tool_option_dropped", tool.path, "allowed_domains: more than 1")
            )
        if asked.max_results is not None:
            settings["count"] = asked.max_results
        if asked.context in ("medium", "high"):
            settings["content_size"] = asked.context
        return {"type": "web_search", "web_search": settings}


# --- the names and fields of each host --------------------------------------------------------------

# Settings of a search that each host has fields for.
_KEPT: Final[dict[ChatSearch, tuple[str, ...]]] = {
    "": (),
    "options": ("place", "context"),
    "openrouter": (
        "max_uses",
        "allowed",
        "blocked",
        "place",
        "context",
        "max_results",
        "max_tokens",
    ),
    "kimi": ("max_uses",),  # the shell counts: see `may_pause`
    "zai": ("allowed", "context", "max_results"),
    "qwen": (),
    "xai": ("allowed", "blocked", "max_results"),
    "perplexity": ("allowed", "blocked", "place", "context", "max_results"),
    "compound": ("allowed", "blocked"),
    "browser": (),
}

# The names of other tools than a search.
_OTHERS: Final[dict[ChatSearch, dict[ServerKind, str]]] = {
    "openrouter": {
        ServerKind.WEB_FETCH: "openrouter:web_fetch",
        ServerKind.CODE: "openrouter:code_interpreter",
        ServerKind.IMAGE: "openrouter:image_generation",
    },
    "compound": {ServerKind.WEB_FETCH: "visit_website", ServerKind.CODE: "code_interpreter"},
    "browser": {ServerKind.CODE: "code_interpreter"},
}

_KIMI_SEARCH: Final = b'{"type":"builtin_function","function":{"name":"$web_search"}}'


def _settings(name: str, settings: dict[str, object]) -> dict[str, object]:
    return {name: settings} if settings else {}


def _filled(settings: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value not in (None, "", ())}


def _openrouter(asked: ServerOptions) -> dict[str, object]:
    return _filled(
        {
            "max_uses": asked.max_uses,
            "max_results": asked.max_results,
            "allowed_domains": asked.allowed,
            "excluded_domains": asked.blocked,
            "search_context_size": asked.context,
            "user_location": written_place(asked.place),
            "max_content_tokens": asked.max_tokens,
        }
    )


def _nested(asked: ServerOptions) -> dict[str, object]:
    """Return `web_search_options`: OpenAI nests the place here, and nowhere else."""
    place = written_place(asked.place)
    if place is not None:
        kind = place.pop("type")
        place = {"type": kind, "approximate": place}
    return _filled({"search_context_size": asked.context, "user_location": place})


def _perplexity(asked: ServerOptions) -> dict[str, object]:
    domains = [*asked.allowed, *(f"-{one}" for one in asked.blocked)]
    options: dict[str, object] = {
        "search_context_size": asked.context,
        "user_location": written_place(asked.place),
    }
    fields = _settings("web_search_options", _filled(options))
    if domains:
        fields["search_domain_filter"] = domains
    if asked.max_results is not None:
        fields["num_search_results"] = asked.max_results
    return fields


def _compound(asked: ServerOptions) -> dict[str, object]:
    return _filled({"include_domains": asked.allowed, "exclude_domains": asked.blocked})


def _xai(asked: ServerOptions, *, forced: bool) -> dict[str, object]:
    settings: dict[str, object] = {"mode": "on" if forced else "auto", "return_citations": True}
    if asked.max_results is not None:
        settings["max_search_results"] = asked.max_results
    sites = _filled({"allowed_websites": asked.allowed, "excluded_websites": asked.blocked})
    if sites:
        settings["sources"] = [{"type": "web", **sites}]
    return settings


# --- tools and tool choice ------------------------------------------------------------------------

OutChoice: TypeAlias = str | dict[str, object]


class WrittenTools(Struct, frozen=True):
    """The tools of a request and its choice, as the upstream gets them."""

    definitions: Raw | None  # None: there are none
    choice: OutChoice | None
    fields: dict[str, object]  # of the request that ask for vendor-run tools
    kimi: bool = False  # the search is one that Moonshot runs only without thinking


def encode_tools(request: Request, profile: Profile, losses: list[Loss]) -> WrittenTools:
    """Write tools and tool choice.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    choice = request.tool_choice
    # `allowed_tools` is OpenAI's own, as the fields of its platform are.
    takes_allowed = profile.supports_store
    tools = declared_tools(request, profile, takes_allowed=takes_allowed)
    needed = bool(needed_tools(request))
    sent = define(tools, Audience(profile, request.dialect == "chat", needed))
    losses += sent.losses
    has_tools = bool(sent.by_name)
    definitions = sent.json if has_tools else None
    kimi = bool(sent.running) and profile.chat_search == "kimi"
    if choice is None or (choice.mode == "auto" and not has_tools and sent.running):
        return WrittenTools(definitions, None, sent.fields, kimi)
    if choice.mode in ("required", "tool") and any(
        tool.name in sent.running for tool in request.needed_tools
    ):
        forced = _forced_search(
            request, choice, profile, several=len(sent.by_name) > 1, losses=losses
        )
        return WrittenTools(definitions, forced, sent.fields, kimi)
    if choice.name:
        has_forced = wire_name(choice.name, choice.namespace) in sent.by_name
    else:
        has_forced = has_tools or bool(sent.running)
    written = written_choice(request, profile, losses, has_tools=has_tools, has_forced=has_forced)
    fields = sent.fields if choice.mode != "none" else {}
    return WrittenTools(
        definitions if written.with_tools else None,
        _choice(choice, written, sent, takes_allowed=takes_allowed),
        fields,
        kimi,
    )


def _forced_search(
    request: Request, choice: ToolChoice, profile: Profile, *, several: bool, losses: list[Loss]
) -> OutChoice | None:
    """Return the choice that forces a vendor-run tool; None where the host searches without being forced."""
    tool = request.needed_tools[0]
    if request.dialect == "chat" and accepts_declared(tool, profile) and not choice.name:
        return "required"
    match profile.chat_search:
        case "openrouter":
            does = tool.does or ServerKind.OTHER
            words = _OTHERS["openrouter"]
            return {"type": words.get(does, "openrouter:web_search")}
        case "browser":
            if several:
                _adjusted(request, "required", losses)
            return "required"
        case "kimi" | "compound":
            _adjusted(request, "auto", losses)
            return None
        case _:
            return None


def _adjusted(request: Request, became: str, losses: list[Loss]) -> None:
    path = path_of(request, "tool_choice")
    losses.append(Loss("tool_choice_adjusted", path, f"a forced tool became {became}"))


def _choice(
    choice: ToolChoice, written: WrittenChoice, sent: Definitions, *, takes_allowed: bool
) -> OutChoice | None:
    if written.mode == "tool":
        return _named(sent, wire_name(choice.name, choice.namespace))
    if choice.allowed and takes_allowed and written.mode in ("auto", "required"):
        tools = [_named(sent, name) for name in choice.allowed if name in sent.by_name]
        return {"type": "allowed_tools", "allowed_tools": {"mode": written.mode, "tools": tools}}
    return written.mode


def _named(sent: Definitions, name: str) -> dict[str, object]:
    kind = "custom" if isinstance(sent.by_name[name], CustomToolOut) else "function"
    return {"type": kind, kind: {"name": name}}
