"""Reasoning state of one dialect in the fields of another, and back."""

import pytest

from dragoman.context import Exchange
from dragoman.dialects.sealing import Opened, seal, unseal
from dragoman.envelopes import Sealer
from dragoman.profiles import profile
from dragoman.turn.events import Opaque, OpaqueKind
from dragoman.turn.losses import Loss

GENERIC = profile("generic")
SEALER = Sealer(b"key")
EXCHANGE = Exchange(profile=GENERIC, sealer=SEALER, model="m")
SIGNED = Opaque(0, OpaqueKind.SIGNATURE, "sig", "anthropic")
PLAIN = Opaque(0, OpaqueKind.PLAIN, "plain", "generic")


def opened(data: str, text: str, losses: list[Loss], sealer: Sealer | None = SEALER) -> Opened:
    return unseal(
        data,
        text,
        sealer=sealer,
        native_kind=OpaqueKind.SIGNATURE,
        native_origin="anthropic",
        losses=losses,
        path="$.x",
    )


@pytest.mark.parametrize("keep_text", [False, True])
def test_state_comes_back_with_its_text(keep_text: bool) -> None:
    sealed = seal(EXCHANGE, [PLAIN, SIGNED], "thought", keep_text=keep_text, call_id="c")
    assert sealed is not None
    losses: list[Loss] = []

    found = opened(sealed, "" if keep_text else "thought", losses)

    assert found.state is not None
    assert ("sig", "anthropic") == (found.state.data, found.state.origin)
    assert ("thought", "c", []) == (found.text, found.call_id, losses)


def test_nothing_is_sealed_without_state_or_key() -> None:
    assert seal(EXCHANGE, [], "thought") is None
    assert seal(Exchange(profile=GENERIC), [SIGNED], "thought") is None


@pytest.mark.parametrize(
    ("text", "sealer", "detail"),
    [
        ("another thought", SEALER, "the reasoning text was changed"),
        ("thought", Sealer(b"other"), "the envelope does not open"),
        ("thought", None, "the envelope does not open"),
    ],
)
def test_state_that_cannot_be_trusted_is_a_loss(
    text: str, sealer: Sealer | None, detail: str
) -> None:
    sealed = seal(EXCHANGE, [SIGNED], "thought")
    assert sealed is not None
    losses: list[Loss] = []

    found = opened(sealed, text, losses, sealer)

    assert found.state is None
    assert text == found.text
    assert [Loss("opaque_invalid", "$.x", detail)] == losses


@pytest.mark.parametrize("data", ["", "EqoBCkgIARAB"])
def test_state_of_the_clients_vendor_is_taken_as_it_is(data: str) -> None:
    losses: list[Loss] = []

    found = opened(data, "thought", losses)

    assert data == ("" if found.state is None else found.state.data)
    assert [] == losses
