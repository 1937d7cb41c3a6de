"""Upstreams with a web search in the shape of each vendor, played by the simulator, and one without."""

from typing import NamedTuple

from msgspec import structs

from dragoman.gateway.config.settings import Settings


class Host(NamedTuple):
    dialect: str
    profile: str
    model: str  # the quirk makes the simulator take this vendor's words alone
    shows: bool = True  # its answers show that it searched
    sources: bool = True  # and what it found
    forces: bool = True  # it can be forced to search although functions are declared


WITHOUT_SEARCH = "host-vllm"
HOSTS = {
    "host-messages": Host("anthropic", "anthropic", "claude-haiku-4-5"),
    "host-messages-deepseek": Host("anthropic", "deepseek", "deepseek-chat"),
    "host-responses": Host("responses", "openai", "gpt-5.2"),
    "host-responses-xai": Host("responses", "xai", "grok-4+search:xai", forces=False),
    "host-responses-qwen": Host("responses", "qwen", "qwen-max"),
    "host-gemini": Host("gemini", "gemini-api", "gemini-3-pro", forces=False),
    "host-openai": Host("chat", "openai", "gpt-5-search-api+search:options"),
    "host-openrouter": Host("chat", "openrouter", "kimi-k2+search:openrouter"),
    "host-zai": Host("chat", "zai", "glm-4.7+search:zai"),
    "host-qwen": Host("chat", "qwen", "qwen-plus+search:qwen", shows=False, sources=False),
    # Its search takes a second request, which the gateway sends.
    "host-moonshot": Host(
        "chat", "moonshot", "moonshot-v1+search:kimi", sources=False, forces=False
    ),
    "host-xai": Host("chat", "xai", "grok-3+search:xai"),
    "host-perplexity": Host("chat", "perplexity", "sonar-pro+search:perplexity"),
    "host-compound": Host("chat", "groq", "groq/compound+search:compound", forces=False),
    "host-browser": Host("chat", "groq", "openai/gpt-oss-120b+search:browser", forces=False),
    WITHOUT_SEARCH: Host("chat", "vllm", "glm-4.6+search:none"),
}
SEARCHING = [name for name in HOSTS if name != WITHOUT_SEARCH]


def target(name: str) -> str:
    """Return a host as the target of a route."""
    return f"{name}/{HOSTS[name].model}"


def with_hosts(settings: Settings) -> Settings:
    """Add the hosts to settings that have an upstream of each dialect."""
    hosts = {
        name: structs.replace(settings.upstreams[host.dialect], profile=host.profile)
        for name, host in HOSTS.items()
    }
    return structs.replace(settings, upstreams={**settings.upstreams, **hosts})
