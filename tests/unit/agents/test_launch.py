"""Which signals an agent's gateway passes on."""

import os
import signal
import sys

import pytest

from dragoman.agents.launch import _Child


@pytest.mark.parametrize(
    ("platform", "terminal", "passed_on"),
    [
        ("linux", True, False),
        ("linux", False, True),
        ("win32", True, False),
        ("win32", False, False),
    ],
)
def test_ctrl_c_is_passed_on_only_where_the_agent_does_not_get_it_itself(
    platform: str, terminal: bool, passed_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "isatty", lambda _number: terminal)
    child = _Child()
    with child.hears_signals():
        handler = signal.getsignal(signal.SIGINT)

    assert handler == (child._pass_on if passed_on else child._ignore)
