"""Which runs are made: every agent on each upstream dialect, with models of these families.

The table in docs/agent-tests.md is drawn from here, and every cell is a test of its agent.
"""

from typing import Final

# For each agent and dialect, models as the simulator knows them; each writes its calls in its own way.
CELLS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Claude Code": {
        "chat": ("kimi-k2", "qwen3-coder", "deepseek-v3.1", "glm-4.6", "gpt-oss-20b"),
        "anthropic": ("minimax-m2", "kimi-k2"),
        "responses": ("gpt-oss-120b", "qwen3-coder"),
        "gemini": ("plain", "kimi-k2"),
    },
    "Codex": {
        "chat": ("kimi-k2-thinking", "deepseek-v3.2", "mistral-large"),
        "anthropic": ("glm-4.7",),
        "responses": ("qwen3-coder", "hermes-4", "kimi-k2"),
        "gemini": ("plain", "qwen3-coder"),
    },
    "Gemini CLI": {
        "chat": ("kimi-k2", "qwen3-coder", "plain"),
        "anthropic": ("plain", "glm-4.7"),
        "responses": ("plain", "minimax-m2"),
        "gemini": ("plain", "kimi-k2"),
    },
    "opencode (Messages)": {
        "chat": ("glm-4.7",),
        "anthropic": ("kimi-k2",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "opencode (Chat)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("glm-4.6",),
        "responses": ("gpt-oss-20b",),
        "gemini": ("plain",),
    },
    "opencode (Responses)": {
        "chat": ("deepseek-v3",),
        "anthropic": ("minimax-m2",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "Qwen Code": {
        "chat": ("qwen3-coder", "kimi-k2"),
        "anthropic": ("glm-4.5",),
        "responses": ("minimax-m2",),
        "gemini": ("plain",),
    },
    "Continue": {
        "chat": ("kimi-k2", "llama-3.3", "granite-4"),
        "anthropic": ("qwen3-coder",),
        "responses": ("seed-oss",),
        "gemini": ("plain",),
    },
    "AI SDK (Messages)": {
        "chat": ("kimi-k2", "llama-4"),
        "anthropic": ("minimax-m3",),
        "responses": ("glm-4.6",),
        "gemini": ("plain",),
    },
    "AI SDK (Chat)": {
        "chat": ("deepseek-v4", "gemma-4"),
        "anthropic": ("kimi-k3",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "AI SDK (Responses)": {
        "chat": ("kimi-k2", "longcat"),
        "anthropic": ("glm-4.7",),
        "responses": ("gpt-oss-20b",),
        "gemini": ("plain",),
    },
    "AI SDK (Gemini)": {
        "chat": ("kimi-k2",),
        "anthropic": ("plain",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "npm openai (Chat)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("kimi-k2",),
        "responses": ("glm-4.7",),
        "gemini": ("plain",),
    },
    "npm openai (Responses)": {
        "chat": ("deepseek-v3.1",),
        "anthropic": ("minimax-m2",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "npm @anthropic-ai/sdk": {
        "chat": ("kimi-k2",),
        "anthropic": ("qwen3-coder",),
        "responses": ("hermes-4",),
        "gemini": ("plain",),
    },
    "npm @google/genai (stream)": {
        "chat": ("glm-4.6",),
        "anthropic": ("plain",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "npm @google/genai (chats)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("kimi-k2",),
        "responses": ("plain",),
        "gemini": ("plain",),
    },
    "openai (Chat)": {
        "chat": ("glm-4.6",),
        "anthropic": ("kimi-k2",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "openai (Responses)": {
        "chat": ("kimi-k2",),
        "anthropic": ("qwen3-coder",),
        "responses": ("deepseek-v3.1",),
        "gemini": ("plain",),
    },
    "anthropic (stream)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("minimax-m2",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "anthropic (tool runner)": {
        "chat": ("kimi-k2",),
        "anthropic": ("glm-4.7",),
        "responses": ("gpt-oss-20b",),
        "gemini": ("plain",),
    },
    "openai-agents (Chat)": {
        "chat": ("hermes-4",),
        "anthropic": ("kimi-k2",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "openai-agents (Responses)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("minimax-m2",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "pydantic-ai (Chat)": {
        "chat": ("kimi-k2",),
        "anthropic": ("glm-4.7",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "pydantic-ai (Responses)": {
        "chat": ("kimi-k2",),
        "anthropic": ("qwen3-coder",),
        "responses": ("gpt-oss-120b",),
        "gemini": ("plain",),
    },
    "pydantic-ai (Messages)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("kimi-k2",),
        "responses": ("glm-4.6",),
        "gemini": ("plain",),
    },
    "langchain-openai (Chat)": {
        "chat": ("kimi-k2",),
        "anthropic": ("minimax-m2",),
        "responses": ("glm-4.7",),
        "gemini": ("plain",),
    },
    "langchain-openai (Responses)": {
        "chat": ("deepseek-v3",),
        "anthropic": ("qwen3-coder",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "langchain-anthropic": {
        "chat": ("granite-4",),
        "anthropic": ("qwen3-coder",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "google-genai (stream)": {
        "chat": ("kimi-k2",),
        "anthropic": ("plain",),
        "responses": ("qwen3-coder",),
        "gemini": ("plain",),
    },
    "google-genai (chats)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("minimax-m2",),
        "responses": ("plain",),
        "gemini": ("kimi-k2",),
    },
    "pydantic-ai (Gemini)": {
        "chat": ("kimi-k2",),
        "anthropic": ("qwen3-coder",),
        "responses": ("plain",),
        "gemini": ("plain",),
    },
    "langchain-google-genai": {
        "chat": ("glm-4.7",),
        "anthropic": ("plain",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
    "llm (Chat)": {
        "chat": ("qwen3-coder",),
        "anthropic": ("kimi-k2",),
        "responses": ("glm-4.6",),
        "gemini": ("plain",),
    },
    "llm (Responses)": {
        "chat": ("glm-4.7",),
        "anthropic": ("qwen3-coder",),
        "responses": ("kimi-k2",),
        "gemini": ("plain",),
    },
}


def cells_of(agent: str) -> list[tuple[str, str]]:
    """Return the dialects and models that an agent is run with."""
    return [(dialect, model) for dialect, models in CELLS[agent].items() for model in models]
