from dragoman.toolcalls.scanner import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Run,
    Scanner,
    one_of,
)

NAME = Run("[a-z]", 1, 8, name="name")


def test_a_marker_is_found_with_its_parts() -> None:
    scanner = Scanner([("<f ", NAME, ">"), (one_of("[x]", "[y]"),)])

    found = scanner.find("a <f bc> [y]", 0)

    assert found is not None
    assert (0, 2, 8, {"name": "bc"}) == (found.which, found.start, found.end, found.groups)
    assert scanner.find("a [y]", 0).which == 1
    assert scanner.find("a <f > [z]", 0) is None


def test_only_the_tail_that_may_become_a_marker_is_held() -> None:
    scanner = Scanner([("<tool>",), ("<f ", NAME, ">")])

    assert [
        ("a < b", 5),
        ("a <", 2),
        ("a <to", 2),
        ("a <tx", 5),
        ("a <f", 2),
        ("a <f abc", 2),
        ("a <f abcdefghi", 14),
        ("<<", 1),
    ] == [
        (text, scanner.hold(text, 0))
        for text in ("a < b", "a <", "a <to", "a <tx", "a <f", "a <f abc", "a <f abcdefghi", "<<")
    ]


def test_what_a_marker_looks_ahead_to_is_not_consumed() -> None:
    scanner = Scanner([("</p>", BLANKS, AHEAD_OR_END, one_of("<p>", "</f>"))])

    found = scanner.find("x</p> <p>", 0)

    assert found is not None
    assert (1, 6) == (found.start, found.end)
    assert scanner.find("x</p> y", 0) is None
    assert scanner.find("x</p>", 0) is None
    assert scanner.hold("x</p>", 0) == 1
    assert scanner.find_last("x</p> ", 0) is not None


def test_a_pattern_waits_for_one_that_comes_first() -> None:
    scanner = Scanner([("<r>\n",), ("<r>",)])

    assert scanner.find("<r>", 0) is None
    assert scanner.hold("<r>", 0) == 0
    assert scanner.find("<r>a", 0).which == 1
    assert scanner.find("<r>\n", 0).which == 0
    assert scanner.find_last("<r>", 0).which == 1


def test_a_marker_inside_one_that_may_still_come_waits() -> None:
    scanner = Scanner([("<s>", Run(r"[\s\S]", 1, 20, lazy=True), "<c>"), ("<e>",)])

    assert scanner.find("<s> <e>", 0) is None
    assert scanner.find("<s> <e> <c>", 0).which == 0
    assert scanner.find("<s> <e> and so much more text", 0).which == 1


def test_a_pattern_may_consume_nothing() -> None:
    scanner = Scanner([(AHEAD, "{")])

    found = scanner.find("a{", 0)

    assert found is not None
    assert (1, 1) == (found.start, found.end)
    assert scanner.leads == "{"


def test_leads_are_unknown_if_a_run_comes_first() -> None:
    assert Scanner([(Run("[^<]", 1, 4), "<x>")]).leads is None
    assert Scanner([(Run(r"\n", 0, 1), "<x>")]).leads == "\n<"
    assert Scanner([]).leads == ""
