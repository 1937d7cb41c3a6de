"""Who a client is, what it may use, and how much."""

import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from dragoman.gateway import keys
from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.keys import Admission, Holder, Keyring
from dragoman.turn.events import Fault, FaultKind


def key(value: str = "k-1", **options: Any) -> Key:
    return Key(key=Secret("env:K", value), **options)


def holder(**options: Any) -> Holder:
    found = Keyring([key(**options)]).identify({"x-api-key": "k-1"})

    assert isinstance(found, Holder)
    return found


def entered(outcome: Admission | Fault) -> Admission:
    assert isinstance(outcome, Admission), outcome
    return outcome


def refused(outcome: Any) -> Fault:
    assert isinstance(outcome, Fault), outcome
    return outcome


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "two"},
        {"authorization": "Bearer two"},
        {"authorization": "bearer   two "},
        {"x-api-key": "two", "authorization": "Bearer two"},
        {"x-api-key": "two", "authorization": "Basic Zm9v"},
        CIMultiDict({"X-Api-Key": "two"}),
        CIMultiDict({"Authorization": "BEARER two"}),
    ],
)
def test_a_key_is_taken_from_either_header(headers: Any) -> None:
    ring = Keyring([key("one"), key("two", name="team"), key("three")])

    found = ring.identify(headers)

    assert isinstance(found, Holder)
    assert "team" == found.name


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "requires a key"),
        ({"x-api-key": ""}, "requires a key"),
        ({"authorization": "Bearer "}, "requires a key"),
        ({"authorization": "Basic b25l"}, "must use the Bearer scheme"),
        ({"authorization": "one"}, "must use the Bearer scheme"),
        ({"x-api-key": "onE"}, "does not know"),
        ({"x-api-key": "one "[:2]}, "does not know"),
        ({"x-api-key": "one\udc80é"}, "does not know"),
        ({"x-api-key": "one", "authorization": "Bearer two"}, "different keys"),
    ],
)
def test_an_unknown_key_is_refused_with_the_reason(headers: dict[str, str], says: str) -> None:
    fault = refused(Keyring([key("one"), key("two")]).identify(headers))

    assert (FaultKind.AUTH, 401) == (fault.kind, fault.status)
    assert says in fault.message
    assert not any(value in fault.message for value in ("one\udc80", "Zm9v", "b25l"))


def test_without_keys_everybody_is_anonymous_and_unlimited() -> None:
    ring = Keyring([])

    found = ring.identify({"x-api-key": "a", "authorization": "Bearer b"})

    assert isinstance(found, Holder)
    assert ("anonymous", None) == (found.name, found.may_use("anything"))
    for _ in range(1000):
        entered(found.enter(0.0, 10**9))


def test_a_key_that_is_empty_opens_nothing() -> None:
    ring = Keyring([key("")])

    for headers in ({}, {"x-api-key": ""}, {"authorization": "Bearer "}):
        assert FaultKind.AUTH is refused(ring.identify(headers)).kind


def test_keys_without_a_name_are_numbered() -> None:
    ring = Keyring([key("one"), key("two")])

    found = ring.identify({"x-api-key": "two"})

    assert isinstance(found, Holder)
    assert "key-2" == found.name


def test_owner_is_the_name_of_a_key_or_its_digest_and_never_its_place() -> None:
    def owners(*given: Key) -> list[str]:
        return list(Keyring(given).owners)

    first, second, named = key("one"), key("two"), key("three", name="team")

    assert owners(first, second)[1:] == owners(second)
    assert owners(named, second) == [*owners(named), *owners(second)]
    assert owners(named) == owners(key("rotated", name="team"))
    # A name cannot be made to look like another key, or like a client without one.
    digest = owners(second)[0]
    for name in (digest, digest.partition(":")[2], "anonymous"):
        assert not {*owners(key("four", name=name))} & {digest, *owners()}
    assert "two" not in digest


@pytest.mark.parametrize("credential", ["one", "three", "none of them"])
def test_every_key_is_compared_whichever_fits(
    credential: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    compare = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append(len(a) - len(b))
        return compare(a, b)

    ring = Keyring([key("one"), key("two"), key("three")])
    monkeypatch.setattr(keys.hmac, "compare_digest", watched)
    ring.identify({"x-api-key": credential})

    assert [0, 0, 0] == compared


def test_a_key_may_use_the_models_of_its_globs() -> None:
    one = holder(models=("claude-*", "kimi-k2"))

    assert one.may_use("claude-sonnet-4-5[1m]") is None
    assert one.may_use("kimi-k2") is None
    fault = refused(one.may_use("gpt-5"))
    assert (FaultKind.PERMISSION, 403) == (fault.kind, fault.status)
    assert "may not use the model `gpt-5`; it may use `claude-*`, `kimi-k2`" in fault.message


def test_a_refusal_stays_readable_however_many_models_there_are() -> None:
    one = holder(models=tuple(f"m{n}" for n in range(500)))

    fault = refused(one.may_use("x" * 100_000))

    assert fault.message.endswith("and 480 more")
    assert len(fault.message) < 600


def test_requests_per_minute_may_come_at_once_and_then_one_by_one() -> None:
    one = holder(requests_per_minute=60)

    for _ in range(60):
        entered(one.enter(100.0, 0))

    fault = refused(one.enter(100.0, 0))
    assert (FaultKind.RATE_LIMIT, 429, 1.0) == (fault.kind, fault.status, fault.retry_after)
    assert (
        "60 requests per minute (`requests_per_minute` in its settings); try again in 1s"
        in fault.message
    )
    entered(one.enter(101.0, 0))
    refused(one.enter(101.0, 0))
    entered(one.enter(102.0, 0))


def test_a_refused_request_costs_nothing() -> None:
    one = holder(requests_per_minute=1, tokens_per_minute=1000)
    entered(one.enter(0.0, 0))

    for _ in range(50):
        refused(one.enter(0.0, 900))

    entered(one.enter(60.0, 1000))


def test_tokens_are_corrected_by_what_was_reported() -> None:
    one = holder(tokens_per_minute=1000)
    admission = entered(one.enter(0.0, 400))

    admission.leave(1000)

    assert 24.0 == refused(one.enter(0.0, 400)).retry_after
    assert 60.0 == refused(one.enter(0.0, 5000)).retry_after


def test_tokens_that_were_not_used_are_given_back() -> None:
    one = holder(tokens_per_minute=1000)

    entered(one.enter(0.0, 1000)).leave(10)

    entered(one.enter(0.0, 990))
    refused(one.enter(0.0, 1))


def test_without_a_report_the_estimate_remains() -> None:
    one = holder(tokens_per_minute=1000)

    entered(one.enter(0.0, 1000)).leave()

    refused(one.enter(0.0, 1))


def test_a_request_larger_than_the_limit_passes_an_unused_one_and_blocks_the_next() -> None:
    one = holder(tokens_per_minute=1000)

    entered(one.enter(0.0, 3000)).leave(3000)

    assert 121.0 == refused(one.enter(0.0, 1)).retry_after
    entered(one.enter(121.0, 1))


def test_requests_under_way_are_counted_until_they_leave() -> None:
    one = holder(concurrent=2)
    first = entered(one.enter(0.0, 0))
    entered(one.enter(0.0, 0))

    fault = refused(one.enter(0.0, 0))
    assert "2 requests at once" in fault.message
    assert fault.retry_after
    first.leave(5)
    entered(one.enter(0.0, 0))
    refused(one.enter(0.0, 0))


def test_leaving_twice_is_leaving_once() -> None:
    one = holder(concurrent=1, tokens_per_minute=100)
    first = entered(one.enter(0.0, 50))

    for _ in range(3):
        first.leave(0)

    entered(one.enter(0.0, 100))
    assert 1 == one.entrance.meter.running
    refused(one.enter(0.0, 0))


def test_a_reload_keeps_what_keys_of_the_same_value_have_used() -> None:
    old = Keyring([key("a", requests_per_minute=2, concurrent=2), key("b", requests_per_minute=1)])
    before = old.identify({"x-api-key": "a"})
    assert isinstance(before, Holder)
    running = [entered(before.enter(0.0, 0)) for _ in range(2)]

    new = Keyring(
        [
            key("c", requests_per_minute=1),
            key("a", name="renamed", requests_per_minute=60, concurrent=2),
        ]
    )
    new.adopt(old)
    after = new.identify({"x-api-key": "a"})
    other = new.identify({"x-api-key": "c"})

    assert isinstance(after, Holder)
    assert isinstance(other, Holder)
    assert "renamed" == after.name
    assert "at once" in refused(after.enter(0.0, 0)).message
    running[0].leave()
    entered(after.enter(0.0, 0))
    entered(other.enter(0.0, 0))
    refused(new.identify({"x-api-key": "b"}))


def test_a_clock_that_goes_back_does_no_harm() -> None:
    one = holder(requests_per_minute=1)
    entered(one.enter(100.0, 0))

    assert 60.0 == refused(one.enter(40.0, 0)).retry_after
    entered(one.enter(100.0, 0))


@given(
    limit=st.integers(1, 100_000),
    costs=st.lists(st.integers(0, 1_000_000), max_size=30),
    cost=st.integers(0, 1_000_000),
)
def test_a_client_that_waits_for_retry_after_is_admitted(
    limit: int, costs: list[int], cost: int
) -> None:
    one = holder(tokens_per_minute=limit)
    for each in costs:
        one.enter(7.0, each)

    outcome = one.enter(7.0, cost)

    if isinstance(outcome, Fault):
        assert outcome.retry_after is not None
        entered(one.enter(7.0 + outcome.retry_after, cost))


def test_a_reload_without_keys_goes_on_counting_what_is_under_way() -> None:
    old, new = Keyring([]), Keyring([])
    before, after = old.identify({}), new.identify({})
    assert isinstance(before, Holder)
    assert isinstance(after, Holder)
    entered(before.enter(0.0, 0))

    new.adopt(old)

    assert 1 == after.entrance.meter.running
