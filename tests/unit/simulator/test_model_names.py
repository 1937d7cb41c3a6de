"""`sim/BASE[+QUIRK[:VALUE]]…`."""

import pytest

from dragoman.simulator.model_names import ModelName, parse_model


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("sim/plain", ModelName("plain", "", ())),
        ("plain", ModelName("plain", "", ())),
        ("sim/kimi-k2+length", ModelName("kimi-k2", "kimi_k2", (("length", ""),))),
        ("sim/hermes+cut:400+ pace : 20 +", ModelName("hermes", "hermes", (("cut", "400"), ("pace", "20")))),
        ("sim/moonshotai/Kimi-K2-Instruct", ModelName("moonshotai/Kimi-K2-Instruct", "kimi_k2", ())),
        ("no such model", ModelName("no such model", "", ())),
        ("", ModelName("", "", ())),
    ],
)  # fmt: skip
def test_a_name_has_a_base_a_family_and_quirks(model: str, expected: ModelName) -> None:
    assert expected == parse_model(model)
