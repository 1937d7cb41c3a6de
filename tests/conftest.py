"""Settings for all tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# It holds tests, whose failures are to be legible.
pytest.register_assert_rewrite("tests.support.judging")

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=100, derandomize=True, **_COMMON)
settings.register_profile("fuzz", max_examples=20_000, **_COMMON)
settings.register_profile("deep", max_examples=2_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
