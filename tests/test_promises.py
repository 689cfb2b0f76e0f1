"""Each promise of the pages on reliability and security names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "reliability.md", ROOT / "SECURITY.md"]
TEST = re.compile(r"\btest_\w+(?:\.py|\*\.py)?")
NO_PROMISE = ("What is not promised", "Measured", "Reporting", "Supported versions")
"""Sections without promises, or whose tests are in a table that is generated."""


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    parts = re.split(r"^## (.+)\n", page.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def promises(page: Path) -> list[str]:
    """Return bullets, rows of tables with a column of tests, and sections without bullets."""
    tables = re.findall(
        r"^\|.*\| test \|\n\|[-|]+\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE
    )
    found = "".join(tables).splitlines()
    for title, text in sections(page).items():
        if title in NO_PROMISE:
            continue
        bullets = re.findall(r"^- .*(?:\n  .*)*", text, flags=re.MULTILINE)
        found += bullets or [f"{title}: {text}"]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_promise_names_a_test(page: Path) -> None:
    assert len(promises(page)) >= 8
    assert [one for one in promises(page) if not TEST.search(one)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    names = {path.name for path in files} | {path.stem for path in files}
    names |= {
        one for path in files for one in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    named = set(TEST.findall(page.read_text("utf-8")))
    assert len(named) > 5
    assert named - names == set()
    paths = re.findall(r"\btests/[\w/]+\.py", page.read_text("utf-8"))
    assert [path for path in paths if not (ROOT / path).is_file()] == []
