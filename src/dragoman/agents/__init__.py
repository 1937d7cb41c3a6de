"""Coding agents that people run on the gateway: the settings that each needs, and how it is started."""

from typing import Final

from dragoman.agents.agent import Agent
from dragoman.agents.claude import CLAUDE
from dragoman.agents.codex import CODEX
from dragoman.agents.gemini import GEMINI
from dragoman.agents.opencode import OPENCODE

__all__ = ["AGENTS"]

AGENTS: Final[dict[str, Agent]] = {agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, OPENCODE)}
