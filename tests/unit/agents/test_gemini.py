"""What Gemini CLI is started with."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.agents.agent import Session
from dragoman.agents.gemini import GEMINI, launch_spec
from dragoman.agents.launch import described, launch
from dragoman.gateway.config.settings import Secret

URL = "http://127.0.0.1:8484"
FULL = Session(url=URL, key="secret", model='a/"b', small="c")
BARE = Session(url=URL, key="secret")


def test_gemini_gets_the_gateway_and_a_file_that_chooses_the_key() -> None:
    spec = launch_spec(FULL, {})
    variable, place, content = spec.home_file

    assert {
        "GOOGLE_GEMINI_BASE_URL": URL,
        "GEMINI_API_KEY": "secret",
        "GEMINI_MODEL": 'a/"b',
    } == spec.variables
    assert "GEMINI_MODEL" not in launch_spec(BARE, {}).variables
    assert ("GEMINI_CLI_HOME", ".gemini/settings.json") == (variable, place)
    assert "gemini-api-key" == json.loads(content)["security"]["auth"]["selectedType"]
    assert {"GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"} <= set(spec.clashing)


@pytest.mark.parametrize("way", ["run", "printed"])
def test_its_file_exists_while_it_runs(tmp_path: Path, way: str) -> None:
    program = tmp_path / "gemini"
    program.write_text(
        f'#!/bin/sh\ncat "$GEMINI_CLI_HOME/.gemini/settings.json" > {tmp_path}/seen\n'
    )
    program.chmod(0o700)
    spec = launch_spec(FULL, {})
    if way == "run":
        assert 0 == launch(str(program), (), spec, os.environ)
    else:
        lines = described(GEMINI, (), spec, Secret("env:KEY", "secret"))
        environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", lines], env=environ, check=True, timeout=30)

    assert "gemini-api-key" in (tmp_path / "seen").read_text()
