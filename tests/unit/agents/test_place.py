"""What a gateway that serves one agent alone is told."""

import pytest

from dragoman.agents import AGENTS
from dragoman.agents.place import fitted
from dragoman.gateway.config.settings import Server, Settings


@pytest.mark.parametrize(
    ("agent", "set_by_user", "served"),
    [
        ("claude", "none", "open"),
        ("claude", "message_stop", "message_stop"),
        ("codex", "none", "none"),
        ("opencode", "open", "open"),
    ],
)
def test_streams_break_as_the_agent_needs_it(agent: str, set_by_user: str, served: str) -> None:
    settings = Settings(server=Server(stream_error_tail=set_by_user, keep_alive=3.0))

    server = fitted(settings, AGENTS[agent]).server

    assert (served, 3.0) == (server.stream_error_tail, server.keep_alive)
