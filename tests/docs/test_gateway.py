"""docs/gateway.md: the table of endpoints has every path that the gateway serves."""

import re
from pathlib import Path

from dragoman.dialects import dialect, dialect_names
from dragoman.dialects.gemini.request_reader import read_path
from dragoman.gateway.app import _SIDE_PATHS, INSPECTOR, PROBES, all_endpoints

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"


def documented() -> str:
    return PAGE.read_text("utf-8").partition("## Endpoints")[2].partition("\n## ")[0]


def test_every_path_of_the_gateway_is_in_the_table() -> None:
    table = documented()
    served = {
        one.path.replace("{rest}", "{id}") for one in all_endpoints() if one.path not in _SIDE_PATHS
    }
    by_model = [one.model_paths.shown for one in map(dialect, dialect_names()) if one.model_paths]

    assert [] == [path for path in sorted(served) if f"/v1{path}`" not in table]
    assert [] == [path for path in (*PROBES, INSPECTOR, *by_model) if f"{path}`" not in table]


def test_every_path_with_a_model_in_the_table_is_served() -> None:
    paths = re.findall(r"`(GET|POST) (/v1beta/[^`]+)`", documented())

    assert 5 == len(paths)
    for method, path in paths:
        asked = read_path(method, path, {})
        assert asked is not None
        assert "nothing" != asked.asks
