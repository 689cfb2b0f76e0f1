"""Every example in the documentation prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import apmax
from apmax.methods import METHODS
from apmax.objective.surrogates import SURROGATES

ROOT = Path(__file__).parents[1]
MODULES = [module.name for module in pkgutil.walk_packages(apmax.__path__, prefix="apmax.")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [ROOT / "src" / "apmax", ROOT / "experiments"]


@pytest.fixture(autouse=True)
def _restored_registries() -> Iterator[None]:
    """Remove what an example registers."""
    known = [(registry, set(registry)) for registry in (METHODS, SURROGATES)]
    yield
    for registry, names in known:
        for name in set(registry) - names:
            del registry[name]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_in_pages(page: Path) -> None:
    failures, _ = doctest.testfile(str(page), module_relative=False)
    assert failures == 0


def test_the_leaderboard_of_the_guide_is_that_of_its_code() -> None:
    pytest.importorskip("lightgbm", reason="the guide's boosted trees are LightGBM's")
    page = (ROOT / "docs" / "tabular.md").read_text("utf-8")
    code, shown = (
        page.partition(f"```{language}\n")[2].partition("```")[0] for language in ("python", "text")
    )
    example = doctest.DocTestParser().get_doctest(code, {}, "tabular.md", None, 0)
    doctest.DocTestRunner().run(example, clear_globs=False)
    words, numbers = _without_seconds(shown)
    expected_words, expected_numbers = _without_seconds(repr(example.globs["model"].leaderboard_))
    assert words == expected_words
    assert numbers == pytest.approx(expected_numbers, abs=2e-3)  # processors round differently


def _without_seconds(leaderboard: str) -> tuple[list[str], list[float]]:
    """Return the words of a leaderboard, with a mark for each number, and its numbers."""
    table = re.sub(r" +[0-9.]+(  ←)?$", "", leaderboard, flags=re.MULTILINE)
    number = re.compile(r"[+−-]?\d+\.\d+")
    found = [float(one.replace("−", "-")) for one in number.findall(table)]
    return number.sub("#", table).split(), found


def test_the_readme_has_examples() -> None:
    _, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 5


def test_tables_of_measurements_agree_with_the_stored_results() -> None:
    pages = [str(page) for page in PAGES if "[[[cog" in page.read_text("utf-8")]
    assert len(pages) > 5
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", "-I", str(ROOT), *pages],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, f"run `make numbers`: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_differences_with_standard_errors_are_inserted_from_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for generated in (r"\[\[\[cog.*?\[\[\[end\]\]\]", r"^( *)```.*?^\1```"):
        text = re.sub(generated, "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r".*± ?\d.*", text) == []


def test_links_between_pages_lead_to_files() -> None:
    for page in [*PAGES, *ROOT.glob("*.md")]:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_the_contributors_map_lists_every_package_and_top_level_module() -> None:
    packages = [init.parent for source in SOURCES for init in source.rglob("__init__.py")]
    modules = [path for path in SOURCES[0].glob("*.py") if path.name != "__init__.py"]
    paths = [f"{folder.relative_to(ROOT)}/" for folder in packages]
    paths += [str(module.relative_to(ROOT)) for module in modules]
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [path for path in paths if f"`{path}`" not in guide] == []


def test_files_of_the_contributors_map_exist() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|", guide.split("## Map")[1], flags=re.MULTILINE)
    assert len(rows) > 50
    missing = []
    for row in rows:
        first, *others = re.findall(r"`([^`]+)`", row)
        folder = (ROOT / first).parent
        paths = [ROOT / first, *(ROOT / one if "/" in one[:-1] else folder / one for one in others)]
        missing += [str(path.relative_to(ROOT)) for path in paths if not path.exists()]
    assert missing == []
