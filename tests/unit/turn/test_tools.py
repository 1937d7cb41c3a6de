"""Tool names on the wire: legal, stable, and back again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UntranslatableError
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool
from dragoman.turn.tools import NO_TOOLS, ToolName, ToolTable, wire_name

LONG = "mcp__plugin_compound-engineering_context7__query-docs-and-some-more-words"


@pytest.mark.parametrize("name", ["a", "get_weather", "A-1_b", "x" * 64])
def test_d5_a_legal_name_is_kept(name: str) -> None:
    assert name == wire_name(name)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (LONG, LONG[:55]),
        ("x" * 65, "x" * 55),
        ("a.b", "a_b"),
        ("a b/c", "a_b_c"),
        ("größe", "gr__e"),
        ("", ""),
    ],
)
def test_d5_another_name_is_shortened_with_a_stable_hash(name: str, kept: str) -> None:
    wire = wire_name(name)

    assert re.fullmatch(re.escape(kept) + r"_[0-9a-f]{8}", wire)
    assert wire == wire_name(name)
    assert len(wire) <= 64


def test_d5_names_that_begin_alike_are_kept_apart() -> None:
    assert wire_name(LONG + "1") != wire_name(LONG + "2")
    assert wire_name("a.b") != wire_name("a:b")


@given(st.text(), st.text(max_size=8))
def test_d5_any_name_is_legal_on_the_wire_and_found_again(name: str, namespace: str) -> None:
    wire = wire_name(name, namespace)
    table = ToolTable([Tool(name=name, namespace=namespace)])

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire)
    assert wire in table
    assert ToolName(name, namespace) == table.resolve(wire)


def test_a_name_with_half_a_surrogate_pair_is_legal_on_the_wire() -> None:
    assert re.fullmatch(r"x__[0-9a-f]{8}", wire_name("x\ud800"))


def test_f6_namespaces_are_flattened_and_restored() -> None:
    table = ToolTable(
        [
            Tool(name="spawn", namespace="agents"),
            Tool(name="spawn"),
            Tool(name="patch", flavor=Flavor.CUSTOM),
        ]
    )

    assert wire_name("spawn", "agents") == "agents__spawn"
    assert table.resolve("agents__spawn") == ToolName("spawn", "agents")
    assert table.resolve("spawn") == ToolName("spawn")
    assert table.resolve("patch") == ToolName("patch", "", Flavor.CUSTOM)
    assert len(table) == 3


@pytest.mark.parametrize("said", ["exec", "functions.exec", "functions__exec", " exec"])
def test_f6_a_name_without_its_namespace_is_the_one_tool_that_has_it(said: str) -> None:
    tools = [Tool(name="exec", namespace="functions", flavor=Flavor.CUSTOM), Tool(name="Bash")]

    assert ToolName("exec", "functions", Flavor.CUSTOM) == ToolTable(tools).resolve(said)


def test_f6_a_name_that_tools_of_two_namespaces_have_is_kept() -> None:
    tools = [Tool(name="wait", namespace=one) for one in ("functions", "agents", "clock")]

    assert ToolName("wait") == ToolTable(tools).resolve("wait")
    assert ToolName("wait", "clock") == ToolTable(tools).resolve("clock__wait")


@pytest.mark.parametrize(
    "other",
    [
        Tool(name="b__c", namespace="a", path="$.tools[1]"),
        Tool(name="a__b__c", path="$.tools[1]"),
        Tool(name="c", namespace="a__b", flavor=Flavor.CUSTOM, path="$.tools[1]"),
    ],
)
def test_f6_two_tools_of_one_flattened_name_are_refused_with_the_path(other: Tool) -> None:
    with pytest.raises(UntranslatableError) as caught:
        ToolTable([Tool(name="c", namespace="a__b"), other])

    assert (caught.value.path, caught.value.code) == ("$.tools[1]", "tool_name_collision")
    assert caught.value.http_status == 400


def test_f6_the_same_tool_declared_twice_is_no_collision() -> None:
    assert len(ToolTable([Tool(name="a"), Tool(name="a")])) == 1


def test_tools_that_the_vendor_runs_are_not_called_by_name() -> None:
    table = ToolTable([Tool(name="web_search", server=True), Tool(name="web_search")])

    assert len(table) == 1


@pytest.mark.parametrize(
    "mangled",
    [
        "functions.Bash",
        "functions:Bash",
        "default_api.Bash",
        "default_api:Bash",
        "tools.Bash",
        " Bash\n",
    ],
)
def test_t19_a_mangled_name_finds_its_tool_if_it_is_declared(mangled: str) -> None:
    assert ToolTable([Tool(name="Bash")]).resolve(mangled) == ToolName("Bash")
    assert NO_TOOLS.resolve(mangled) == ToolName(mangled)


def test_t19_a_declared_name_is_never_taken_apart() -> None:
    table = ToolTable([Tool(name="functions.Bash"), Tool(name="Bash")])

    assert table.resolve(wire_name("functions.Bash")) == ToolName("functions.Bash")


def test_t5_a_name_is_complete_when_no_longer_one_begins_with_it() -> None:
    table = ToolTable([Tool(name="read"), Tool(name="read_file")])

    assert not table.is_complete_name("read")
    assert table.is_complete_name("read_file")
    assert not table.is_complete_name("write")
