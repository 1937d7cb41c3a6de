"""Which client was given which id of a vendor's state, and what the others are answered."""

import json
from typing import Any

import pytest

from dragoman.dialects.vendor_state import references
from dragoman.gateway.vendor_ids import MAX_IDS, GivenIds, not_given


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({"previous_response_id": "r"}, 400, "previous_response_not_found", "Previous response"),
        (
            {"conversation": "c"},
            404,
            "conversation_not_found",
            "Conversation with id 'c' not found",
        ),
        ({"input": [{"id": "m"}]}, 404, "item_not_found", "Item with id 'm' not found."),
        ({"x": {"vector_store_ids": ["v"]}}, 404, "vector_store_not_found", "Vector store with"),
    ],
)
def test_refusal_has_the_words_of_the_vendor(body: Any, status: int, code: str, says: str) -> None:
    (one,) = references(json.dumps(body).encode())
    fault = not_given(one)

    assert (status, code) == (fault.status, fault.code)
    assert fault.message.startswith(says)


def test_ids_of_each_owner_are_bounded_and_its_own() -> None:
    given = GivenIds()
    given.add("b", ["mine"])
    given.add("a", [str(one) for one in range(MAX_IDS + 5)])

    assert given.has("b", "mine")
    assert not given.has("a", "mine")
    assert (False, True) == (given.has("a", "4"), given.has("a", "5"))
    given.keep_only(["a"])
    assert not given.has("b", "mine")
