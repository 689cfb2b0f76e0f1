"""Every example in the documentation prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import apmax

ROOT = Path(__file__).parents[1]
MODULES = [module.name for module in pkgutil.walk_packages(apmax.__path__, prefix="apmax.")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_in_pages(page: Path) -> None:
    failures, _ = doctest.testfile(str(page), module_relative=False)
    assert failures == 0


def test_the_readme_has_examples() -> None:
    _, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 5
