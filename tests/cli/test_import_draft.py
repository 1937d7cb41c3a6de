"""`dragoman config import`: what files of every gateway have in common."""

import json
import re
import sys
import tomllib

import pytest

from tests.support.config_imports import FILES, convert, run

LITELLM = sorted(FILES.glob("*.yaml"))
ROUTER = sorted(FILES.glob("*.json"))
pytestmark = pytest.mark.usefixtures("alone")


def test_there_are_several_files_of_each_kind():
    assert (3, 3) == (len(LITELLM), len(ROUTER))


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_the_new_file_passes_config_check(file, tmp_path):
    text = convert(file).stdout
    variables = {name: f"value-of-{name}" for name in re.findall(r"env:(\w+)", text)}
    (tmp_path / "dragoman.toml").write_text(text)

    checked = run("check", **variables)

    assert (0, "valid: ") == (checked.exit_code, checked.stdout[:7]), checked.stdout
    assert "unreach" not in checked.stdout


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_no_key_of_the_source_is_copied_anywhere(file):
    result = convert(file)

    assert re.search(r"hidden-|-hidden", file.read_text())
    assert not re.search(r"hidden-|-hidden", result.output)


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_variables_and_losses_are_listed_on_standard_error_and_as_comments(file):
    result = convert(file)
    listed = re.findall(r"  (?:not carried over|set): (.*)", result.stderr)

    assert listed
    for line in listed:
        exported = re.match(r"export (\w+)=… \(the key at (.*)\)", line)
        comment = f"{exported[1]}: the key at {exported[2]}" if exported else line
        assert f"#   {comment}\n" in result.stdout


def test_the_file_is_written_and_not_overwritten_without_force(tmp_path):
    first = run("import", FILES / "ccr_rules.json", "--output", "new.toml")
    again = run("import", FILES / "ccr_rules.json", "-o", "new.toml")
    forced = run("import", FILES / "ccr_rules.json", "-o", "new.toml", "--force")

    assert (0, "", 2, 0) == (first.exit_code, first.stdout, again.exit_code, forced.exit_code)
    assert "zai" in tomllib.loads((tmp_path / "new.toml").read_text())["upstreams"]
    assert "overwrite it with --force" in again.stderr


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("absent.json", None, "cannot read absent.json"),
        ("bad.json", "{", "not JSON"),
        ("list.json", "[]", "expected a table of settings"),
        ("other.json", '{"a": 1}', "neither LiteLLM's configuration"),
        ("none.json", '{"Providers": [{"name": "x"}]}', "no upstream can be carried over"),
        ("url.json", '{"Providers": [{"name": "x", "api_base_url": "ftp://h"}]}', "not usable as an address"),
        ("model.json", '{"model_list": [{"model_name": "x"}]}', "`litellm_params.model` are required"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_gets_one_clear_error(name, text, problem, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)

    result = run("import", name)

    assert (2, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr


def test_broken_yaml_is_named_with_its_line(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "x.yaml").write_text("model_list:\n  - a: [\n")

    result = run("import", "x.yaml")

    assert 2 == result.exit_code
    assert "x.yaml: not YAML: " in result.stderr
    assert "line 3" in result.stderr


def test_yaml_without_pyyaml_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "x.yaml").write_text("model_list: []\n")

    result = run("import", "x.yaml")

    assert 2 == result.exit_code
    assert "install it with `pip install 'dragoman[import]'`" in result.stderr


def test_json_is_read_without_pyyaml(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    document = {"model_list": [{"model_name": "m", "litellm_params": {"model": "groq/x"}}]}
    (tmp_path / "config.json").write_text(json.dumps(document))

    result = run("import", "config.json")

    assert ["groq/x"] == tomllib.loads(result.stdout)["routes"][0]["to"]
