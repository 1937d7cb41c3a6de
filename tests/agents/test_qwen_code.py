"""Qwen Code, which speaks Chat Completions."""

from tests.agents.programs import QwenCode
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestQwenCode(Scenarios):
    program = QwenCode()
    passing = ("error:503",)  # what breaks inside a stream it tells, and asks no second time
    lasting = ("error:500", "error-first", "error-in", "cut:700")
    patient = True
    most_requests = 16  # 14 times within a minute, if the stream does not begin
