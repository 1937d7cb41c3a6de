"""LiteLLM's proxy configuration (`config.yaml`) as a draft of our settings.

LiteLLM groups deployments by `model_name`; here a group is a route, and its deployments are the targets
of the route in their order.  The format is documented at docs.litellm.ai/docs/proxy/config_settings.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from dragoman.gateway.config.import_draft import (
    Draft,
    Table,
    as_list,
    as_number,
    as_table,
    is_local,
    is_placeholder,
    name_for,
    split_endpoint,
)
from dragoman.gateway.config.vendors import VENDORS, vendor_at
from dragoman.gateway.overrides import check as check_params

SECTIONS: Final = ("model_list", "litellm_settings", "router_settings", "general_settings")
_REFERENCE: Final = "os.environ/"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FEATURE: Final = "Dragoman has no such feature"


class Provider(Struct, frozen=True, kw_only=True):
    """What a provider's prefix in `model` means."""

    vendor: str = ""  # in our table of vendors; empty: the fields below
    base_url: str = ""
    variable: str = ""  # where LiteLLM looks for its key
    dialect: str = "chat"
    profile: str = ""
    path: str = ""  # LiteLLM adds it to `api_base`; here it is part of the address


_PROVIDERS: Final[dict[str, Provider]] = {
    **{
        name: Provider(vendor=name)
        for name in ("deepseek", "groq", "minimax", "mistral", "moonshot", "openrouter", "xai", "zai")
    },
    "anthropic": Provider(vendor="anthropic", path="/v1"),
    "azure": Provider(variable="AZURE_API_KEY", profile="openai", path="/openai/v1"),
    "cerebras": Provider(base_url="https://api.cerebras.ai/v1", variable="CEREBRAS_API_KEY"),
    "codestral": Provider(vendor="mistral"),
    "dashscope": Provider(vendor="qwen"),
    "deepinfra": Provider(base_url="https://api.deepinfra.com/v1/openai", variable="DEEPINFRA_API_KEY"),
    "fireworks_ai": Provider(vendor="fireworks"),
    "gemini": Provider(vendor="gemini"),
    "hosted_vllm": Provider(profile="vllm"),
    "litellm_proxy": Provider(profile="litellm", variable="LITELLM_PROXY_API_KEY"),
    "llamafile": Provider(base_url="http://127.0.0.1:8080/v1", profile="llama-server"),
    "lm_studio": Provider(vendor="lm-studio"),
    "nvidia_nim": Provider(
        base_url="https://integrate.api.nvidia.com/v1", variable="NVIDIA_NIM_API_KEY"
    ),
    "ollama": Provider(vendor="ollama", path="/v1"),
    "ollama_chat": Provider(vendor="ollama", path="/v1"),
    "openai": Provider(vendor="openai"),
    "openai_like": Provider(),
    "custom_openai": Provider(),
    "perplexity": Provider(base_url="https://api.perplexity.ai", variable="PERPLEXITYAI_API_KEY"),
    "sambanova": Provider(base_url="https://api.sambanova.ai/v1", variable="SAMBANOVA_API_KEY"),
    "together_ai": Provider(vendor="together"),
}  # fmt: skip

# Models without a prefix that LiteLLM assigns to a provider by their names.
_BARE_MODELS: Final = (
    (re.compile(r"gpt-|o\d|chatgpt-|codex-", re.IGNORECASE), "openai"),
    (re.compile(r"claude-", re.IGNORECASE), "anthropic"),
)

# Parameters of `litellm_params` that LiteLLM sends if the client sends none, and their names here.
_PARAMS: Final = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "seed", "stop": "stop",
    "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
    "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "reasoning_effort": "effort",
    "parallel_tool_calls": "parallel_tool_calls", "service_tier": "service_tier",
    "verbosity": "verbosity", "user": "user",
}  # fmt: skip
# Keys of `litellm_params` that `_upstream` and `_target` read, or that need no counterpart.
_READ: Final = frozenset(
    {"model", "api_base", "base_url", "api_key", "custom_llm_provider", "litellm_credential_name",
     "organization", "extra_headers", "headers", "extra_body", "timeout", "stream_timeout", "ssl_verify",
     "max_retries", "num_retries", "order", "drop_params", "thinking"}
)  # fmt: skip
_PARAM_REASONS: Final = {
    "rpm": "limits of a deployment do not exist; `[[server.keys]]` limits clients",
    "tpm": "limits of a deployment do not exist; `[[server.keys]]` limits clients",
    "max_parallel_requests": "limits of a deployment do not exist; `[[server.keys]]` limits clients",
    "weight": "targets are tried in their order, without weights",
    "api_version": "the address `/openai/v1` takes no version",
    "mock_response": "use `dragoman simulate` for tests",
}
_CHAT_MODES: Final = frozenset({"", "chat", "completion", "responses"})
_SETTING_REASONS: Final = {
    "context_window_fallbacks": "a request that is too long is not sent to another upstream",
    "content_policy_fallbacks": "a refused request is not sent to another upstream",
    "retry_policy": "`retries` applies to every temporary failure",
    "allowed_fails_policy": "`failures` applies to every temporary failure",
    "routing_strategy": "targets are tried in their order: the first that is not cooling down",
    "cache": _FEATURE,
    "cache_params": _FEATURE,
    "success_callback": f"{_FEATURE}; the log has one line per request",
    "failure_callback": f"{_FEATURE}; the log has one line per request",
    "callbacks": f"{_FEATURE}; the log has one line per request",
    "alerting": f"{_FEATURE}; the log has one line when an upstream begins to fail",
    "database_url": "there is no database: write a `[[server.keys]]` table for each key in it",
    "store_model_in_db": "there is no database: models that were added in the UI are not imported",
    "custom_auth": _FEATURE,
    "enable_jwt_auth": _FEATURE,
}


def import_litellm(document: Table, draft: Draft) -> None:
    """Carry LiteLLM's configuration over to a draft."""
    _Import(document, draft).run()


class _Deployment(Struct, frozen=True, kw_only=True):
    """One item of `model_list`, and where it can be reached."""

    path: str
    upstream: str
    model: str  # the upstream's name for it; may contain `*`
    params: Table
    order: int


class _Import:
    def __init__(self, document: Table, draft: Draft) -> None:
        self._document = document
        self._draft = draft
        self._settings = as_table(document.get("litellm_settings"))
        self._router = as_table(document.get("router_settings"))
        self._general = as_table(document.get("general_settings"))
        self._groups: dict[str, list[_Deployment]] = {}
        self._credentials = {
            str(one.get("credential_name")): as_table(one.get("credential_values"))
            for one in map(as_table, as_list(document.get("credential_list")))
        }

    def run(self) -> None:
        self._draft.taken |= set(_references(self._document)) | set(self._implied_variables())
        for number, item in enumerate(as_list(self._document.get("model_list")), 1):
            self._item(as_table(item), f"model_list[{number}]")
        self._routes()
        self._aliases()
        self._server()
        self._leftovers()

    # --- deployments ---

    def _item(self, item: Table, path: str) -> None:
        group = str(item.get("model_name") or "")
        params = as_table(item.get("litellm_params"))
        info = as_table(item.get("model_info"))
        held = self._credentials.get(str(params.get("litellm_credential_name") or ""), {})
        params = {**held, **params}
        if not group or not params.get("model"):
            self._draft.lose(path, "`model_name` and `litellm_params.model` are required")
            return
        mode = str(info.get("mode") or "")
        if mode not in _CHAT_MODES:
            self._draft.lose(path, f"mode `{mode}`: Dragoman serves chat models only")
            return
        found = self._upstream(group, params, mode, f"{path}.litellm_params")
        if found is None:
            return
        upstream, model = found
        self._other_params(params, f"{path}.litellm_params")
        self._model_facts(group, info, f"{path}.model_info")
        order = params.get("order")
        deployment = _Deployment(
            path=path,
            upstream=upstream,
            model=model,
            params=self._overrides(params, f"{path}.litellm_params"),
            order=order if isinstance(order, int) else 1,
        )
        self._groups.setdefault(group, []).append(deployment)

    def _upstream(self, group: str, params: Table, mode: str, path: str) -> tuple[str, str] | None:
        """Return the name of the upstream that a deployment uses, and its model there."""
        name, model = _provider(params)
        provider = _PROVIDERS.get(name)
        if provider is None:
            self._draft.lose(f"{path}.model", f"`{params['model']}`: {_unknown_provider(name)}")
            return None
        base_url, dialect = self._address(name, provider, params, path)
        if base_url is None:
            return None
        if model.startswith("responses/") or mode == "responses":
            model, dialect = model.removeprefix("responses/"), "responses"
        table: Table = {"base_url": base_url, "dialect": dialect}
        vendor = vendor_at(base_url)
        wanted = (
            name if vendor is not None and vendor.name == provider.vendor else name_for(base_url)
        )
        if name == "azure":
            wanted = base_url.removeprefix("https://").partition(".")[0]
        prefix = group.removesuffix("/*")
        if group != prefix and model == "*" and "/" not in prefix:
            wanted = prefix  # a client's `prefix/model` reaches an upstream of that name
        key = self._key(wanted, provider, base_url, params, path)
        if key:
            table["key"] = key
        if provider.profile and vendor is None:
            table["profile"] = provider.profile
        headers = self._headers(params, path)
        if headers:
            table["headers"] = headers
        body = self._draft.plain_fields(as_table(params.get("extra_body")), f"{path}.extra_body")
        if body:
            table["body"] = body
        table |= self._failure_policy(params, base_url, path)
        return self._draft.add_upstream(wanted, table), model

    def _address(
        self, name: str, provider: Provider, params: Table, path: str
    ) -> tuple[str | None, str]:
        """Return the base URL and the dialect of a deployment; no base URL: recorded as lost."""
        vendor = VENDORS.get(provider.vendor)
        key = "api_base" if params.get("api_base") else "base_url"
        given = params.get(key)
        if not given:
            base_url = vendor.base_url if vendor is not None else provider.base_url
            if not base_url:
                self._draft.lose(path, f"`api_base` is missing, and `{name}` has no usual address")
                return None, ""
            return base_url, provider.dialect if vendor is None else vendor.dialect
        text = self._resolved(str(given), f"{path}.{key}")
        if text is None:
            return None, ""
        text, dialect = split_endpoint(text)
        if provider.path and not text.endswith(provider.path):
            text += provider.path
        base_url = self._draft.address(text, f"{path}.{key}") or ""
        found = vendor_at(base_url)
        if dialect is None:
            at_home = found is not None and found.name == provider.vendor
            dialect = "anthropic" if name == "anthropic" else provider.dialect
            dialect = found.dialect if found is not None and at_home else dialect
        return base_url or None, dialect

    def _resolved(self, text: str, path: str) -> str | None:
        """Return a text that may refer to the environment; addresses are read when they are imported."""
        if not text.startswith(_REFERENCE):
            return text
        variable = text.removeprefix(_REFERENCE)
        value = self._draft.environ.get(variable)
        if not value:
            self._draft.lose(
                path, f"an address cannot refer to a variable; set {variable} and import again"
            )
        return value or None

    def _key(self, name: str, provider: Provider, base_url: str, params: Table, path: str) -> str:
        vendor = VENDORS.get(provider.vendor)
        usual = vendor.key_variable if vendor is not None else provider.variable
        at_home = vendor is None or vendor_at(base_url) is vendor
        given = str(params.get("api_key") or "")
        if given.startswith(_REFERENCE):
            return f"env:{given.removeprefix(_REFERENCE)}"
        if not is_placeholder(given):
            wanted = usual if usual and at_home else f"{name}_API_KEY"
            return self._draft.secret(given, wanted=wanted, path=f"{path}.api_key")
        if usual and at_home:
            return f"env:{usual}"
        if usual and not is_local(base_url) and "api_key" not in params:
            self._draft.lose(
                f"{path}.api_key",
                f"missing: LiteLLM sends {usual} to this host; write `key` if that is intended",
            )
        return ""

    def _headers(self, params: Table, path: str) -> Table:
        headers: Table = {}
        for field in ("headers", "extra_headers"):
            for name, value in as_table(params.get(field)).items():
                text = str(value)
                where = f"{path}.{field}.{name}"
                if not _HEADER_NAME.fullmatch(name):
                    self._draft.lose(where, "not a header name")
                elif text.startswith(_REFERENCE):
                    headers[name] = f"env:{text.removeprefix(_REFERENCE)}"
                else:
                    headers[name] = self._draft.header_value(text, name=name, path=where)
        organization = params.get("organization")
        if isinstance(organization, str):
            reference = organization.startswith(_REFERENCE)
            headers["OpenAI-Organization"] = (
                f"env:{organization.removeprefix(_REFERENCE)}" if reference else organization
            )
        elif organization is not None:
            self._draft.lose(
                f"{path}.organization", "several organizations: write an upstream each"
            )
        return headers

    def _failure_policy(self, params: Table, base_url: str, path: str) -> Table:
        """Return the timeouts, retries, cool-down and TLS settings of an upstream."""
        table: Table = {}
        timeouts: Table = {}
        whole = _number(
            params.get("timeout"),
            self._router.get("timeout"),
            self._settings.get("request_timeout"),
        )
        if whole is not None:
            timeouts["first_byte"] = whole
        idle = _number(params.get("stream_timeout"), self._router.get("stream_timeout"))
        if idle is not None:
            timeouts["idle"] = idle
        if timeouts:
            table["timeouts"] = timeouts
        retries = _number(
            params.get("num_retries"), params.get("max_retries"),
            self._router.get("num_retries"), self._settings.get("num_retries"),
        )  # fmt: skip
        if retries is not None:
            table["retries"] = min(int(retries), 20)
        fails = _number(self._router.get("allowed_fails"), self._settings.get("allowed_fails"))
        if fails is not None:
            table["failures"] = int(fails) + 1  # LiteLLM cools down after more than this
        cooldown = _number(self._router.get("cooldown_time"), self._settings.get("cooldown_time"))
        if self._router.get("disable_cooldowns") is True:
            cooldown = 0.0
        if cooldown is not None:
            table["cooldown"] = cooldown
        table |= self._tls(params, base_url, path)
        return table

    def _tls(self, params: Table, base_url: str, path: str) -> Table:
        inside = "ssl_verify" in params
        verify = params.get("ssl_verify") if inside else self._settings.get("ssl_verify")
        if not base_url.startswith("https://"):
            return {}
        if verify is False or str(verify).lower() == "false":
            return {"tls": {"verify": False}}
        if isinstance(verify, str) and verify.lower() != "true":
            if (self._draft.folder / verify).is_file():
                return {"tls": {"ca": str(PurePath(verify))}}
            where = f"{path}.ssl_verify" if inside else "litellm_settings.ssl_verify"
            self._draft.lose(where, "there is no such file here; write `tls.ca`")
        return {}

    def _overrides(self, params: Table, path: str) -> Table:
        """Return the `params` of a route: what is sent if the client sends nothing."""
        overrides: Table = {}
        for name, ours in _PARAMS.items():
            value = params.get(name)
            if value is not None:
                self._override(overrides, ours, value, f"{path}.{name}")
        thinking = as_table(params.get("thinking"))
        if thinking:
            on = thinking.get("type") != "disabled"
            budget = thinking.get("budget_tokens")
            name, value = ("thinking_budget", budget) if on and budget else ("thinking", on)
            self._override(overrides, name, value, f"{path}.thinking")
        return overrides

    def _override(self, overrides: Table, name: str, value: object, path: str) -> None:
        setting = {"default": value}
        if check_params({name: setting}):
            self._draft.lose(path, f"not a value of `params.{name}`")
        else:
            overrides[name] = setting

    def _other_params(self, params: Table, path: str) -> None:
        for name, value in params.items():
            if name in _READ or name in _PARAMS or value is None:
                continue
            reason = _PARAM_REASONS.get(name, _FEATURE)
            if "cost" in name:
                reason = "write it under `[[prices]]`, for a million tokens"
            self._draft.lose(f"{path}.{name}", reason)

    def _model_facts(self, group: str, info: Table, path: str) -> None:
        facts: Table = {}
        for ours, names in (
            ("context", ("max_input_tokens",)),
            ("output", ("max_output_tokens", "max_tokens")),
        ):
            value = next((one for name in names if isinstance(one := info.get(name), int)), None)
            if value:
                facts[ours] = value
        if facts:
            self._draft.models.setdefault(group, {}).update(facts)
        read = {"mode", "id", "max_input_tokens", "max_output_tokens", "max_tokens"}
        others = [name for name in info if name not in read]
        if others:
            self._draft.lose(path, f"no counterpart for {', '.join(others)}")

    # --- routes ---

    def _routes(self) -> None:
        """Write a route for each group: exact names first, then globs, the longest first."""
        patterns = sorted(
            self._groups, key=lambda name: ("*" in name, -len(name) if "*" in name else 0)
        )
        for group in patterns:
            deployments = sorted(self._groups[group], key=lambda one: one.order)
            targets = [target for one in deployments if (target := self._target(group, one))]
            if not targets:
                continue
            if len(deployments) > 1:
                self._draft.lose(
                    deployments[1].path,
                    f"load balancing of `{group}`: the deployments are tried in their order instead",
                )
            targets += [one for one in self._fallbacks(group) if one not in targets]
            route: Table = {"match": {"model": group}, "to": targets}
            params = deployments[0].params
            if all(one.params == params for one in deployments):
                if params:
                    route["params"] = params
            else:
                self._draft.lose(
                    deployments[0].path, f"parameters of `{group}` differ: `params` are per route"
                )
            self._draft.routes.append(route)
        used = {
            target.partition("/")[0]
            for route in self._draft.routes
            for target in map(str, as_list(route["to"]))
        }
        for name in [one for one in self._draft.upstreams if one not in used]:
            if f"{name}/*" not in self._groups:
                del self._draft.upstreams[name]

    def _target(self, group: str, deployment: _Deployment) -> str | None:
        """Return a deployment as a target; None if it needs no route or cannot be written."""
        upstream, model = deployment.upstream, deployment.model
        if "*" not in group:
            if "*" not in model:
                return f"{upstream}/{model}"
            return f"{upstream}/{model.replace('*', group, 1)}"
        if group == f"{upstream}/*" and model == "*":
            return None  # `upstream/model` needs no route
        before, _, after = group.partition("*")
        if "*" not in model:
            return f"{upstream}/{model}"
        head, _, tail = model.partition("*")
        # Our `*` is the whole name that the client sent; LiteLLM's is what its `*` matched.
        if "*" not in after + tail and head.endswith(before) and tail.startswith(after):
            return f"{upstream}/{head[: len(head) - len(before)]}*{tail[len(after) :]}"
        self._draft.lose(
            deployment.path,
            f"the pattern `{group}` cannot be rewritten to `{model}`; list the models",
        )
        return None

    def _fallbacks(self, group: str) -> Iterator[str]:
        """Return the targets of the groups that LiteLLM falls back to."""
        names: list[str] = []
        for section, table in (
            ("router_settings", self._router),
            ("litellm_settings", self._settings),
        ):
            for one in as_list(table.get("fallbacks")):
                listed = as_table(one)
                for name in as_list(listed.get(group, listed.get("*"))):
                    if isinstance(name, str):
                        names.append(name)
                    else:
                        self._draft.lose(
                            f"{section}.fallbacks.{group}",
                            "a fallback with parameters: write a route",
                        )
            names += [str(one) for one in as_list(table.get("default_fallbacks"))]
        for name in names:
            if name == group:
                continue
            known = sorted(self._groups.get(name, ()), key=lambda one: one.order)
            if not known:
                self._draft.lose(f"fallback `{group}` to `{name}`", f"`{name}` is not carried over")
            for one in known:
                if "*" in one.model:
                    self._draft.lose(
                        f"fallback `{group}` to `{name}`", "a pattern cannot be a fallback"
                    )
                else:
                    yield f"{one.upstream}/{one.model}"

    def _aliases(self) -> None:
        for name, meaning in as_table(self._router.get("model_group_alias")).items():
            target = as_table(meaning).get("model") if isinstance(meaning, dict) else meaning
            self._draft.aliases[name] = str(target)
            if as_table(meaning).get("hidden"):
                self._draft.lose(
                    f"router_settings.model_group_alias.{name}.hidden",
                    "aliases cannot be hidden",
                )

    # --- the server ---

    def _server(self) -> None:
        master = self._general.get("master_key")
        if isinstance(master, str) and master:
            reference = master.startswith(_REFERENCE)
            self._draft.server["keys"] = [
                f"env:{master.removeprefix(_REFERENCE)}"
                if reference
                else self._draft.secret(
                    master, wanted="LITELLM_MASTER_KEY", path="general_settings.master_key"
                )
            ]
        most = self._general.get("global_max_parallel_requests")
        if isinstance(most, int) and most > 0:
            self._draft.server["max_requests"] = most
        if self._settings.get("json_logs") is True:
            self._draft.log["format"] = "json"
        if self._settings.get("set_verbose") is True:
            self._draft.log["level"] = "debug"

    def _leftovers(self) -> None:
        """Record every setting that was not read."""
        read = {
            "litellm_settings": {"fallbacks", "default_fallbacks", "request_timeout", "num_retries",
                                 "allowed_fails", "cooldown_time", "ssl_verify", "json_logs", "set_verbose",
                                 "drop_params"},
            "router_settings": {"fallbacks", "default_fallbacks", "timeout", "stream_timeout", "num_retries",
                                "allowed_fails", "cooldown_time", "disable_cooldowns", "model_group_alias"},
            "general_settings": {"master_key", "global_max_parallel_requests"},
        }  # fmt: skip
        for section, names in read.items():
            for name in as_table(self._document.get(section)):
                if name not in names:
                    self._draft.lose(f"{section}.{name}", _SETTING_REASONS.get(name, _FEATURE))
        for name, value in self._document.items():
            if name == "environment_variables":
                variables = ", ".join(as_table(value))
                self._draft.lose(name, f"set {variables} in the environment or in a file `.env`")
            elif name == "include":
                self._draft.lose(name, "other files are not read; import each of them")
            elif name not in (*SECTIONS, "credential_list"):
                self._draft.lose(name, _FEATURE)

    def _implied_variables(self) -> Iterator[str]:
        """Return the variables that LiteLLM reads for deployments without a key."""
        for item in map(as_table, as_list(self._document.get("model_list"))):
            params = as_table(item.get("litellm_params"))
            provider = _PROVIDERS.get(_provider(params)[0]) if params.get("model") else None
            if params.get("api_base") or not is_placeholder(str(params.get("api_key") or "")):
                continue
            if provider is not None:
                vendor = VENDORS.get(provider.vendor)
                yield vendor.key_variable if vendor is not None else provider.variable


def _provider(params: Table) -> tuple[str, str]:
    """Return the provider and the provider's name for the model."""
    model = str(params["model"])
    named = str(params.get("custom_llm_provider") or "")
    if named:
        return named, model.removeprefix(f"{named}/")
    first, slash, rest = model.partition("/")
    if slash and (first in _PROVIDERS or not params.get("api_base")):
        return first, rest
    for pattern, provider in _BARE_MODELS:
        if pattern.match(model):
            return provider, model
    return first if slash else "", rest if slash else model


def _unknown_provider(name: str) -> str:
    if not name:
        return "the name does not show which provider it is; write `provider/model`"
    return (
        f"provider `{name}` is not known; if it speaks one of the four dialects, add an "
        "`[upstreams.NAME]` table for it"
    )


def _references(value: object) -> Iterator[str]:
    """Return the variables that a document refers to."""
    match value:
        case str() if value.startswith(_REFERENCE):
            yield value.removeprefix(_REFERENCE)
        case dict():
            for item in value.values():
                yield from _references(item)
        case list():
            for item in value:
                yield from _references(item)


def _number(*values: object) -> float | None:
    """Return the first value that is a number."""
    return next((found for one in values if (found := as_number(one)) is not None), None)
