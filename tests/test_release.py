"""What a release states about itself agrees: version, citation, changelog, README."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import apmax

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_version_is_that_of_the_citation_and_the_changelog() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: \"?([\d.]+)", citation, re.MULTILINE) == [apmax.__version__]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## \[?([\d.]+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == apmax.__version__


def test_urls_of_the_project_are_those_of_the_citation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Repository"] in (ROOT / "CITATION.cff").read_text("utf-8")
    assert {"Documentation", "Changelog", "Issues"} <= set(project["urls"])


def test_the_readme_is_short_and_starts_with_the_installation() -> None:
    assert len(README.splitlines()) <= 120
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert "pip install" in blocks[0][1]
    code = [[line for line in text.splitlines() if line.strip()] for _, text in blocks]
    expected_outputs = sum(line == "True" for lines in code for line in lines)
    assert max(map(len, code)) <= 8 + expected_outputs


def test_the_readme_links_to_the_guides() -> None:
    links = re.findall(r"\]\((docs/[\w-]+\.md)", README)
    assert {"docs/should-i-use-this.md", "docs/benchmarks.md", "docs/faq.md"} <= set(links)
