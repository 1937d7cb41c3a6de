"""Vendors and servers that people put behind the gateway: their addresses, dialects and keys."""

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.turn.request import DialectName

GENERIC: Final = "generic"  # the profile of a server of which nothing is known


class Vendor(Struct, frozen=True, kw_only=True):
    name: str
    description: str  # one line for people who choose
    base_url: str
    dialect: DialectName = "chat"
    # Dialects it speaks as well; empty: at the same address.
    others: dict[DialectName, str] = {}
    key_variable: str = ""  # where its key is usually kept; empty: it asks for none
    profile: str = GENERIC
    profiles: dict[DialectName, str] = {}  # of dialects in which it is another upstream
    model: str  # a good first choice; `*` for servers that serve what they were started with
    # What shows in an address that it is this one: a host (and all under it), the end of one from a hyphen on, or
    # `:port` alone where the port is as good as a name.
    hosts: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.description.partition(",")[0]


_ALL: Final = (
    Vendor(
        name="openrouter",
        description="OpenRouter, in front of many vendors",
        base_url="https://openrouter.ai/api/v1",
        others={"anthropic": "", "responses": ""},
        key_variable="OPENROUTER_API_KEY",
        profile="openrouter",
        model="moonshotai/kimi-k2-thinking",
        hosts=("openrouter.ai",),
    ),
    Vendor(
        name="openai",
        description="OpenAI",
        base_url="https://api.openai.com/v1",
        dialect="responses",  # reasoning is carried from turn to turn only here
        others={"chat": ""},
        key_variable="OPENAI_API_KEY",
        profile="openai",
        model="gpt-5",
        hosts=("api.openai.com", "openai.azure.com"),
    ),
    Vendor(
        name="anthropic",
        description="Anthropic",
        base_url="https://api.anthropic.com/v1",
        dialect="anthropic",
        others={"chat": ""},
        key_variable="ANTHROPIC_API_KEY",
        profile="anthropic",
        model="claude-sonnet-4-5",
        hosts=("api.anthropic.com",),
    ),
    Vendor(
        name="moonshot",
        description="Moonshot, Kimi models",
        base_url="https://api.moonshot.ai/v1",
        others={"anthropic": "https://api.moonshot.ai/anthropic/v1"},
        key_variable="MOONSHOT_API_KEY",
        profile="moonshot",
        model="kimi-k2-thinking",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
    ),
    Vendor(
        name="deepseek",
        description="DeepSeek",
        base_url="https://api.deepseek.com",
        others={"anthropic": "https://api.deepseek.com/anthropic/v1"},
        key_variable="DEEPSEEK_API_KEY",
        profile="deepseek",
        model="deepseek-chat",
        hosts=("api.deepseek.com",),
    ),
    Vendor(
        name="zai",
        description="Z.ai, GLM models",
        base_url="https://api.z.ai/api/paas/v4",
        others={"anthropic": "https://api.z.ai/api/anthropic/v1"},
        key_variable="ZAI_API_KEY",
        profile="zai",
        model="glm-4.7",
        hosts=("api.z.ai", "open.bigmodel.cn"),
    ),
    Vendor(
        name="qwen",
        description="Alibaba's Model Studio (DashScope), Qwen models",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        others={"anthropic": "https://dashscope-intl.aliyuncs.com/apps/anthropic/v1"},
        key_variable="DASHSCOPE_API_KEY",
        profile="qwen",
        model="qwen3-coder-plus",
        hosts=(
            "dashscope-intl.aliyuncs.com",
            "dashscope-us.aliyuncs.com",
            "dashscope.aliyuncs.com",
        ),
    ),
    Vendor(
        name="minimax",
        description="MiniMax",
        base_url="https://api.minimax.io/v1",
        others={"anthropic": "https://api.minimax.io/anthropic/v1"},
        key_variable="MINIMAX_API_KEY",
        profile="minimax",
        model="MiniMax-M2",
        hosts=("api.minimax.io", "api.minimaxi.com", "api.minimax.chat"),
    ),
    Vendor(
        name="mistral",
        description="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        profile="mistral",
        model="devstral-medium-latest",
        hosts=("api.mistral.ai", "codestral.mistral.ai"),
    ),
    Vendor(
        name="groq",
        description="Groq",
        base_url="https://api.groq.com/openai/v1",
        others={"responses": ""},
        key_variable="GROQ_API_KEY",
        profile="groq",
        model="openai/gpt-oss-120b",
        hosts=("api.groq.com",),
    ),
    Vendor(
        name="together",
        description="Together",
        base_url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        model="moonshotai/Kimi-K2-Thinking",
        hosts=("api.together.xyz", "api.together.ai"),
    ),
    Vendor(
        name="fireworks",
        description="Fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        model="accounts/fireworks/models/kimi-k2-thinking",
        hosts=("api.fireworks.ai",),
    ),
    Vendor(
        name="xai",
        description="xAI, Grok models",
        base_url="https://api.x.ai/v1",
        others={"responses": ""},
        profile="xai",
        key_variable="XAI_API_KEY",
        model="grok-4",
        hosts=("api.x.ai",),
    ),
    Vendor(
        name="perplexity",
        description="Perplexity, Sonar models that search the web for every answer",
        base_url="https://api.perplexity.ai",
        key_variable="PERPLEXITY_API_KEY",
        profile="perplexity",
        model="sonar-pro",
        hosts=("api.perplexity.ai",),
    ),
    Vendor(
        name="gemini",
        description="Google, Gemini models with an API key",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        dialect="gemini",  # thought signatures are whole only here
        others={"chat": "https://generativelanguage.googleapis.com/v1beta/openai"},
        key_variable="GEMINI_API_KEY",
        profile="gemini-api",
        profiles={"chat": "gemini"},
        model="gemini-2.5-pro",
        hosts=("generativelanguage.googleapis.com",),
    ),
    Vendor(
        name="vertex",
        description="Google Cloud's Vertex AI, Gemini models",
        # With a project: …/v1/projects/PROJECT/locations/LOCATION/publishers/google, and a bearer token.
        base_url="https://aiplatform.googleapis.com/v1/publishers/google",
        dialect="gemini",
        key_variable="VERTEX_API_KEY",
        profile="vertex",
        model="gemini-2.5-pro",
        hosts=("aiplatform.googleapis.com", "-aiplatform.googleapis.com"),
    ),
    Vendor(
        name="ollama",
        description="Ollama on this machine",
        base_url="http://127.0.0.1:11434/v1",
        others={"anthropic": "", "responses": ""},
        profile="ollama",
        model="qwen3-coder",
        hosts=(":11434",),
    ),
    # Ports 8000, 8080 and 4000 are used by too many programs to identify one.
    Vendor(
        name="vllm",
        description="vLLM on this machine",
        base_url="http://127.0.0.1:8000/v1",
        others={"anthropic": "", "responses": ""},
        profile="vllm",
        model="*",
    ),
    Vendor(
        name="llama-server",
        description="llama.cpp's server on this machine",
        base_url="http://127.0.0.1:8080/v1",
        others={"anthropic": "", "responses": ""},
        profile="llama-server",
        model="*",
    ),
    Vendor(
        name="lm-studio",
        description="LM Studio on this machine",
        base_url="http://127.0.0.1:1234/v1",
        others={"anthropic": "", "responses": ""},
        profile="lm-studio",
        model="*",
        hosts=(":1234",),
    ),
    Vendor(
        name="sglang",
        description="SGLang on this machine",
        base_url="http://127.0.0.1:30000/v1",
        profile="sglang",
        model="*",
        hosts=(":30000",),
    ),
    Vendor(
        name="transformers",
        description="`transformers serve` on this machine",
        base_url="http://127.0.0.1:8000/v1",
        others={"responses": ""},
        profile="transformers",
        model="*",
    ),
    Vendor(
        name="litellm",
        description="a LiteLLM proxy on this machine",
        base_url="http://127.0.0.1:4000/v1",
        others={"anthropic": "", "responses": ""},
        key_variable="LITELLM_API_KEY",
        profile="litellm",
        model="*",
    ),
    Vendor(
        name="simulator",
        description="the built-in simulator (`dragoman simulate`), which needs no key",
        base_url="http://127.0.0.1:8485/v1",
        others={"anthropic": "", "responses": ""},
        model="sim/kimi-k2",
    ),
)

VENDORS: Final[dict[str, Vendor]] = {vendor.name: vendor for vendor in _ALL}

# Other names that people use for the same.
ALIASES: Final[dict[str, str]] = {
    "alibaba": "qwen",
    "claude": "anthropic",
    "dashscope": "qwen",
    "glm": "zai",
    "google": "gemini",
    "grok": "xai",
    "kimi": "moonshot",
    "llama.cpp": "llama-server",
    "llamacpp": "llama-server",
    "lmstudio": "lm-studio",
    "sim": "simulator",
    "z.ai": "zai",
}


def find_vendor(name: str) -> Vendor | None:
    """Return a vendor by its name or another name for it, in any letter case."""
    wanted = name.strip().lower()
    return VENDORS.get(ALIASES.get(wanted, wanted))


def vendor_at(base_url: str) -> Vendor | None:
    """Return the vendor of an address, if the address shows it."""
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:  # not an address: `checks.py` reports it
        return None
    for vendor in _ALL:
        for known in vendor.hosts:
            under = known if known.startswith("-") else f".{known}"
            if known in (f":{port}", host) or host.endswith(under):
                return vendor
    return None


def profile_for(base_url: str, dialect: DialectName = "") -> str:
    """Return the name of the profile that fits an address; `generic` if nothing is known of it.

    `dialect` is the one that is spoken there; empty: the vendor's first.
    """
    vendor = vendor_at(base_url)
    return GENERIC if vendor is None else vendor.profiles.get(dialect, vendor.profile)
