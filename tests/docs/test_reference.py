"""The reference has every public name once, and is what the docstrings say."""

from tools import reference


def test_every_public_name_has_one_subject() -> None:
    listed = [name for _, names in reference.SUBJECTS.values() for name in names]

    assert sorted(reference.public_names()) == sorted(listed)


def test_the_page_is_current() -> None:
    assert reference.page() == reference.PAGE.read_text("utf-8"), "run: python -m tools.reference"
