"""Names that people type, and formats that other packages install."""

import sys
from pathlib import Path

import pytest

from dragoman import ConfigError, Format, ToolCallParser, json_format, plugins
from dragoman.toolcalls import format_names
from dragoman.toolcalls.format_names import (
    ALIASES,
    aliases_of,
    broken_plugins,
    choose_format,
    find_format,
    installed_formats,
    is_built_in,
)
from dragoman.toolcalls.formats import AUTO, FORMATS
from tests.support.tables import in_one_test

# Rule 0.6 of the formats' specification: the engines' names.
ENGINES = {
    "qwen3": "hermes", "qwen": "hermes", "deepseek_r1": "deepseek_v3", "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31", "deepseekv32": "deepseek_v32", "gpt-oss": "gpt_oss",
    "openai": "gpt_oss", "harmony": "gpt_oss", "minimax": "minimax_m2", "minimax-m2": "minimax_m2",
    "llama3": "llama3_json", "glm": "glm45", "internlm": "internlm2", "kimi": "kimi_k2",
    "phi4_mini_json": "phi4_mini", "granite-20b-fc": "granite_20b_fc", "seed-oss": "seed_oss",
    "trinity": "hermes", "interns1": "internlm2", "ling3": "glm47",
}  # fmt: skip
ACME = json_format("acme", open="<acme>", close="</acme>", models=["acme-*", "lab/?-large"])


@pytest.mark.parametrize(("name", "key"), ENGINES.items())
def test_0_6_the_names_of_engines_are_accepted(name: str, key: str) -> None:
    assert FORMATS[key] is find_format(name)


def test_0_6_kimi_vl_is_accepted() -> None:
    assert find_format("kimi_vl").key.startswith("kimi")


@in_one_test
@pytest.mark.parametrize("name", [*FORMATS, *ALIASES])
def test_0_6_dashes_and_capitals_make_no_difference(name: str) -> None:
    expected = find_format(name)

    assert expected is find_format(name.replace("_", "-"))
    assert expected is find_format(f" {name.upper()} ")
    assert is_built_in(name.title())


def test_auto_none_and_standard_are_names_too() -> None:
    assert AUTO is find_format("Auto")
    assert AUTO is choose_format("an-unknown-model", "AUTO")
    assert FORMATS["kimi_k2"] is choose_format("kimi-k2", "Auto")
    assert None is choose_format("kimi-k2", "None")
    assert None is choose_format("kimi-k2", "standard")


def test_no_alias_is_the_key_of_another_family() -> None:
    assert all(FORMATS[key].key == key for key in ALIASES.values())
    assert sorted(ALIASES.keys() - FORMATS.keys()) == sorted(
        alias for key in FORMATS for alias in aliases_of(key)
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qwen3_codr", "`qwen3_coder`"),
        ("Kimi-K4", "`kimi_k3` or `kimi_k2`"),
        ("deepseek_v33", "`deepseek_v32`"),
        ("xyzzy", "known formats: apertus, "),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_format(name)

    assert str(error.value).startswith(f"no tool-call format `{name}`; ")
    assert hint in str(error.value)


def test_a_format_of_the_caller_comes_first() -> None:
    assert ACME is choose_format("", "ACME", [ACME])
    assert ACME is choose_format("acme-7b", own=[ACME])
    assert ACME is choose_format("Hoster/Acme-7B:free", own=[ACME])
    assert ACME is choose_format("lab/x-large", own=[ACME])
    assert FORMATS["kimi_k2"] is choose_format("kimi-k2", own=[ACME])
    assert AUTO is choose_format("", own=[ACME])


def test_an_object_is_taken_as_it_is() -> None:
    assert ACME is choose_format("kimi-k2", ACME)


# --- installed formats ------------------------------------------------------------------------------------

GOOD = """
from dragoman import json_format

FORMAT = json_format("acme", open="<acme>", close="</acme>", models=["acme-*"])
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what installs a small distribution into a folder of `sys.path`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = (plugins.installed, format_names.installed_formats)
    for one in caches:
        one.cache_clear()

    def installing(package: str, entries: str, source: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dragoman.formats]\n{entries}\n")

    yield installing
    for one in caches:
        one.cache_clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def calls_of(text: str, name: str) -> list[str]:
    parser = ToolCallParser(format=name)
    parser.feed(text)
    parser.close()
    return [one.name for one in parser.result.tool_calls]


def test_an_installed_format_has_a_name_and_models(install) -> None:
    install("acme_formats", "acme = acme_formats:FORMAT", GOOD)

    assert ["f"] == calls_of('<acme>{"name": "f", "arguments": {}}</acme>', "Acme")
    assert "acme" == choose_format("acme-7b").key
    assert ["acme"] == [one.key for one in installed_formats()]
    assert [] == list(broken_plugins())


@pytest.mark.parametrize(
    ("entry", "source", "reason"),
    [
        ("bad = broken:FORMAT", "raise OSError('no disk')", "cannot be loaded: OSError: no disk"),
        ("bad = broken:FORMAT", "", "cannot be loaded: AttributeError: "),
        ("bad = broken:FORMAT", "FORMAT = 'kimi_k2'", "is a `str`; expected a `dragoman.Format`"),
        ("bad = broken:FORMAT", GOOD, "has another key: `acme`"),
        (
            "hermes = broken:FORMAT",
            GOOD.replace('"acme"', '"hermes"'),
            "has the name of a built-in format",
        ),
        (
            "bad = broken:FORMAT",
            "from dragoman import Format\nFORMAT = Format(key='bad', rules=(1,))",
            "is not legal: `rules[1]`: is not a `Rule`",
        ),
    ],
)
def test_a_broken_package_is_named_and_breaks_no_other(
    install, entry: str, source: str, reason: str
) -> None:
    install("broken", entry, source)
    install("acme_formats", "acme = acme_formats:FORMAT", GOOD)

    with pytest.warns(RuntimeWarning, match="of the package `broken`"):
        assert ["acme"] == [one.key for one in installed_formats()]
    assert "acme" == find_format("acme").key
    assert FORMATS["hermes"] is find_format("hermes")
    (problem,) = broken_plugins()
    assert reason in problem
    if entry.startswith("bad"):
        with pytest.raises(ConfigError, match="package `broken`"):
            find_format("bad")


def test_an_installed_name_is_suggested(install) -> None:
    install("acme_formats", "acme = acme_formats:FORMAT", GOOD)

    with pytest.raises(ConfigError, match="did you mean `acme`"):
        find_format("acmee")


def test_a_format_is_a_value() -> None:
    assert Format(key="a", rules=ACME.rules) == Format(key="a", rules=ACME.rules)
