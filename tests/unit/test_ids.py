"""Tool-call ids: legal everywhere, one for one, and back again without memory."""

import re
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dragoman.ids import (
    MAX_CLIENT_ID,
    ClientIds,
    IdStyle,
    UpstreamIds,
    decode_id,
    derived_id,
    encode_id,
)

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
VERBATIM = re.compile(r"\S{1,64}")
natives = st.text(min_size=1) | st.from_regex(r"(g[xh][0-9]*-)?[a-z.:_-]{1,12}", fullmatch=True)


@pytest.mark.parametrize(
    ("native", "k", "client_id"),
    [
        ("call_abc123", 0, "call_abc123"),
        ("toolu_01A09q90qw90lq917835lq9", 0, "toolu_01A09q90qw90lq917835lq9"),
        ("functions.get_weather:0", 0, "gx-functions-2eget_weather-3a0"),
        ("functions.get_weather:0", 1, "gx1-functions-2eget_weather-3a0"),
        ("chatcmpl-tool-" + "5f" * 16, 0, "chatcmpl-tool-" + "5f" * 16),
        ("gx-foo", 0, "gx-gx-2dfoo"),
        ("gh-foo", 0, "gx-gh-2dfoo"),
        ("gx12-foo", 0, "gx-gx12-2dfoo"),
        ("gxfoo", 0, "gxfoo"),
        ("é", 0, "gx--c3-a9"),
        ("call_abc123", 2, "gx2-call_abc123"),
    ],
)
def test_d2_the_table_of_client_ids(native: str, k: int, client_id: str) -> None:
    assert client_id == encode_id(native, k)
    assert native == decode_id(client_id)


@pytest.mark.parametrize(
    ("native", "k", "client_id"),
    [
        ("functions.bash:15", 0, "functions.bash:15"),
        ("functions.bash:15", 1, "gx1-functions-2ebash-3a15"),
        ("functions.погода:0", 0, "functions.погода:0"),
        ("call_abc123", 0, "call_abc123"),
        # They look like escaped ones.
        ("gx-foo", 0, "gx-gx-2dfoo"),
        ("gh-foo", 0, "gx-gh-2dfoo"),
        # Clients may trim or lose what cannot be seen.
        ("a b", 0, "gx-a-20b"),
        ("a\n", 0, "gx-a-0a"),
        ("\u2028", 0, "gx--e2-80-a8"),
        ("", 0, "gx-"),
        ("\ud800", 0, "gx--ed-a0-80"),
    ],
)
def test_d2_the_table_of_verbatim_ids(native: str, k: int, client_id: str) -> None:
    assert client_id == encode_id(native, k, verbatim=True)
    assert native == decode_id(client_id)


def test_d4_a_long_id_becomes_a_hash_that_only_memory_reverses() -> None:
    native = "x" * 83
    client_id = encode_id(native)

    assert re.fullmatch(r"gh-[0-9a-f]{32}", client_id)
    assert client_id == decode_id(client_id)
    assert native == decode_id(client_id, {client_id: native})
    assert client_id == decode_id(client_id, {"gh-other": "y"})


@given(natives, st.integers(0, 3), st.booleans())
@example("\ud800", 0, False)
@example("functions.a:0", 0, False)
@example("functions.a:0", 0, True)
def test_d2_d4_any_id_is_legal_short_and_reversible(native: str, k: int, verbatim: bool) -> None:
    client_id = encode_id(native, k, verbatim=verbatim)

    assert (VERBATIM if verbatim else LEGAL).fullmatch(client_id)
    assert len(client_id) <= MAX_CLIENT_ID
    if client_id.startswith("gh-"):
        # Only what could not fit is hashed: three characters for each byte, and the prefix.
        assert len(native.encode("utf-8", "surrogatepass")) * 3 + 4 > MAX_CLIENT_ID
    else:
        assert native == decode_id(client_id)
        assert client_id == encode_id(decode_id(client_id), k, verbatim=verbatim)


@given(natives, natives, st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
@example("a.b", "a:b", 0, 0, False, False)
@example("gx1-a", "a", 0, 1, False, True)
@example("a", "gx-a", 0, 0, False, True)
@example("gx-a-2eb", "a.b", 0, 0, True, False)
def test_d2_no_two_ids_meet(  # noqa: PLR0917 -- two calls, each seen by a client of either kind
    one: str, other: str, k: int, j: int, first: bool, second: bool
) -> None:
    assume((one, k) != (other, j))

    assert encode_id(one, k, verbatim=first) != encode_id(other, j, verbatim=second)


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_d2_a_legal_id_is_left_alone_both_ways_unless_it_looks_like_ours(native: str) -> None:
    assume(not re.match(r"g[xh][0-9]*-", native))

    assert native == encode_id(native)
    assert native == decode_id(native)


@pytest.mark.parametrize(
    "client_id", ["gx-a-zz", "gx-a-", "gx-a-2", "gx--ff", "gx1-a-G0", "gx", ""]
)
def test_d2_what_looks_like_ours_but_is_not_is_kept(client_id: str) -> None:
    assert client_id == decode_id(client_id)


@given(st.text())
def test_d2_any_id_of_a_client_can_be_decoded(client_id: str) -> None:
    assert isinstance(decode_id(client_id), str)


# --- client -----------------------------------------------------------------------------------------


def test_t7_calls_of_one_native_id_are_kept_apart_also_from_the_history() -> None:
    ids = ClientIds(["gx-functions-2ef-3a0", "call_0"])

    assert ids.of(0, "functions.f:0") == "gx1-functions-2ef-3a0"
    assert ids.of(1, "functions.f:0") == "gx2-functions-2ef-3a0"
    assert ids.of(2, "call_0") == "gx1-call_0"
    assert ids.of(3, "call_1") == "call_1"


def test_t7_verbatim_ids_are_kept_apart_from_both_forms_in_the_history() -> None:
    ids = ClientIds(
        ["functions.f:0", "gx1-functions-2ef-3a0", "gx-functions-2eg-3a1"], verbatim=True
    )

    assert ids.of(0, "functions.f:0") == "gx2-functions-2ef-3a0"
    assert ids.of(1, "functions.g:1") == "functions.g:1"


def test_t7_a_call_has_one_id_whoever_asks_and_in_whatever_order() -> None:
    ids = ClientIds(["a"])
    first, second = ids.of(4, "a"), ids.of(7, "a")

    assert ("gx1-a", "gx2-a") == (first, second)
    assert second == ids.of(7, "a")
    assert first == ids.of(4, "a")


@given(st.lists(st.sampled_from(["a", "a.b", "gx1-a", "x" * 70])), st.sets(st.sampled_from(["a"])))
def test_t7_no_two_calls_of_an_answer_have_one_id(found: list[str], used: set[str]) -> None:
    ids = ClientIds(used)
    rendered = [ids.of(at, native) for at, native in enumerate(found)]

    assert len(rendered) == len(set(rendered))
    assert not used & set(rendered)


# --- upstream ---------------------------------------------------------------------------------------


def test_d1_kimi_gets_numbers_that_run_over_the_whole_conversation() -> None:
    ids = UpstreamIds("kimi")
    history = [("call_a", "bash"), ("toolu_b", "glob"), ("gx-functions-2ebash-3a0", "bash")]

    assert [ids.of(client_id, name) for client_id, name in history] == [
        "functions.bash:0",
        "functions.glob:1",
        "functions.bash:2",
    ]
    # Results ask again, by the id alone.
    assert [ids.of(client_id) for client_id, _ in history] == [
        "functions.bash:0",
        "functions.glob:1",
        "functions.bash:2",
    ]


def test_d1_a_conversation_with_kimi_gets_back_the_ids_that_it_made() -> None:
    native = ["functions.bash:0", "functions.glob:1"]
    client = [encode_id(one) for one in native]

    assert native == [
        UpstreamIds("kimi").of(client[0], "bash"),
        UpstreamIds("any").of(client[1], "glob"),
    ]


def test_d1_the_same_history_gives_the_same_ids() -> None:
    history = [(f"call_{n}", "f") for n in range(5)]
    first, second = UpstreamIds("kimi"), UpstreamIds("kimi")

    assert [first.of(*one) for one in history] == [second.of(*one) for one in history]


def test_d3_mistral_gets_nine_characters() -> None:
    ids = UpstreamIds("mistral9")

    for client_id in (
        "call_1",
        "toolu_01A09q90qw90lq917835lq9",
        "gx-functions-2ebash-3a0",
        "ü" * 9,
    ):
        assert re.fullmatch(r"[A-Za-z0-9]{9}", ids.of(client_id))
    assert ids.of("abcDEF123") == "abcDEF123"
    assert ids.of("call_1") == UpstreamIds("mistral9").of("call_1")


@pytest.mark.parametrize(
    ("style", "length"), [("openai40", 40), ("responses64", 64), ("anthropic64", 64)]
)
def test_d4_an_id_is_kept_where_it_fits_and_hashed_where_not(style: str, length: int) -> None:
    ids = UpstreamIds(style)

    assert ids.of("x" * length) == "x" * length
    assert re.fullmatch(r"gh-[0-9a-f]{32}", ids.of("x" * (length + 1)))
    assert re.fullmatch(r"gh-[0-9a-f]{32}", ids.of("gx-functions-2ebash-3a0"))


def test_ids_that_decode_to_one_are_kept_apart() -> None:
    ids = UpstreamIds("any")

    assert ids.of("gx-functions-2ef-3a0") == "functions.f:0"
    assert ids.of("gx1-functions-2ef-3a0") == "functions.f:0_1"
    assert ids.of("functions.f:0") == "functions.f:0_2"
    assert ids.of("gx-functions-2ef-3a0") == "functions.f:0"


def test_a_hashed_id_is_restored_for_as_long_as_it_is_remembered() -> None:
    client_id = encode_id("x" * 50)

    assert UpstreamIds("any", {client_id: "x" * 50}).of(client_id) == "x" * 50
    assert UpstreamIds("any").of(client_id) == client_id


client_ids = st.sampled_from(
    ["a", "gx-a", "gx1-a", "gx2-a", "a_1", "abcDEF123", "x" * 70, "gh-" + "0" * 32, "ü"]
)


@given(
    st.lists(client_ids, max_size=8),
    st.sampled_from(["any", "openai40", "responses64", "anthropic64", "mistral9", "kimi"]),
)
def test_one_call_has_one_id_and_no_two_calls_the_same(found: list[str], style: str) -> None:
    ids = UpstreamIds(style)
    rendered = {client_id: ids.of(client_id, "f") for client_id in found}

    assert len(rendered) == len(set(rendered.values()))
    assert rendered == {client_id: ids.of(client_id, "f") for client_id in found}


# --- derived ----------------------------------------------------------------------------------------


def test_h2_a_derived_id_depends_on_nothing_but_its_arguments() -> None:
    assert derived_id("msg_", "seed", "message") == derived_id("msg_", "seed", "message")
    assert re.fullmatch(r"msg_[A-Za-z0-9]{24}", derived_id("msg_", "seed", "message"))
    assert len({derived_id("", seed, what) for seed in "ab" for what in "xy"}) == 4
    assert derived_id("", "a", "bc") != derived_id("", "ab", "c")
    assert len(derived_id("x", "a", "b", 9)) == 10


MANY = 100_000  # ids of a history; a search that begins anew for each takes minutes
LONGEST = 10.0  # seconds of the processor; linear work takes tenths of one


@pytest.mark.parametrize("style", ["any", "openai40", "responses64", "anthropic64", "mistral9"])
def test_many_ids_of_one_native_id_are_kept_apart_in_linear_time(style: IdStyle) -> None:
    ids = UpstreamIds(style)
    began = time.process_time()
    rendered = [ids.of(f"gx{k}-a") for k in range(1, MANY)]

    assert time.process_time() - began < LONGEST
    assert len(set(rendered)) == len(rendered)


def test_calls_of_an_answer_avoid_many_used_ids_in_linear_time() -> None:
    used = frozenset({"a", *(f"gx{k}-a" for k in range(1, MANY))})
    ids = ClientIds(used)
    began = time.process_time()
    rendered = [ids.of(at, "a") for at in range(1000)]

    assert time.process_time() - began < LONGEST
    assert [f"gx{MANY + k}-a" for k in range(1000)] == rendered
