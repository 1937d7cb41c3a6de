"""The id of a request, and the headers that every answer carries."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.headers import answer_headers, header_value, new_request_id, warnings_value
from dragoman.turn.losses import CODES


def test_ids_have_one_shape_and_never_come_again() -> None:
    ids = {new_request_id() for _ in range(10_000)}

    assert 10_000 == len(ids)
    assert all(re.fullmatch(r"req_[0-9A-Za-z]{24}", one) for one in ids)
    for place in range(4, 28):
        assert 62 == len({one[place] for one in ids})


def test_an_answer_carries_its_id_under_both_names() -> None:
    expected = {"server": "dragoman", "request-id": "req_1", "x-request-id": "req_1"}

    assert expected == answer_headers("req_1")


def test_an_answer_names_its_upstream_and_what_was_lost() -> None:
    headers = answer_headers(
        "req_1",
        route="route-1",
        upstream_model="moonshotai/kimi-k2",
        upstream_id="gen-17",
        warnings=["args_repaired", "field_dropped", "args_repaired"],
    )

    assert {
        "server": "dragoman",
        "request-id": "req_1",
        "x-request-id": "req_1",
        "x-dragoman-route": "route-1",
        "x-upstream-model": "moonshotai/kimi-k2",
        "x-upstream-request-id": "gen-17",
        "x-dragoman-warnings": "args_repaired,field_dropped",
    } == headers


def test_warnings_stay_within_a_kilobyte_and_say_that_there_are_more() -> None:
    many = warnings_value(f"code_{n}" for n in range(1000))

    assert 1000 < len(many) <= 1024
    assert many.startswith("code_0,code_1,")
    assert many.endswith(",...")
    assert "..." == warnings_value(["x" * 5000])
    assert "" == warnings_value([])


def test_a_header_has_room_for_as_many_codes_as_answers_have() -> None:
    assert "..." not in warnings_value(list(CODES)[:30])


@given(st.text(max_size=400))
def test_no_value_breaks_out_of_its_header(text: str) -> None:
    value = header_value(text)

    assert value.isascii()
    assert value.isprintable() or not value
    assert len(value) <= 256


@pytest.mark.parametrize("text", ["模型/k2", "a b", "100%", "x\r\nset-cookie: a=b", "a,b;c"])
def test_what_a_header_cannot_hold_can_be_read_back(text: str) -> None:
    assert text == unquote(header_value(text))
    assert "\n" not in header_value(text)


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert "x?" == header_value("x\ud800")
