"""Secrets, `.env` files and variables."""

from pathlib import Path

import pytest

from dragoman.gateway.config.environment import parse_dotenv
from dragoman.gateway.config.load import (
    load,
)
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.settings import (
    Key,
    Secret,
)
from tests.support.settings_file import EXAMPLE, write


def test_secrets_come_from_files_beside_the_settings(tmp_path):
    write(tmp_path / "etc", '[upstreams.up]\nbase_url = "https://h/v1"\nkey = "file:keys/up"\n')
    write(tmp_path / "etc", "  secret \n", "keys/up")

    found = load(Path("etc/dragoman.toml"), environ={}, cwd=tmp_path).settings

    assert found.upstreams["up"].key == Secret("file:keys/up", "secret")


def test_a_tilde_is_home(tmp_path):
    write(tmp_path, '[upstreams.up]\nbase_url = "https://h/v1"\nkey = "file:~/up"\n')
    write(tmp_path / "me", "s", "up")

    found = load(None, environ={"HOME": str(tmp_path / "me")}, cwd=tmp_path).settings

    assert found.upstreams["up"].key == Secret("file:~/up", "s")


def test_variables_may_stand_in_dotenv_and_the_real_ones_win(tmp_path):
    write(tmp_path, 'server.keys = ["env:A", "env:B"]')
    write(tmp_path, "A=from-file\nexport B='from file'\n", ".env")

    found = load(None, environ={"A": "real"}, cwd=tmp_path).settings

    assert ["real", "from file"] == [key.key.value for key in found.server.keys]


def test_odd_lines_of_dotenv_are_warned_about_and_not_shown(tmp_path):
    write(tmp_path, '[upstreams.up]\nbase_url = "https://h/v1"')
    write(tmp_path, "A=1\nsk-secret\n", ".env")

    warnings = load(None, environ={}, cwd=tmp_path).warnings

    assert [".env:2: not a line `NAME=value`; ignored"] == [str(one) for one in warnings]


def test_a_dotenv_that_cannot_be_read_is_warned_about(tmp_path):
    write(tmp_path, '[upstreams.up]\nbase_url = "https://h/v1"')
    (tmp_path / ".env").write_bytes(b"\xff")

    (warning,) = load(None, environ={}, cwd=tmp_path).warnings

    assert "is not UTF-8" in str(warning)


def test_a_secret_never_shows_in_its_text():
    assert "hidden" not in repr(Secret("env:A", "hidden"))
    assert "hidden" not in str(Key(key=Secret("env:A", "hidden")))


def test_secrets_that_are_missing_can_be_left_empty(tmp_path):
    write(tmp_path, EXAMPLE)

    found = load(None, environ={}, cwd=tmp_path, need_secrets=False).settings

    assert found.upstreams["openrouter"].key == Secret("env:OPENROUTER_API_KEY")


def test_a_bare_secret_is_a_mistake_even_where_secrets_are_not_needed(tmp_path):
    write(tmp_path, 'server.keys = ["sk-live"]')

    with pytest.raises(ConfigMistakesError) as error:
        load(None, environ={}, cwd=tmp_path, need_secrets=False)

    assert "sk-live" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "values", "odd"),
    [
        ("A=1", {"A": "1"}, []),
        ("  A = 1 2  ", {"A": "1 2"}, []),
        ("export A=1", {"A": "1"}, []),
        ("# A=1\n\nB=", {"B": ""}, []),
        ("A=1 # note", {"A": "1"}, []),
        ("A=a#b", {"A": "a#b"}, []),
        ("A=# note", {"A": ""}, []),
        ("A='a # b' # note", {"A": "a # b"}, []),
        ('A="a\\nb\\"c\\\\d\\q"', {"A": 'a\nb"c\\dq'}, []),
        ("A='a\\nb'", {"A": "a\\nb"}, []),
        ("A=$B", {"A": "$B"}, []),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}, []),
        ("A=1\nA=2", {"A": "2"}, []),
        ("A='open", {}, [".env:1"]),
        ("A='a' b", {}, [".env:1"]),
        ("A=1\n2A=1\nword", {"A": "1"}, [".env:2", ".env:3"]),
    ],
)
def test_dotenv_lines(text, values, odd):
    found, warned = parse_dotenv(text)

    assert values == found
    assert odd == [one.path for one in warned]
