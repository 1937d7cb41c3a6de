"""Which versions `make test-lower-bounds` installs."""

import tomllib

import pytest

from tools import lower_bounds


def test_every_dependency_has_a_lower_bound() -> None:
    text = (lower_bounds.ROOT / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    found = lower_bounds.lower_bounds(project)
    extras = [one for more in project["optional-dependencies"].values() for one in more]
    listed = [*project["dependencies"], *extras]

    assert [one.replace(">=", "==") for one in listed] == found


@pytest.mark.parametrize("dependency", ["aiohttp", "aiohttp<4", "aiohttp>3", "aiohttp>=3,<4"])
def test_other_dependency_is_refused(dependency: str) -> None:
    with pytest.raises(SystemExit, match="has no lower bound"):
        lower_bounds.lower_bounds({"dependencies": [dependency]}, extras=False)


def test_pins_of_a_lock_file_keep_their_markers() -> None:
    lock = "a-b==1.0 \\\n    --hash=sha256:0\nC_d==2 ; python_version < '3.14' \\\n    --hash=sha256:0\n"

    assert {"a-b": "a-b==1.0", "c-d": "C_d==2 ; python_version < '3.14'"} == lower_bounds.test_pins(lock)  # fmt: skip
