"""claude-code-router's `config.json` as a draft of our settings.

Its routes are written for names `claude-*`, which Claude Code sends.  Names `provider,model`, which its
`/model` command sends, become aliases.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from dragoman.dialects import DEFAULT_DIALECT
from dragoman.gateway.config.import_draft import (
    Draft,
    Table,
    as_list,
    as_number,
    as_table,
    is_local,
    is_placeholder,
    split_endpoint,
)
from dragoman.gateway.config.vendors import profile_for, vendor_at

_FEATURE: Final = "Dragoman has no such feature"
_REFERENCE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_DEFAULT_THRESHOLD: Final = 60_000  # of `longContext`, if none is given
_CLAUDE: Final = "claude-*"
# The scenarios in the order in which claude-code-router checks them, and what matches them here.
_SCENARIOS: Final[dict[str, Table]] = {
    "longContext": {"model": _CLAUDE},  # and `tokens_above`
    "background": {"model": "claude-*haiku*"},
    "image": {"model": _CLAUDE, "images": True},
    "think": {"model": _CLAUDE, "thinking": True},
    "default": {"model": _CLAUDE},
}
_DIALECTS: Final = {
    "anthropic": "anthropic",
    "anthropic_messages": "anthropic",
    "openai": "chat",
    "openai_chat_completions": "chat",
    "openai_responses": "responses",
    "openai-responses": "responses",
    "gemini": "gemini",
    "gemini_generate_content": "gemini",
}
# Transformers whose work Dragoman does for every upstream, or by the upstream's profile.
_BUILT_IN: Final = frozenset(
    {"cerebras", "cleancache", "cleanthinkinginmessage", "deepseek", "glm", "groq", "kimi", "mistral", "openai",
     "openrouter", "reasoning", "sampling", "streamoptions", "vercel"}
)  # fmt: skip
# Transformers that are needed to reach the provider at all.
_OTHER_APIS: Final = frozenset(
    {
        "codex",
        "gemini-cli",
        "qwen-cli",
        "rovo-cli",
        "vertex-claude",
        "vertex-gemini",
        "chrome-on-device",
    }
)
_LEVELS: Final = {
    "fatal": "error", "error": "error", "warn": "warning", "info": "info", "debug": "debug",
    "trace": "debug",
}  # fmt: skip
_REASONS: Final = {
    "CLAUDE_PATH": "`dragoman run claude` starts the `claude` that is in PATH",
    "CUSTOM_ROUTER_PATH": "JavaScript is not run; write `[[routes]]`",
    "LOG": "the log is written to standard error",
    "NON_INTERACTIVE_MODE": "`dragoman run` passes its terminal to the agent",
    "REWRITE_SYSTEM_PROMPT": _FEATURE,
    "StatusLine": _FEATURE,
    "transformers": "JavaScript is not run",
    "Transformers": "JavaScript is not run",
}


def import_claude_code_router(document: Table, draft: Draft) -> None:
    """Carry claude-code-router's configuration over to a draft."""
    _Import(document, draft).run()


def without_comments(text: str) -> str:
    """Return JSON without `//` and `/* */` comments and without commas before a closing bracket."""
    for pattern in (_COMMENTS, _COMMAS):
        text = pattern.sub(lambda match: match[1] or match[2] or "", text)
    return text


# The first group of both is a string, which stays; an unclosed one reaches to the end.
_COMMENTS: Final = re.compile(
    r'("(?:[^"\\]++|\\.)*+(?:"|\Z))|//[^\n]*+(\n|\Z)|/\*.*?(?:\*/|\Z)', re.DOTALL
)
_COMMAS: Final = re.compile(r'("(?:[^"\\]++|\\.)*+(?:"|\Z))|,(\s*+[\]}])', re.DOTALL)


class _Import:
    def __init__(self, document: Table, draft: Draft) -> None:
        self._document = document
        self._draft = draft
        self._names: dict[str, str] = {}  # of providers, to those of upstreams
        # What transformers of one model change, by target: the keys `params` and `body` of a route.
        self._changes: dict[str, Table] = {}

    def run(self) -> None:
        self._draft.taken |= set(_references(self._document))
        listed = "Providers" if "Providers" in self._document else "providers"
        for number, item in enumerate(as_list(self._document.get(listed)), 1):
            self._provider(as_table(item), f"{listed}[{number}]")
        self._routes()
        self._server()
        for name in self._document:
            if name not in _READ:
                self._draft.lose(name, _REASONS.get(name, _FEATURE))

    # --- providers ---

    def _provider(self, item: Table, path: str) -> None:
        name = str(item.get("name") or "")
        transformer = as_table(item.get("transformer"))
        used = dict(_transformers(transformer.get("use")))
        other = next((one for one in used if one in _OTHER_APIS), None)
        if other is not None:
            self._draft.lose(path, f"`{other}` speaks an API that Dragoman does not speak")
            return
        address, dialect = self._address(item, used, path)
        if not name or address is None:
            if not name:
                self._draft.lose(path, "`name` is missing")
            return
        table: Table = {"base_url": address, "dialect": dialect}
        key = self._key(name, item, address, path)
        if key:
            table["key"] = key
        models = [str(one) for one in as_list(item.get("models"))]
        if models:
            table["models"] = models
        headers = as_table(item.get("extraHeaders"))
        if headers:
            table["headers"] = {
                header: self._header(header, str(value), f"{path}.extraHeaders.{header}")
                for header, value in headers.items()
            }
        body = self._draft.plain_fields(as_table(item.get("extraBody")), f"{path}.extraBody")
        if body:
            table["body"] = body
        milliseconds = as_number(self._document.get("API_TIMEOUT_MS"))
        if milliseconds:
            table["timeouts"] = {"first_byte": milliseconds / 1000}
        proxy = self._document.get("PROXY_URL")
        if isinstance(proxy, str) and _is_plain(proxy) and not is_local(address):
            table["proxy"] = proxy
        upstream = self._draft.add_upstream(name, table)
        self._names[name] = upstream
        for model in models:
            self._draft.aliases[f"{name},{model}"] = f"{upstream}/{model}"
        self._use(upstream, used, f"{path}.transformer")
        for model, value in transformer.items():
            if model != "use":
                target = f"{upstream}/{model}"
                used = dict(_transformers(as_table(value).get("use")))
                self._use_for_model(target, used, f"{path}.transformer.{model}")
        self._other_fields(item, path)

    def _address(self, item: Table, used: dict[str, Table], path: str) -> tuple[str | None, str]:
        """Return the base URL and the dialect of a provider; no base URL: recorded as lost."""
        field = next((one for one in ("api_base_url", "baseUrl", "baseurl") if item.get(one)), None)
        if field is None:
            self._draft.lose(path, "`api_base_url` is missing")
            return None, ""
        text, dialect = split_endpoint(str(item[field]))
        kinds = [str(item.get("type") or ""), *used]
        kind = next((_DIALECTS[one.lower()] for one in kinds if one.lower() in _DIALECTS), None)
        base_url = self._draft.address(text, f"{path}.{field}")
        return base_url, dialect or kind or DEFAULT_DIALECT

    def _key(self, name: str, item: Table, base_url: str, path: str) -> str:
        field = next((one for one in ("api_key", "apiKey", "apikey") if item.get(one)), "api_key")
        given = str(item.get(field) or "")
        variable = _variable(given)
        if variable:
            return f"env:{variable}"
        vendor = vendor_at(base_url)
        usual = vendor.key_variable if vendor is not None else ""
        if not is_placeholder(given):
            return self._draft.secret(
                given, wanted=usual or f"{name}_API_KEY", path=f"{path}.{field}"
            )
        if usual:
            return f"env:{usual}"
        if not is_local(base_url):
            self._draft.lose(f"{path}.{field}", "empty: write `key` if the provider needs one")
        return ""

    def _header(self, name: str, value: str, path: str) -> str:
        variable = _variable(value)
        return (
            f"env:{variable}" if variable else self._draft.header_value(value, name=name, path=path)
        )

    def _other_fields(self, item: Table, path: str) -> None:
        read = {"name", "api_base_url", "baseUrl", "baseurl", "api_key", "apiKey", "apikey", "models",
                "transformer", "type", "extraHeaders", "extraBody"}  # fmt: skip
        for name in item:
            if name not in read:
                self._draft.lose(f"{path}.{name}", _FEATURE)

    # --- transformers ---

    def _use(self, upstream: str, used: dict[str, Table], path: str) -> None:
        """Apply the transformers of a provider to its upstream."""
        table = self._draft.upstreams[upstream]
        facts: Table = {}
        for name, options in used.items():
            match name:
                case "maxtoken" if isinstance(options.get("max_tokens"), int):
                    facts["max_output_tokens"] = options["max_tokens"]
                case "maxcompletiontokens":
                    facts["max_tokens_field"] = "max_completion_tokens"
                case "enhancetool":
                    table["tool_calls"] = "whole"
                case _:
                    body = self._body(name, options, path)
                    if body:
                        held = as_table(table.get("body"))
                        table["body"] = {**held, **body}
                    for option, header in (("referer", "HTTP-Referer"), ("title", "X-Title")):
                        if name == "openrouter" and options.get(option):
                            held = as_table(table.get("headers"))
                            table["headers"] = {**held, header: str(options[option])}
        if facts:
            spoken = str(table.get("dialect", DEFAULT_DIALECT))
            base = profile_for(str(table["base_url"]), spoken)
            self._draft.add_profile(upstream, base, facts)

    def _use_for_model(self, target: str, used: dict[str, Table], path: str) -> None:
        """Apply the transformers of one model; only routes can change a single model."""
        for name, options in used.items():
            match name:
                case "maxtoken" if isinstance(options.get("max_tokens"), int):
                    params = {"max_tokens": {"max": options["max_tokens"]}}
                    self._changes.setdefault(target, {})["params"] = params
                case "enhancetool" | "maxcompletiontokens":
                    self._draft.lose(f"{path}.use.{name}", "can be set only for a whole upstream")
                case _:
                    body = self._body(name, options, path)
                    if body:
                        held = self._changes.setdefault(target, {})
                        held["body"] = {**as_table(held.get("body")), **body}

    def _body(self, name: str, options: Table, path: str) -> Table:
        """Return the fields that a transformer adds to requests."""
        where = f"{path}.use.{name}"
        match name:
            case "customparams":
                return self._draft.plain_fields(options, where)
            case "openrouter":
                provider = dict(as_table(options.get("provider")))
                if options.get("providerOrder"):
                    provider["order"] = options["providerOrder"]
                return self._draft.plain_fields({"provider": provider} if provider else {}, where)
            case "tooluse":
                self._draft.lose(where, "tools are not forced; a route can: `params.tool_choice`")
            case _ if name.lower() not in _BUILT_IN and name.lower() not in _DIALECTS:
                self._draft.lose(where, "this transformer is not known")
        return {}

    # --- routes ---

    def _routes(self) -> None:
        router = as_table(self._document.get("Router"))
        fallbacks = as_table(self._document.get("fallback"))
        general = as_table(router.get("fallback"))
        chain = [str(one) for one in as_list(general.get("models"))]
        for scenario, condition in _SCENARIOS.items():
            path = f"Router.{scenario}"
            first = self._target(str(router.get(scenario) or ""), path)
            if first is None:
                continue
            match = dict(condition)
            if scenario == "longContext":
                threshold = as_number(router.get("longContextThreshold"))
                match["tokens_above"] = int(threshold or _DEFAULT_THRESHOLD)
            listed = [str(one) for one in as_list(fallbacks.get(scenario))]
            others = [self._target(one, f"fallback.{scenario}") for one in (*listed, *chain)]
            targets = list(dict.fromkeys([first, *(one for one in others if one)]))
            changes = self._changes.get(first, {})
            self._draft.routes.append({"name": scenario, "match": match, "to": targets, **changes})
        chosen = {as_list(route["to"])[0] for route in self._draft.routes}
        for target in self._changes:
            if target not in chosen:
                self._draft.lose(
                    f"transformer of {target}",
                    "no route has this model first: write a `[[routes]]` table",
                )
        self._lost_routes(router, general)

    def _lost_routes(self, router: Table, general: Table) -> None:
        read = {*_SCENARIOS, "longContextThreshold", "fallback"}
        if router.get("webSearch"):
            self._draft.lose(
                "Router.webSearch",
                "routes cannot match web search; it works where the upstream has such a tool",
            )
        for number, rule in enumerate(as_list(router.get("rules")), 1):
            kind = as_table(rule).get("type")
            self._draft.lose(
                f"Router.rules[{number}]", f"rule `{kind}`: write a `[[routes]]` table"
            )
        if general.get("mode") == "retry" and isinstance(general.get("retryCount"), int):
            for table in self._draft.upstreams.values():
                table["retries"] = min(int(str(general["retryCount"])), 20)
        for name, value in router.items():
            if name not in {*read, "webSearch", "rules"} and value:
                self._draft.lose(f"Router.{name}", _FEATURE)

    def _target(self, text: str, path: str) -> str | None:
        """Return `provider,model` as a target."""
        if not text:
            return None
        provider, comma, model = text.partition(",")
        if not comma:
            provider, _, model = text.partition("/")
        upstream = self._names.get(provider.strip())
        if upstream is None or not model:
            self._draft.lose(path, f"provider `{provider.strip()}` is not carried over")
            return None
        return f"{upstream}/{model.strip()}"

    # --- the server ---

    def _server(self) -> None:
        given = str(self._document.get("APIKEY") or "")
        host = str(self._document.get("HOST") or "")
        if given:
            variable = _variable(given)
            self._draft.server["keys"] = [
                f"env:{variable}"
                if variable
                else self._draft.secret(given, wanted="DRAGOMAN_KEY", path="APIKEY")
            ]
            if host:
                self._draft.server["host"] = host
        elif host and host not in ("127.0.0.1", "localhost"):
            self._draft.lose("HOST", "without `APIKEY` only this machine may connect, as before")
        port = as_number(self._document.get("PORT"))
        if port:
            self._draft.server["port"] = int(port)
        level = _LEVELS.get(str(self._document.get("LOG_LEVEL")))
        if level:
            self._draft.log["level"] = level
        proxy = str(self._document.get("PROXY_URL") or "")
        if proxy and not _is_plain(proxy):
            self._draft.lose(
                "PROXY_URL",
                'it holds a password or a variable: write `proxy = "env:NAME"` of each upstream',
            )
        for number, _ in enumerate(as_list(self._document.get("APIKEYS")), 1):
            self._draft.lose(f"APIKEYS[{number}]", "write a `[[server.keys]]` table for this key")


_READ: Final = frozenset(
    {"Providers", "providers", "Router", "fallback", "APIKEY", "APIKEYS", "HOST", "PORT", "LOG_LEVEL",
     "API_TIMEOUT_MS", "PROXY_URL"}
)  # fmt: skip


def _transformers(used: object) -> Iterator[tuple[str, Table]]:
    """Return the names of transformers, each with its options."""
    for one in as_list(used):
        match one:
            case str():
                yield one, {}
            case [str(name), *options]:
                yield name, as_table(options[0]) if options else {}


def _variable(text: str) -> str:
    """Return the variable that a text refers to as `$NAME` or `${NAME}`; empty: none."""
    found = _REFERENCE.fullmatch(text.strip())
    return "" if found is None else found[1] or found[2]


def _references(value: object) -> Iterator[str]:
    """Return the variables that a document refers to."""
    for found in _REFERENCE.finditer(msgspec.json.encode(value).decode()):
        yield found[1] or found[2]


def _is_plain(address: str) -> bool:
    """Return whether an address of a proxy holds neither credentials nor a variable."""
    return bool(address) and "@" not in address and "$" not in address
