"""Continue's command line, which speaks Chat Completions."""

from tests.agents.programs import Continue
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestContinue(Scenarios):
    program = Continue()
    # It asks for two minutes, 33 times, whatever the failure, and has no setting against it.
    lasting = ("error:500", "error-first", "error-in")
    patient = True
    most_requests = 40
