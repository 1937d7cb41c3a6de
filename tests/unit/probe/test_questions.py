"""What questions imply about a profile."""

from dragoman.profiles.profile import Profile
from tests.support.probing import BASELINE, probe


def test_implied_facts_are_fields_of_profiles() -> None:
    fields = set(Profile.__struct_fields__)

    for model in (BASELINE, "kimi-k2+structural"):
        for row in probe(model).checks:
            assert row.implies.keys() <= fields
