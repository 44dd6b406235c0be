"""The stubs match the extension, and the package lists everything that it exports."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import stagewright as sw
from stagewright import _native

STUBS = ast.parse((Path(sw.__file__).parent / "_native.pyi").read_text(encoding="utf-8")).body


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def functions(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


CLASSES = {node.name: node for node in STUBS if isinstance(node, ast.ClassDef)}


def parameters_of_stub(function: ast.FunctionDef) -> list[tuple[str, object]]:
    arguments = function.args.args
    defaults = [inspect.Parameter.empty] * (len(arguments) - len(function.args.defaults))
    defaults += [ast.literal_eval(default) for default in function.args.defaults]
    return [(argument.arg, default) for argument, default in zip(arguments, defaults)]


def parameters_of(function: object) -> list[tuple[str, object]]:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return [(name, given.default) for name, given in parameters.items()]


def test_stubs_have_every_name_of_the_extension() -> None:
    in_stubs = public([*functions(STUBS), *CLASSES])
    assert in_stubs == public(dir(_native))


def test_functions_have_the_parameters_of_their_stubs() -> None:
    for name, stub in functions(STUBS).items():
        assert parameters_of(getattr(_native, name)) == parameters_of_stub(stub), name


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_classes_have_the_members_of_their_stubs(name: str) -> None:
    members, own = functions(CLASSES[name].body), getattr(_native, name)
    assert public(list(members)) == public(dir(own))
    for member, stub in members.items():
        decorators = {ast.unparse(decorator) for decorator in stub.decorator_list}
        found = inspect.getattr_static(own, member)
        assert inspect.isgetsetdescriptor(found) == ("property" in decorators), member
        if "property" in decorators or (member.startswith("__") and member != "__new__"):
            continue
        expected = parameters_of_stub(stub)
        assert isinstance(found, staticmethod) == ("staticmethod" in decorators), member
        if member == "__new__":
            assert [("cls", inspect.Parameter.empty), *parameters_of(own)] == expected
        else:
            assert parameters_of(getattr(own, member)) == expected, member


def test_the_package_exports_what_it_lists() -> None:
    assert sw.__all__ == sorted(sw.__all__, key=lambda name: (name[0].islower() or name[0] == "_", name))
    for name in sw.__all__:
        assert hasattr(sw, name), name


def test_everything_public_has_a_docstring() -> None:
    for name in sw.__all__:
        value = getattr(sw, name)
        if not callable(value):
            continue
        assert value.__doc__, name
        if inspect.isclass(value):
            for member, found in vars(value).items():
                if not member.startswith("_") and (callable(found) or isinstance(found, property)):
                    assert found.__doc__, f"{name}.{member}"


def test_importing_the_package_imports_no_optional_package() -> None:
    code = "import sys, stagewright; print({'gymnasium', 'pandas', 'torch', 'ray'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert found.stdout.strip() == "set()"
