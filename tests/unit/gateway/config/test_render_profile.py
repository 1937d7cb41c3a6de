"""A profile is added to a file, and nothing else of it changes."""

import tomllib

import pytest

from dragoman.errors import ConfigError
from dragoman.gateway.config.render import (
    NewProfile,
    NewUpstream,
    add_profile,
    profile_table,
    write_file,
)

PROFILE = NewProfile(
    name="lab", base="vllm", facts={"images": "none", "midturn_system": True}, remark="Found."
)
TABLE = """\
# Found.
[profiles.lab]
base = "vllm"
images = "none"
midturn_system = true
"""
FILE = """\
# my settings
[server]
port = 9000

[upstreams.local]   # here
base_url = "http://127.0.0.1:8000/v1"
{line}
[upstreams.local.timeouts]
connect = 3

[[routes]]
to = "local/*"
"""


@pytest.mark.parametrize("before", ["", 'format = "auto"\nprofile = "vllm"'])
def test_format_that_was_found_is_a_setting_of_the_upstream(before):
    text = FILE.format(line=before)

    whole, used = add_profile(text, PROFILE, upstream="local", family="hermes")

    assert used
    local = tomllib.loads(whole)["upstreams"]["local"]
    assert ("lab", "hermes") == (local["profile"], local["format"])
    untouched = {key: value for key, value in local.items() if key not in ("profile", "format")}
    assert {
        "base_url": "http://127.0.0.1:8000/v1",
        "timeouts": {"connect": 3},
    } == untouched


def test_a_profile_is_a_table():
    assert TABLE == profile_table(PROFILE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", None),
        ('profile = "vllm"', 'profile = "lab"'),
        ("profile = 'vllm'  # as it was", 'profile = "lab"  # as it was'),
    ],
)
def test_the_upstream_names_the_profile_and_all_else_stays(before, after):
    text = FILE.format(line=before)

    whole, used = add_profile(text, PROFILE, upstream="local")

    if after is None:
        expected = text.replace("# here\n", '# here\nprofile = "lab"\n')
    else:
        expected = text.replace(before, after)
    assert used
    assert f"{expected.rstrip()}\n\n{TABLE}" == whole


@pytest.mark.parametrize(
    "text",
    [
        'upstreams = { local = { base_url = "http://h/v1" } }\n',
        'upstreams.local.base_url = "http://h/v1"\n',
        '[upstreams]\nlocal = { base_url = "http://h/v1" }\n',
        'note = """\n[upstreams.local]\n"""\n[upstreams."local" ]\nbase_url = "http://h/v1"\n',
    ],
)
def test_an_upstream_written_in_another_way_is_left_alone(text):
    whole, used = add_profile(text, PROFILE, upstream="local")

    assert not used
    assert tomllib.loads(text) == {
        key: value for key, value in tomllib.loads(whole).items() if key != "profiles"
    }
    assert whole.startswith(text.rstrip())


def test_a_new_file_has_the_upstream_too(tmp_path):
    new = NewUpstream(base_url="http://h:1/v1", dialect="chat", key="env:KEY", format="hermes")

    whole, used = add_profile("", PROFILE, new=new)
    write_file(tmp_path / "dragoman.toml", whole)

    document = tomllib.loads((tmp_path / "dragoman.toml").read_text())
    assert used
    assert {
        "base_url": "http://h:1/v1",
        "dialect": "chat",
        "profile": "lab",
        "key": "env:KEY",
        "format": "hermes",
    } == document["upstreams"]["lab"]


def test_a_profile_of_the_same_name_is_not_replaced():
    with pytest.raises(ConfigError, match="has a profile `lab` already"):
        add_profile("[profiles.lab]\n", PROFILE)


def test_a_file_that_is_no_toml_is_left_alone():
    with pytest.raises(ConfigError, match="not TOML"):
        add_profile("[server\n", PROFILE)


def test_what_could_not_be_used_is_not_written(tmp_path):
    path = tmp_path / "dragoman.toml"
    path.write_text("[server]\nport = 1\n")

    with pytest.raises(ConfigError, match=r"nothing was written: profiles\.lab\.images"):
        write_file(path, '[profiles.lab]\nimages = "many"\n')

    assert path.read_text() == "[server]\nport = 1\n"
    assert [path] == list(tmp_path.iterdir())


def test_a_link_and_the_files_mode_stay(tmp_path):
    real = tmp_path / "real.toml"
    real.write_text("")
    real.chmod(0o600)
    link = tmp_path / "dragoman.toml"
    link.symlink_to(real)

    write_file(link, TABLE)

    assert link.is_symlink()
    assert real.read_text() == TABLE
    assert real.stat().st_mode & 0o777 == 0o600
