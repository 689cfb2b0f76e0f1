"""The API reference is complete: every public name is on a page, with what its users need."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import apmax

pytest.importorskip("torch")
pytest.importorskip("dask.distributed")

PAGES = Path(__file__).parents[1] / "docs" / "api"
ENTRY = re.compile(r"^::: (\S+)((?:\n    .*)*)", re.MULTILINE)
MEMBERS = re.compile(r" members: \[(.*)\]")
HEADING = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)
SITE = (PAGES.parents[1] / "mkdocs.yml").read_text("utf-8")
HIDDEN = re.compile("|".join(re.findall(r'"!(\^[^"]+)"', SITE)))


def _public_modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(apmax.__path__, prefix="apmax.")]
    return ["apmax", *(name for name in found if not re.search(r"\._|\.cli", name))]


def _exported() -> list[str]:
    """Return every name in the `__all__` of a public module, with the module."""
    modules = [importlib.import_module(name) for name in _public_modules()]
    return [
        f"{module.__name__}.{name}"
        for module in modules
        for name in getattr(module, "__all__", ())
        if not name.startswith("__")
    ]


def _resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def _entries() -> Iterator[str]:
    """Yield the full name of everything on the pages; entries of modules by their members."""
    for page in sorted(PAGES.glob("*.md")):
        for path, options in ENTRY.findall(page.read_text("utf-8")):
            found = _resolve(path)
            if not isinstance(found, ModuleType):
                yield path
                continue
            chosen = MEMBERS.search(options)
            own = [n for n, one in vars(found).items() if _is_defined_in(one, path)]
            for name in chosen[1].split(", ") if chosen else own:
                yield f"{path}.{name}"


def _is_defined_in(value: Any, module: str) -> bool:
    name = getattr(value, "__name__", "_")
    return not name.startswith("_") and getattr(value, "__module__", "") == module


ENTRIES = sorted(set(_entries()))
DESCRIBED = {path: _resolve(path) for path in ENTRIES}
CLASSES = [path for path, one in DESCRIBED.items() if inspect.isclass(one)]
FUNCTIONS = [path for path, one in DESCRIBED.items() if inspect.isfunction(one)]
CONSTANTS = sorted({*ENTRIES} - {*CLASSES} - {*FUNCTIONS})
EXCEPTIONS = [path for path in CLASSES if issubclass(DESCRIBED[path], (Exception, Warning))]
RECORDS = [
    path
    for path in CLASSES
    if issubclass(DESCRIBED[path], tuple) or dataclasses.is_dataclass(DESCRIBED[path])
]


def _methods(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a class that the site shows and apmax defines."""
    for name, _ in inspect.getmembers(DESCRIBED[path], inspect.isroutine):
        static = inspect.getattr_static(DESCRIBED[path], name)
        method = getattr(static, "__func__", static)
        home = str(getattr(inspect.unwrap(method), "__module__", ""))
        if not HIDDEN.search(name) and home.startswith("apmax"):
            yield name, inspect.unwrap(method)


METHODS = {f"{path}.{name}": method for path in CLASSES for name, method in _methods(path)}
CALLS = {**{path: DESCRIBED[path] for path in FUNCTIONS}, **METHODS}
OTHERS = [path for path in CLASSES if path not in RECORDS and path not in EXCEPTIONS]


def _sections(value: Any) -> dict[str, str]:
    """Return the numpydoc sections of a docstring by their names; the text before them is ''."""
    text = inspect.cleandoc(value.__doc__ or "")
    first, *rest = HEADING.split(text)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def _documented(section: str) -> set[str]:
    """Return the names that the entries of a section explain."""
    found = re.findall(r"^(\*{0,2}\w[^\n:]*?)(?: :[^\n]*)?\n +\S", section, flags=re.MULTILINE)
    return {name.strip("* ") for names in found for name in names.split(",")}


def _parameters(function: Any) -> set[str]:
    """Return the parameters that a user passes."""
    signature = inspect.signature(function)
    return {n for n in signature.parameters if n not in ("self", "cls") and not n.startswith("_")}


def _texts_below(source: Any) -> set[str]:
    """Return the names in a module or class with a string below, which the site shows."""
    body: list[Any] = ast.parse(dedent(inspect.getsource(source))).body
    if inspect.isclass(source):
        body = body[0].body
    names = set()
    for line, below in pairwise(body):
        targets = getattr(line, "targets", [getattr(line, "target", None)])
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _has_example(value: Any) -> bool:
    return ">>>" in _sections(value).get("Examples", "")


def _is_shown_by_its_maker(record: str) -> bool:
    """Tell whether what returns a record, or has it as an attribute, has an example."""
    name = re.compile(rf"\b{record.rpartition('.')[2]}\b")
    for path, maker in [*CALLS.items(), *((path, DESCRIBED[path]) for path in OTHERS)]:
        sections = _sections(maker)
        made = sections.get("Returns", "") + sections.get("Attributes", "")
        owner = DESCRIBED.get(path.rpartition(".")[0], maker)
        if name.search(made) and (_has_example(maker) or _has_example(owner)):
            return True
    return False


def test_the_tests_know_the_public_names() -> None:
    assert len(OTHERS) >= 25
    assert len(RECORDS) > 15
    assert len(EXCEPTIONS) > 10
    assert len(FUNCTIONS) > 15
    assert len(METHODS) > 80


@pytest.mark.parametrize("name", _exported())
def test_a_public_name_is_on_a_page(name: str) -> None:
    value = _resolve(name)
    own = name.rpartition(".")[2]
    assert any(
        one is value and path.rpartition(".")[2] == own for path, one in DESCRIBED.items()
    ), f"add `::: {name}` to a page of docs/api"


@pytest.mark.parametrize("name", OTHERS)
def test_a_class_explains_its_parameters_and_has_an_example(name: str) -> None:
    found = DESCRIBED[name]
    sections = _sections(found)
    assert sections[""].strip()
    assert _parameters(found) - _documented(sections.get("Parameters", "")) == set()
    assert _has_example(found)


ESTIMATORS = [
    apmax.APClassifier(max_iter=5),
    apmax.APClassifierCV(cv=2, alphas=[0.1]),
    apmax.StochasticAPClassifier(max_iter=20),
    apmax.AdditiveAPClassifier(cv=2, interactions=0),
    apmax.AutoAPClassifier(["logistic", "additive", "stack"], cv=2),
]


@pytest.mark.filterwarnings("ignore")  # few iterations
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_an_estimator_explains_its_fitted_attributes(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    estimator.fit(X, X[:, 0] + rng.normal(size=120) > 1)
    fitted = {name for name in vars(estimator) if name.endswith("_") and name[0] != "_"}
    assert {"classes_", "result_"} <= fitted
    assert fitted - _documented(_sections(type(estimator))["Attributes"]) == set()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_explains_its_fields_and_is_shown_in_an_example(name: str) -> None:
    record = DESCRIBED[name]
    sections = _sections(record)
    listed = _documented(sections.get("Parameters", "") + "\n" + sections.get("Attributes", ""))
    assert _parameters(record) - listed - _texts_below(record) == set()
    assert _has_example(record) or _is_shown_by_its_maker(name)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_has_a_meaning(name: str) -> None:
    assert vars(DESCRIBED[name]).get("__doc__")


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_has_a_meaning(name: str) -> None:
    module, _, own = name.rpartition(".")
    assert own in _texts_below(importlib.import_module(module))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_explains_its_parameters_and_result(name: str) -> None:
    sections = _sections(CALLS[name])
    signature = inspect.signature(CALLS[name])
    assert _parameters(CALLS[name]) - _documented(sections.get("Parameters", "")) == set()
    nothing = signature.return_annotation in ("None", None)
    # One sentence is enough for a method.
    told = name in METHODS and re.search("[Rr]eturn|Tell", sections[""])
    assert nothing or told or "Returns" in sections


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_an_example(name: str) -> None:
    assert _has_example(DESCRIBED[name])
