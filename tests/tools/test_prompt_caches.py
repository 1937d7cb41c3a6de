"""Sticky routes keep prompt caches warm."""

import asyncio

from tools.prompt_caches import measure


def test_sticky_conversations_read_clearly_more_from_prompt_caches() -> None:
    turns = asyncio.run(measure("weighted"))
    sticky = asyncio.run(measure("sticky"))

    assert turns.total == sticky.total
    assert sticky.cached > 1.3 * turns.cached
    assert turns.total - turns.cached > 2 * (sticky.total - sticky.cached)
