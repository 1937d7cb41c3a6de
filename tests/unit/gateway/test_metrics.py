"""Counting, and the page of several processes."""

import msgspec
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from dragoman.gateway.logging import RequestRecord
from dragoman.gateway.metrics import BOUNDS, HISTOGRAMS, Figures, Metrics, Timing, render


def test_labels_of_one_process_are_bounded() -> None:
    metrics = Metrics(dict)
    for number in range(6_000):
        metrics.count("losses", f"code-{number}")
    (family,) = (
        one
        for one in text_string_to_metric_families(metrics.page().decode())
        if one.name == "dragoman_losses"
    )
    values = {one.labels["code"]: one.value for one in family.samples}

    assert 5_001 == len(values)
    assert 1_000 == values["other"]


def test_value_on_a_bound_belongs_to_its_bucket() -> None:
    metrics = Metrics(dict)
    gap = metrics.gaps("up")
    for seconds in (0.005, 0.0051, 99.0):
        gap(seconds)
    page = metrics.page().decode()

    assert 'dragoman_event_gap_seconds_bucket{le="0.005",upstream="up"} 1.0' in page
    assert 'dragoman_event_gap_seconds_bucket{le="0.01",upstream="up"} 2.0' in page
    assert 'dragoman_event_gap_seconds_bucket{le="+Inf",upstream="up"} 3.0' in page


def test_figures_of_several_processes_are_added_and_survive_a_file() -> None:
    one = Figures(
        {("losses", "a"): 1.0},
        {("event_gap_seconds", "up"): Timing([1] * 13, 2.0)},
        {("open_requests",): 2.0, ("upstream_resting", "up"): 1.0},
    )
    other = msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Figures)
    page = render([one, other]).decode()

    assert 'dragoman_losses_total{code="a"} 2.0' in page
    assert 'dragoman_event_gap_seconds_sum{upstream="up"} 4.0' in page
    assert "dragoman_open_requests 4.0" in page
    assert 'dragoman_upstream_resting{upstream="up"} 1.0' in page  # all workers know the same rests


def test_every_histogram_has_bounds() -> None:
    assert HISTOGRAMS.keys() == BOUNDS.keys()


def test_uses_of_tools_that_the_vendor_runs_are_counted_by_kind() -> None:
    metrics = Metrics(dict)
    once = RequestRecord(time=0.0, id="a", path="/v1/messages", upstream="up", searches=2)
    metrics.request(once)
    more = {"fetches": 3, "code_runs": 4, "mcp_calls": 5, "images": 6}
    metrics.request(structs.replace(once, searches=1, **more))
    page = metrics.page().decode()

    counts = {
        "web_search": 3,
        "web_fetch": 3,
        "code_execution": 4,
        "mcp": 5,
        "image_generation": 6,
    }
    for tool, number in counts.items():
        line = f'dragoman_server_calls_total{{tool="{tool}",upstream="up"}} {number}.0'
        assert line in page
