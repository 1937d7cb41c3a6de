from dragoman.toolcalls.format import AHEAD, AHEAD_OR_END, BLANKS, Pattern, Run, one_of
from dragoman.toolcalls.scanner import FoundMarker, Scanner

NAME = Run("[a-z]", 1, 8, name="name")


def which(scanner: Scanner, text: str) -> int | None:
    """Return which marker a text holds."""
    found = scanner.scan(text, 0)
    return found.which if isinstance(found, FoundMarker) else None


def test_a_marker_is_found_with_its_parts() -> None:
    scanner = Scanner([("<f ", NAME, ">"), (one_of("[x]", "[y]"),)])

    assert scanner.scan("a <f bc> [y]", 0) == FoundMarker(0, 2, 8, {"name": "bc"})
    assert scanner.scan("a <f bc> [y]", 3) == FoundMarker(1, 9, 12, {})
    assert scanner.scan("a <f > [z]", 0) == 10


def test_only_the_tail_that_may_become_a_marker_is_held() -> None:
    scanner = Scanner([("<tool>",), ("<f ", NAME, ">")])

    held = {
        "a < b": 5,
        "a <": 2,
        "a <to": 2,
        "a <tx": 5,
        "a <f": 2,
        "a <f abc": 2,
        "a <f abcdefghi": 14,
        "<<": 1,
    }
    assert held == {text: scanner.scan(text, 0) for text in held}


def test_what_a_marker_looks_ahead_to_is_not_consumed() -> None:
    scanner = Scanner([("</p>", BLANKS, AHEAD_OR_END, one_of("<p>", "</f>"))])

    assert scanner.scan("x</p> <p>", 0) == FoundMarker(0, 1, 6, {})
    assert scanner.scan("x</p> y", 0) == 7
    assert scanner.scan("x</p>", 0) == 1
    assert scanner.find_last("x</p> ", 0) == FoundMarker(0, 1, 6, {})
    assert scanner.find_last("x</p> y", 0) is None


def test_a_pattern_waits_for_one_that_comes_first() -> None:
    scanner = Scanner([("<r>\n",), ("<r>",)])

    assert scanner.scan("<r>", 0) == 0
    assert which(scanner, "<r>a") == 1
    assert which(scanner, "<r>\n") == 0
    assert scanner.find_last("<r>", 0) == FoundMarker(1, 0, 3, {})


def test_a_pattern_does_not_wait_for_one_that_comes_later() -> None:
    assert which(Scanner([("<r>",), ("<r>\n",)]), "<r>") == 0


def test_a_marker_inside_one_that_may_still_come_waits() -> None:
    scanner = Scanner([("<s>", Run("[^!]", 1, 20), "!"), ("<e>",)])

    assert scanner.scan("<s> <e>", 0) == 0
    assert which(scanner, "<s> <e> !") == 0
    assert which(scanner, "<s> <e> and so much more text") == 1


def test_choices_in_the_middle_end_or_go_on() -> None:
    scanner = Scanner([("<a", one_of(("=", NAME), ""), BLANKS, ">"), ("<a", one_of("!", "!?"))])

    assert scanner.scan("<a=x >", 0) == FoundMarker(0, 0, 6, {"name": "x"})
    assert scanner.scan("<a>", 0) == FoundMarker(0, 0, 3, {})
    assert [0, 0, 0] == [scanner.scan(text, 0) for text in ("<a", "<a=", "<a=x ")]
    assert scanner.scan("<a!?", 0) == FoundMarker(1, 0, 3, {})


def test_a_run_shares_characters_with_what_follows_it() -> None:
    scanner = Scanner([("<", Run("[a-z ]", 1, 8, name="key"), Run(" ", 0, 2), "end>")])

    assert scanner.scan("<legend end>", 0) == FoundMarker(0, 0, 12, {"key": "legend "})
    assert scanner.scan("<legend en", 0) == 0


def test_a_pattern_may_consume_nothing() -> None:
    scanner = Scanner([(AHEAD, "{")])

    assert scanner.scan("a{", 0) == FoundMarker(0, 1, 1, {})
    assert scanner.leads == "{"


def test_a_run_that_may_be_empty_comes_first() -> None:
    scanner = Scanner([(Run(r"\n", 0, 1), "</p>")])

    assert scanner.scan("a\n</p>", 0) == FoundMarker(0, 1, 6, {})
    assert scanner.scan("a</p>", 0) == FoundMarker(0, 1, 5, {})
    assert scanner.scan("a\n\n", 0) == 2


def test_a_beginning_is_not_a_marker() -> None:
    scanner = Scanner([("<tool>",)])

    assert scanner.begins("<to")
    assert not scanner.begins("<tool>")
    assert not scanner.begins("<tx")
    assert scanner.scan_at(" <tool>", 1) == FoundMarker(0, 1, 7, {})
    assert scanner.scan_at(" <tool>", 0) is None


def test_leads_are_unknown_if_many_characters_may_come_first() -> None:
    assert Scanner([(Run("[^<]", 1, 4), "<x>")]).leads is None
    assert Scanner([(Run(r"\n", 0, 1), "<x>")]).leads == "\n<"
    assert Scanner([]).leads == ""


def test_no_pattern_is_found_nowhere() -> None:
    scanner = Scanner([])

    assert scanner.scan("<tool>", 0) == 6
    assert scanner.find_last("<tool>", 0) is None


def test_what_is_found_does_not_depend_on_how_the_text_is_cut() -> None:
    patterns: list[Pattern] = [
        ("<f", one_of("=", " name="), NAME, BLANKS, AHEAD, one_of("{", "<p>")),
        ("<f", NAME),
        ("<f", BLANKS, "{"),
    ]
    scanner = Scanner(patterns)

    for text in ("<f=ab  {", "<f name=ab<p>", "<fab {", "<f  {", "<f=ab [", "<f name=x<p"):
        final = scanner.find_last(text, 0)
        for end in range(len(text) + 1):
            found = scanner.scan(text[:end], 0)
            assert not isinstance(found, FoundMarker) or found == final, text[:end]


def test_nothing_is_compiled_until_a_text_may_hold_a_marker() -> None:
    scanner = Scanner([("<tool>",), ("[x]", NAME)])

    assert 10 == scanner.scan("plain text", 0)
    assert scanner.scan_at("plain", 0) is None
    assert not scanner.begins("plain", 0)
    assert scanner.find_last("plain", 0) is None
    assert {"_expression", "_at_end"}.isdisjoint(vars(scanner))
    assert 0 == which(scanner, "a <tool>")
    assert "_expression" in vars(scanner)


def test_a_scanner_of_nothing_finds_nothing() -> None:
    scanner = Scanner([])

    assert 5 == scanner.scan("<tool", 0)
    assert scanner.find_last("<tool", 0) is None
