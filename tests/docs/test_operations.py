"""docs/operations.md, the dashboard and the alerts name metrics that exist, and all of them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dragoman.gateway.metrics import COUNTERS, GAUGES, HISTOGRAMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
DASHBOARD = ROOT / "deploy" / "grafana" / "dragoman.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"

LABELS = {
    **{f"dragoman_{name}_total": labels for name, (_, labels) in COUNTERS.items()},
    **{f"dragoman_{name}": labels for name, (_, labels) in (GAUGES | HISTOGRAMS).items()},
    "dragoman_build_info": ("version",),
}
SAMPLES = LABELS.keys() | {
    f"dragoman_{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")
}


def rules() -> list[dict]:
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return group["rules"]


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return shown + [rule["expr"] for rule in rules()]


def test_page_lists_every_metric_with_its_labels() -> None:
    rows = re.findall(r"^\| `(dragoman_\w+)` \|(.*?)\|", PAGE, re.MULTILINE)

    assert LABELS == {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def test_page_explains_every_alert() -> None:
    assert [rule["alert"] for rule in rules()] == re.findall(r"^\| `(Dragoman\w+)`", PAGE, re.MULTILINE)  # fmt: skip


@pytest.mark.parametrize("query", queries())
def test_query_names_metrics_and_labels_that_exist(query: str) -> None:
    names = set(re.findall(r"dragoman_\w+", query))
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
    for listed in re.findall(r"by \(([^)]*)\)", query):
        labels |= {one.strip() for one in listed.split(",")}
    known = {label for name in names for label in _labels(name)} | {"le", "job"}

    assert names <= SAMPLES
    assert labels <= known
    assert query.count("(") == query.count(")")


def test_dashboard_shows_every_metric() -> None:
    shown = " ".join(queries())

    assert [] == [
        name for name in LABELS if name != "dragoman_build_info" and not re.search(rf"{name}\b|{name}_bucket", shown)
    ]  # fmt: skip


def _labels(name: str) -> tuple[str, ...]:
    return LABELS.get(name) or LABELS.get(re.sub(r"_(bucket|sum|count)$", "", name), ())
