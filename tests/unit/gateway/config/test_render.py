"""Settings shown, and first files written."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.render import first_file, plain, toml_text, toml_value
from dragoman.gateway.config.settings import Secret, Settings, Upstream
from dragoman.gateway.config.vendors import VENDORS
from dragoman.gateway.routing import Question, Router

RICH = """
[server]
port = 1
keys = ["env:A", { key = "env:B", name = "ci", models = ["x"] }]
seal_key = "env:C"
limits = { max_blocks = 5 }
[upstreams."a.b"]
base_url = "https://openrouter.ai/api/v1"
key = "env:D"
headers = { X-Plain = "p\\\\q\\"r", X-Token = "env:E" }
body = { a = { b = [1, 2.5, true, "x"], c = {} }, "odd key" = "\\n\\u007f" }
timeouts = { idle = 5 }
[upstreams.plain]
base_url = "http://127.0.0.1:1/v1"
[[routes]]
to = ["a.b/*", "plain/x"]
match = { model = "claude-*", thinking = true, tokens_above = 9, header = { x-a = "b" }, dialect = "chat" }
params = { temperature = 0, stop = ["a"] }
timeouts = { total = 60 }
[[routes]]
to = ["plain/x"]
[aliases]
"gpt-*" = "m"
[tiers]
opus = ["plain/x"]
[models."claude-*"]
context = 5
[store]
responses = "off"
"""
ENVIRON = {name: f"hidden-{name}-0123456789" for name in "ABCDE"}


def read(text: str, environ=ENVIRON, *, need_secrets=True) -> Settings:
    around = ConfigEnvironment(environ=environ, folder=Path("/nowhere"))
    return make_settings(tomllib.loads(text), around, need_secrets=need_secrets).settings


@pytest.mark.parametrize("defaults", [False, True])
@pytest.mark.parametrize("text", ["", RICH])
def test_what_is_shown_can_be_read_again(text, defaults):
    found = read(text)

    assert found == read(toml_text(found, defaults=defaults))


def test_no_secret_shows():
    found = read(RICH)

    shown = toml_text(found, defaults=True) + str(plain(found))

    assert "hidden" not in shown


def test_secrets_show_where_they_come_from_and_whether_they_are_there():
    found = read('server.keys = ["env:A", "env:Z"]', need_secrets=False)

    assert toml_text(found) == (
        '[[server.keys]]\nkey = "env:A"  # set\n\n[[server.keys]]\nkey = "env:Z"  # not set\n'
    )
    assert ["env:A (set)", "env:Z (not set)"] == [
        key["key"] for key in plain(found)["server"]["keys"]
    ]


def test_only_what_differs_from_the_defaults_is_shown_unless_asked():
    found = Settings(upstreams={"up": Upstream(base_url="https://openrouter.ai/api/v1")})

    assert toml_text(found) == (
        "[upstreams.up]\n# profile: `openrouter`, by the address\n"
        'base_url = "https://openrouter.ai/api/v1"\n'
    )
    assert 'dialect = "chat"  # default\n' in toml_text(found, defaults=True)
    assert toml_text(Settings()) == "# all settings have their default values\n"


def test_plain_values_are_json():
    assert msgspec.json.decode(msgspec.json.encode(plain(read(RICH))))["server"]["port"] == 1


JSON = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_value_is_written_as_toml(value):
    assert {"a": value} == tomllib.loads(f"a = {toml_value(value)}")


def test_a_secret_is_written_as_its_source():
    assert toml_value(Secret("env:A", "x")) == '"env:A"'


# --- first files ---


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda one: one.name)
def test_a_first_file_is_good_once_the_key_is_set(vendor):
    environ = {vendor.key_variable: "k"} if vendor.key_variable else {}
    around = ConfigEnvironment(environ=environ, folder=Path("/nowhere"))

    for dialect in (vendor.dialect, *vendor.others):
        loaded = make_settings(tomllib.loads(first_file(vendor.name, dialect=dialect)), around)
        chosen = Router(loaded.settings).choose(Question(model="claude-sonnet-4-5"))

        assert () == loaded.warnings
        assert vendor.name == chosen.hops[0].upstream_name
        assert dialect == chosen.hops[0].upstream.dialect
        wanted = vendor.profiles.get(dialect, vendor.profile)
        assert wanted == chosen.hops[0].profile.name


def test_a_first_file_shows_what_was_chosen():
    text = first_file("Kimi", model='odd"name', base_url="https://other/v1")

    found = read(text, {"MOONSHOT_API_KEY": "k"})

    assert found.routes[0].to == ('moonshot/odd"name',)
    assert found.upstreams["moonshot"].base_url == "https://other/v1"


def test_the_commented_lines_of_a_first_file_are_good_too():
    text = first_file("ollama")
    lines = [
        line.removeprefix("# ") if re.match(r'# (\[|"|[a-z]+ = )', line) else line
        for line in text.splitlines()
    ]

    found = read("\n".join(lines), {"DRAGOMAN_KEY": "k"})

    assert len(found.routes) == 2
    assert (len(found.server.keys), len(found.aliases), len(found.models)) == (1, 1, 1)


def test_a_vendor_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match=r"no vendor `openruter`; did you mean `openrouter`\?"):
        first_file("openruter")
    with pytest.raises(ConfigError, match=r"no vendor `q!`; there are openrouter, openai"):
        first_file("q!")


def test_a_dialect_that_a_vendor_does_not_speak_is_refused():
    with pytest.raises(
        ConfigError, match=r"mistral is not known to support `anthropic`; it supports chat"
    ):
        first_file("mistral", dialect="anthropic")
