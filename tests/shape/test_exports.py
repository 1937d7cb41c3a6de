"""The public names."""

import dragoman


def test_every_public_name_is_there_and_listed_once() -> None:
    assert len(set(dragoman.__all__)) == len(dragoman.__all__)
    for name in dragoman.__all__:
        assert hasattr(dragoman, name)


def test_nothing_else_is_public() -> None:
    import types

    found = {
        name
        for name, value in vars(dragoman).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert found <= set(dragoman.__all__)
