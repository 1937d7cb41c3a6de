"""Where a client of each dialect has a setting."""

import pytest
from msgspec import structs

from dragoman.dialects.paths import entry_paths, path_of
from dragoman.turn.request import Request


@pytest.mark.parametrize(
    ("dialect", "meaning", "path"),
    [
        ("anthropic", "max_output", "$.max_tokens"),
        ("chat", "max_output", "$.max_completion_tokens"),
        ("responses", "max_output", "$.max_output_tokens"),
        ("anthropic", "parallel", "$.tool_choice.disable_parallel_tool_use"),
        ("responses", "messages", "$.input"),
        ("anthropic", "count", "$.count"),
        ("a dialect of another package", "max_output", "$.max_output"),
    ],
)
def test_a_setting_has_the_path_of_the_clients_dialect(
    dialect: str, meaning: str, path: str
) -> None:
    request = structs.replace(Request(dialect="chat", model="m"), dialect=dialect)

    assert path == path_of(request, meaning)


@pytest.mark.parametrize("count", [0, 500, 501])
def test_every_entry_of_a_list_has_its_path(count: int) -> None:
    paths = entry_paths("tools", count)

    assert [f"$.tools[{at}]" for at in range(count)] == list(paths[:count])
