"""Which target of a route is asked first."""

from collections import Counter
from typing import NamedTuple

import pytest
from msgspec import structs

from dragoman.dialects import dialect
from dragoman.gateway.target_order import TargetOrder, conversation_key
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.request import ASSISTANT, USER, Request, TextPart, Turn


class Aim(NamedTuple):
    upstream_name: str
    model: str = "m"


AIMS = tuple(Aim(name) for name in "abcd")


def talk(text: str = "hello", *more: str, system: str = "You code.") -> Request:
    turns = [Turn(USER, (TextPart(text),))]
    for number, one in enumerate(more):
        turns.append(Turn(USER if number % 2 else ASSISTANT, (TextPart(one),)))
    return Request(dialect="chat", model="m", system=(TextPart(system),), turns=tuple(turns))


def names(order: TargetOrder, request: Request, aims=AIMS, **running: int) -> str:
    arranged = order.arrange(aims, request, lambda name: running.get(name, 0))
    return "".join(aim.upstream_name for aim in arranged)


def firsts(order: TargetOrder, count: int, aims=AIMS) -> str:
    return "".join(names(order, talk(), aims)[0] for _ in range(count))


# --- weighted ---


def test_equal_weights_take_turns():
    assert "abcdabcd" == firsts(TargetOrder("weighted", (1, 1, 1, 1)), 8)


def test_weights_are_shares_and_turns_are_spread():
    chosen = firsts(TargetOrder("weighted", (5, 1, 1)), 70, AIMS[:3])

    assert {"a": 50, "b": 10, "c": 10} == Counter(chosen)
    assert "aabacaa" == chosen[:7]


def test_target_without_weight_is_only_a_fallback():
    order = TargetOrder("weighted", (1, 0, 1))

    assert ["acb", "cab", "acb"] == [names(order, talk(), AIMS[:3]) for _ in range(3)]


# --- least busy ---


def test_least_busy_target_is_first():
    order = TargetOrder("least_busy", (1, 1, 1, 1))

    assert "cbda" == names(order, talk(), a=3, b=1, c=0, d=2)


def test_load_is_compared_by_weight():
    order = TargetOrder("least_busy", (4, 1))

    assert "ab" == names(order, talk(), AIMS[:2], a=4, b=2)
    assert "ba" == names(order, talk(), AIMS[:2], a=12, b=2)


def test_idle_targets_take_turns():
    assert {"a": 5, "b": 5, "c": 5, "d": 5} == Counter(
        firsts(TargetOrder("least_busy", (1, 1, 1, 1)), 20)
    )


# --- sticky ---


def sticky(count: int = 4) -> TargetOrder:
    return TargetOrder("sticky", (1,) * count)


def test_conversation_stays_while_it_grows():
    grown = [talk("Fix it.", *("word",) * turns) for turns in range(12)]

    assert 1 == len({names(sticky(), one) for one in grown})


def test_conversations_are_spread():
    chosen = Counter(names(sticky(), talk(f"task {number}"))[0] for number in range(400))

    assert set("abcd") == set(chosen)
    assert min(chosen.values()) > 70


def test_other_system_text_may_go_elsewhere():
    asides = {names(sticky(), talk(system=f"Title {number}"))[0] for number in range(40)}

    assert set("abcd") == asides


def test_choice_is_pinned_because_all_machines_and_versions_must_agree():
    assert ["cadb", "adcb", "dcba"] == [
        names(sticky(), talk(text)) for text in ("one", "two", "three")
    ]


def test_removed_target_moves_only_its_own_conversations():
    talks = [talk(f"task {number}") for number in range(200)]
    before = [names(sticky(), one) for one in talks]
    after = [names(sticky(3), one, AIMS[:3]) for one in talks]

    assert [one.replace("d", "") for one in before] == after


def test_sticky_weights_are_shares():
    order = TargetOrder("sticky", (3, 1, 0))
    chosen = Counter(names(order, talk(f"task {n}"), AIMS[:3])[0] for n in range(800))

    assert 540 < chosen["a"] < 660
    assert 800 == chosen["a"] + chosen["b"]


BODIES = {
    "chat": b'{"model":"m","messages":[{"role":"system","content":"You code."},{"role":"user","content":"hello"}]}',
    "anthropic": b'{"model":"m","max_tokens":9,"system":"You code.","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}',
    "responses": b'{"model":"m","instructions":"You code.","input":"hello"}',
}


@pytest.mark.parametrize("name", BODIES)
def test_dialect_does_not_change_the_choice(name: str):
    request = dialect(name).decode_request(BODIES[name], sealer=None, limits=DEFAULT_LIMITS)

    assert conversation_key(talk()) == conversation_key(request)


def test_half_a_character_and_a_missing_user_are_fine():
    odd = structs.replace(talk("\ud83d"), system=())
    without = structs.replace(talk(), turns=())

    assert 3 == len({conversation_key(one) for one in (odd, without, talk())})
