"""Settings for all tests."""

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import node, redis
from tests.support.event_loops import on_loop

__all__ = ["on_loop"]

# It holds tests, whose failures are to be legible.
pytest.register_assert_rewrite("tests.support.checker")

# Under `nohup` SIGHUP is ignored, and in a shell's background SIGINT; programs that tests start would inherit that.
# A handler is not inherited.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=20, derandomize=True, **_COMMON)
settings.register_profile("quick", max_examples=10, derandomize=True, **_COMMON)  # make test-core
settings.register_profile("fuzz", max_examples=20_000, **_COMMON)
settings.register_profile("deep", max_examples=2_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use one process more than there are cores: tests of the gateway wait for timeouts and for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Keep the collector from walking through twenty thousand tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was measured, and which tests could not run here: silence would look like success."""
    properties: list[tuple[str, Any]] = [
        one
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for one in getattr(report, "user_properties", ())
    ]
    for name, value in properties:
        if name == "measured":
            terminalreporter.write_line(str(value))
    # Of many measurements of one thing the largest is printed: what was measured, a number, a text.
    figures = [value for name, value in properties if name == "largest"]
    for what in sorted({one[0] for one in figures}):
        values = [tuple(one) for one in figures if one[0] == what]
        largest = max(values, key=lambda one: one[1])
        terminalreporter.write_line(f"{what}, the largest of {len(values)}: {largest[2]}")
    # Here, and not beside those tests: the process that writes the summary loads no conftest but this.
    place = Path(__file__).parent / "gateway"
    asked = [Path(arg.partition("::")[0]).absolute() for arg in config.args]
    for what, name, why in (
        ("tests/gateway/test_node.py", "test_node.py", node.missing()),
        ("tests of shared state", "test_state.py", redis.missing()),
    ):
        concerned = any(place.is_relative_to(one) or one == place / name for one in asked)
        if concerned and why:
            terminalreporter.write_line(f"{what} did not run: {why}", yellow=True)
