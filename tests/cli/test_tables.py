"""Tables where there is no terminal: plain, of a fixed width, every cell whole."""

from dragoman.cli.tables import print_table, progress, table_console


def test_a_table_is_plain_text_where_there_is_no_terminal(capsys) -> None:
    rows = [("one", ("well", "green")), ("a long name " * 20, "x" * 50)]

    print_table(table_console(), ["upstream", "state"], rows, fixed=["state"])

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 120
    assert "well" in shown
    assert 20 == shown.replace("\n", " ").count("name")


def test_progress_is_silent_where_there_is_no_terminal(capsys) -> None:
    with progress(2) as before:
        before("one")
        before("two")

    assert ("", "") == capsys.readouterr()
