"""Envelopes: what is sealed opens again, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.envelopes import PREFIX, Envelope, Sealer, is_envelope, text_digest
from dragoman.limits import Limits
from dragoman.turn.events import OpaqueKind

SEALER = Sealer(b"key")
ENVELOPE = Envelope("moonshot", OpaqueKind.PLAIN, data="state", text="thought", call_id="c")

envelopes = st.builds(
    Envelope,
    origin=st.text(max_size=8),
    kind=st.sampled_from(OpaqueKind),
    model=st.text(max_size=8),
    data=st.text(),
    text=st.none() | st.text(),
    digest=st.text(max_size=16),
    item_id=st.text(max_size=8),
    call_id=st.text(max_size=8),
)


@given(envelopes)
def test_what_is_sealed_opens_again(envelope: Envelope) -> None:
    sealed = SEALER.seal(envelope)

    assert sealed is not None
    assert envelope == SEALER.open(sealed)


def test_envelope_opens_for_the_owner_it_was_sealed_for_alone() -> None:
    owners = {name: SEALER.bound_to(name) for name in ("", "a", "b", "ab")}
    for name, sealer in owners.items():
        sealed = sealer.seal(ENVELOPE)

        assert sealed is not None
        assert SEALER.open(sealed) is None
        assert SEALER.bound_to(name).open(sealed) == ENVELOPE
        assert [name] == [other for other, one in owners.items() if one.open(sealed)]


def test_e5_an_envelope_is_recognisable_and_printable() -> None:
    sealed = SEALER.seal(ENVELOPE)

    assert sealed is not None
    assert sealed.startswith(PREFIX)
    assert is_envelope(sealed)
    assert sealed.isascii()
    assert sealed.isprintable()
    assert " " not in sealed


@pytest.mark.parametrize("data", ["", "EqoBCkgIARAB", "gAAAAABo", "dgm1", "dgm2.x.y"])
def test_e5_the_state_of_a_vendor_is_no_envelope(data: str) -> None:
    assert not is_envelope(data)
    assert SEALER.open(data) is None


def test_h2_sealing_is_deterministic() -> None:
    assert SEALER.seal(ENVELOPE) == Sealer(b"key").seal(ENVELOPE)


def test_e5_an_envelope_of_another_key_does_not_open() -> None:
    sealed = Sealer(b"other").seal(ENVELOPE)

    assert sealed is not None
    assert SEALER.open(sealed) is None


@given(envelopes, st.data())
def test_e5_a_damaged_envelope_does_not_open(envelope: Envelope, data: st.DataObject) -> None:
    sealed = SEALER.seal(envelope)
    assert sealed is not None
    at = data.draw(st.integers(0, len(sealed) - 1))
    char = data.draw(st.characters().filter(lambda char: char != sealed[at]))

    assert SEALER.open(sealed[:at] + char + sealed[at + 1 :]) is None
    assert SEALER.open(sealed[:at]) is None
    assert SEALER.open(sealed + char) is None


@pytest.mark.parametrize(
    "forged", ["", ".", "..", "dgm1.", "dgm1..", "dgm1.AAAA.AAAA", "é.é", "\ud800."]
)
def test_e5_a_forged_envelope_does_not_open(forged: str) -> None:
    assert SEALER.open(forged) is None


@given(st.text())
def test_e5_any_text_opens_or_not_without_a_word(text: str) -> None:
    assert SEALER.open(text) is None


def test_authentic_bytes_that_are_no_envelope_do_not_open() -> None:
    body = PREFIX + "AAAA"

    assert SEALER.open(f"{body}.{SEALER._mac(body)}") is None


def test_an_envelope_past_its_limit_is_not_sealed_and_does_not_open() -> None:
    small = Sealer(b"key", limits=Limits(max_envelope_bytes=100))
    noise = "".join(chr(33 + n * 7919 % 90) for n in range(300))
    sealed = SEALER.seal(Envelope("o", OpaqueKind.PLAIN, data=noise))

    assert sealed is not None
    assert small.seal(Envelope("o", OpaqueKind.PLAIN, data=noise)) is None
    assert small.open(sealed) is None
    assert small.seal(Envelope("o", OpaqueKind.PLAIN)) is not None


def test_an_envelope_that_would_swell_beyond_reason_is_not_sealed_and_does_not_open() -> None:
    limits = Limits(max_envelope_bytes=1000)
    swollen = Envelope("o", OpaqueKind.PLAIN, data="x" * 100_000)
    sealed = SEALER.seal(swollen)

    assert sealed is not None
    assert len(sealed) < 1000
    assert Sealer(b"key", limits=limits).seal(swollen) is None
    assert Sealer(b"key", limits=limits).open(sealed) is None


def test_half_a_surrogate_pair_cannot_be_sealed() -> None:
    assert SEALER.seal(Envelope("o", OpaqueKind.PLAIN, text="\ud800")) is None


def test_a_digest_shows_whether_a_text_was_changed() -> None:
    assert text_digest("a") == text_digest("a")
    assert text_digest("a") != text_digest("a ")
    assert len(text_digest("\ud800")) == 16


def test_an_envelope_is_small_where_there_is_little_to_say() -> None:
    sealed = SEALER.seal(Envelope("deepseek", OpaqueKind.PLAIN, digest=text_digest("x")))

    assert sealed is not None
    assert len(sealed) < 120
