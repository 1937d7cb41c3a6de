"""What a strict target refuses; `test_policies.py` has the other decisions, target by target."""

import pytest

from dragoman.dialects.request_policy import refuse_losses
from dragoman.errors import UntranslatableError
from dragoman.turn.losses import Loss


def test_the_first_loss_that_does_harm_is_refused_with_its_path() -> None:
    losses = [Loss("turn_added", "$.a"), Loss("field_dropped", "$.b", "why"), Loss("value_clamped")]

    with pytest.raises(UntranslatableError) as refused:
        refuse_losses(losses)

    assert "$.b" == refused.value.path
    assert "field_dropped" == refused.value.code
    assert "why" in str(refused.value)


def test_losses_that_do_no_harm_pass() -> None:
    refuse_losses([Loss("turn_added"), Loss("stop_emulated")])
