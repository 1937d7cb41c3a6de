"""The prompt cache of one simulated server: how much of a prompt it has read before.

As in inference servers, a prompt is cut into blocks, and a block is found again by its text and all text before it.
"""

import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from dragoman.simulator.play import TOKEN, ReceivedRequest, input_tokens

_BLOCK: Final = 16  # tokens
_MOST_BLOCKS: Final = 200_000
_READ: Final = ("tools", "system", "instructions", "messages", "input")  # in the order of a prompt


class PromptCache:
    """The blocks of earlier prompts; the least recently used ones are evicted."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def read(self, asked: ReceivedRequest) -> int:
        """Return how many tokens of a prompt's beginning are cached, and cache all of it."""
        text = b"".join(
            msgspec.json.encode(asked.fields[name]) for name in _READ if name in asked.fields
        )
        size, cached, begins = _BLOCK * TOKEN, 0, True
        digest = hashlib.blake2b(digest_size=16)
        for at in range(0, len(text) - size + 1, size):
            digest.update(text[at : at + size])
            block = digest.digest()
            begins = begins and block in self._blocks
            cached += _BLOCK if begins else 0
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > _MOST_BLOCKS:
            self._blocks.popitem(last=False)
        return min(cached, input_tokens(asked) - 1)  # no server has cached all of a prompt

    def clear(self) -> None:
        self._blocks.clear()
