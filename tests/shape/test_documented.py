"""`help()` explains every public name, and every field and parameter of it."""

import ast
import inspect
import re
import textwrap
from enum import Enum
from typing import Any, get_args, is_typeddict

import msgspec
import pytest
from tools.reference import other_types

import dragoman
from dragoman import testing
from tests.support.tables import in_one_test

PUBLIC = {name: getattr(dragoman, name) for name in dragoman.__all__ if name != "__version__"}
PUBLIC |= {f"testing.{name}": getattr(testing, name) for name in testing.__all__}
# Type aliases: they have no docstring of their own; the reference explains them.
ALIASES = {"DialectName", "Event"}
DOCUMENTED = [pytest.param(name, value, id=name) for name, value in PUBLIC.items()]
CLASSES = [one for one in DOCUMENTED if inspect.isclass(one.values[1])]
OTHERS = [pytest.param(one.__name__, one, id=one.__name__) for one in other_types()]


def fields_of(cls: type) -> list[str]:
    if issubclass(cls, Enum):
        return list(cls.__members__)
    return list(getattr(cls, "__struct_fields__", ()))


def attributes_of(cls: type) -> set[str]:
    """Return the public attributes that the class assigns in its body or to `self`."""
    assigned: list[ast.expr] = []
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            assigned += node.targets
        elif isinstance(node, ast.AnnAssign):
            assigned.append(node.target)
    own = {
        one.attr
        for target in assigned
        for one in ast.walk(target)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }
    own |= set(vars(cls).get("__annotations__", ()))
    return {name for name in own if not name.startswith("_")}


def parameters_of(function: Any) -> list[str]:
    skipped = {"self", "cls"}
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in found if name not in skipped and not name.startswith("_")]


def is_explained(name: str, doc: str) -> bool:
    return bool(re.search(rf"^\s+\*{{0,2}}{name}: \S", doc, re.MULTILINE)) or f"`{name}`" in doc


@in_one_test
@pytest.mark.parametrize(("name", "value"), DOCUMENTED)
def test_every_public_name_has_a_docstring(name: str, value: Any) -> None:
    if name in ALIASES:
        return
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}(")  # made by a decorator


@in_one_test
@pytest.mark.parametrize(("name", "cls"), CLASSES + OTHERS)
def test_every_field_is_explained(name: str, cls: type) -> None:
    doc = inspect.getdoc(cls) or ""

    assert [] == [field for field in fields_of(cls) if not is_explained(field, doc)]


@in_one_test
@pytest.mark.parametrize(("name", "cls"), CLASSES)
def test_every_public_attribute_is_explained(name: str, cls: type) -> None:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("dragoman")]
    doc = "\n".join(inspect.getdoc(base) or "" for base in ours)
    attributes = set().union(*map(attributes_of, ours))

    assert [] == [one for one in sorted(attributes) if not is_explained(one, doc)]


@in_one_test
@pytest.mark.parametrize(("name", "cls"), CLASSES)
def test_every_parameter_of_a_constructor_is_explained(name: str, cls: type) -> None:
    made = issubclass(cls, msgspec.Struct | Enum) or "__init__" not in vars(cls)
    if made or name in {"Step", "SyncAnswerStream", "AnswerStream"}:  # not made by users
        return
    doc = f"{inspect.getdoc(cls)}\n{inspect.getdoc(cls.__init__)}"

    assert [] == [one for one in parameters_of(cls.__init__) if not is_explained(one, doc)]


@in_one_test
@pytest.mark.parametrize(("name", "value"), DOCUMENTED)
def test_every_parameter_of_a_function_is_explained(name: str, value: Any) -> None:
    if not inspect.isfunction(value):
        return
    doc = inspect.getdoc(value) or ""

    assert [] == [one for one in parameters_of(value) if not is_explained(one, doc)]


@in_one_test
@pytest.mark.parametrize(("name", "cls"), CLASSES)
def test_every_parameter_of_a_method_is_explained(name: str, cls: type) -> None:
    methods = {
        attribute: value
        for attribute, value in inspect.getmembers(cls)
        if not attribute.startswith("_")
        and (inspect.isfunction(value) or inspect.ismethod(value))
        and value.__module__.startswith("dragoman")
    }

    assert [] == [
        f"{attribute}: {one}"
        for attribute, value in methods.items()
        for one in parameters_of(value)
        if not is_explained(one, inspect.getdoc(value) or "")
    ]


@in_one_test
@pytest.mark.parametrize(("name", "value"), DOCUMENTED)
def test_every_option_is_explained(name: str, value: Any) -> None:
    made = value.__init__ if inspect.isclass(value) else value
    for parameter in (
        inspect.signature(made).parameters.values() if inspect.isfunction(made) else ()
    ):
        for options in filter(is_typeddict, get_args(parameter.annotation)):
            doc = inspect.getdoc(options) or ""
            # "The keyword arguments of `Client`."
            doc += "".join(
                inspect.getdoc(PUBLIC[one]) or ""
                for one in re.findall(r"`(\w+)`", doc)
                if one in PUBLIC
            )

            assert [] == [one for one in options.__annotations__ if not is_explained(one, doc)]


@in_one_test
@pytest.mark.parametrize(("name", "cls"), CLASSES + OTHERS)
def test_every_public_method_has_a_docstring(name: str, cls: type) -> None:
    own = {
        attribute: value
        for attribute, value in inspect.getmembers(cls)
        if not attribute.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property))
    }

    assert [] == [attribute for attribute, value in own.items() if not value.__doc__]
