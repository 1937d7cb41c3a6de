"""How mistakes in the settings are printed."""

import tomllib
from pathlib import Path

import pytest

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import load, make_settings
from dragoman.gateway.config.problems import ConfigMistakesError, Mistake


def test_one_mistake_is_one_line_and_several_are_a_list(tmp_path):
    path = tmp_path / "dragoman.toml"
    path.write_text("a = 1")
    with pytest.raises(ConfigMistakesError) as one:
        load(None, environ={}, cwd=tmp_path)
    path.write_text("a = 1\nb = 2")
    with pytest.raises(ConfigMistakesError) as two:
        load(None, environ={}, cwd=tmp_path)

    assert str(one.value) == "dragoman.toml: a: unknown key"
    assert str(two.value) == ("2 mistakes in dragoman.toml:\n  a: unknown key\n  b: unknown key")
    assert one.value.mistakes == (Mistake("a", "unknown key"),)


@pytest.mark.parametrize(
    "secret", ['key = "hush"', 'headers = { cookie = "hush" }', 'hush2 = "hush"']
)
def test_what_could_be_a_secret_is_not_repeated(secret):
    text = f'[upstreams.up]\nbase_url = "https://host/v1"\n{secret}'
    around = ConfigEnvironment(environ={}, folder=Path("/nowhere"))
    with pytest.raises(ConfigMistakesError) as error:
        make_settings(tomllib.loads(text), around)

    (mistake,) = error.value.mistakes
    assert '"hush"' not in str(mistake)
