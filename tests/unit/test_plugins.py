"""Entry points of other packages: loaded in the order of their names; one that fails costs no other."""

import sys
from pathlib import Path

import pytest

from dragoman.plugins import Plugin, installed

GROUP = "dragoman.test_plugins"


def install(folder: Path, package: str, entry: str, source: str) -> None:
    """Put a package with one entry point into a folder, as an installer does."""
    (folder / f"{package}.py").write_text(source)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{entry} = {package}:VALUE\n")


def test_every_package_is_loaded_and_a_failure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "dgm_second", "b", "VALUE = 2")
    install(tmp_path, "dgm_broken", "c", "raise ValueError('no licence')")
    install(tmp_path, "dgm_first", "a", "VALUE = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    installed.cache_clear()

    assert (
        Plugin("a", "dgm_first", 1),
        Plugin("b", "dgm_second", 2),
        Plugin("c", "dgm_broken", error="ValueError: no licence"),
    ) == installed(GROUP)


def test_a_group_without_packages_is_empty() -> None:
    assert () == installed("dragoman.no_such_group")
