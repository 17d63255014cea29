"""Examples in docstrings, and the type stubs."""

# folders: python

import doctest
import importlib
import inspect

import pytest

import leat


@pytest.mark.parametrize("name", ["leat._estimators"])
def test_examples_in_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 5 and outcome.failed == 0


def test_everything_public_has_a_docstring():
    for name in leat.__all__:
        value = getattr(leat, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for method, of in vars(value).items():
                if not method.startswith("_") and callable(of):
                    assert inspect.getdoc(getattr(value, method)), f"{name}.{method}"


def test_stubs_have_what_the_package_has():
    """Every public name, and every public method, is in the stubs, and nothing else."""
    import ast
    from pathlib import Path

    from leat import _native

    def of(file):
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        found = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = {n.name for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
            elif isinstance(node, ast.FunctionDef):
                found[node.name] = None
        return found

    folder = Path(leat.__file__).parent
    stubs = of(folder / "__init__.pyi")
    public = {name for name in stubs if not name.startswith("_")} - {"Setting", "Stream"}
    assert public == set(leat.__all__) - {"layers", "river"}
    for name in ("Job", "Run", "Schema"):
        own = {method for method, value in vars(getattr(leat, name)).items()
               if not method.startswith("_") and (callable(value) or isinstance(value, (property, classmethod)))}
        assert own - {"section"} == stubs[name], name
    native = of(folder / "_native.pyi")
    assert set(native) == {name for name in dir(_native) if not name.startswith("_")}
    for name, methods in native.items():
        if methods:
            assert methods == {m for m in dir(getattr(_native, name)) if not m.startswith("_")}, name
