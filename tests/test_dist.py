"""A release lists every installed package, with its licence."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

DIST = runpy.run_path(str(Path(__file__).resolve().parents[1] / ".ci" / "dist.py"))
NAMES = {"a", "b"}


def faults(components: set[str], licences: dict[str, str]) -> list[str]:
    """Return the faults of lists of these components, where ``NAMES`` are installed."""
    rows = [f"| {name} | 1.0 | {licence} | UNKNOWN |" for name, licence in licences.items()]
    table = "\n".join(["| Name | Version | License | URL |", "|------|---|---|---|", *rows])
    bom = json.dumps({"components": [{"name": name} for name in components]})
    found: list[str] = DIST["faults_of_components"](NAMES, bom, table)
    return found


def test_complete_lists_have_no_faults() -> None:
    assert faults({"a", "b"}, {"a": "MIT", "b": "BSD-3-Clause"}) == []


def test_missing_and_foreign_packages_are_found_in_either_list() -> None:
    assert faults({"a"}, {"a": "MIT", "b": "MIT"}) == ["SBOM: b is missing"]
    assert faults({"a", "b"}, {"a": "MIT"}) == ["licences: b is missing"]
    assert faults({"a", "b", "c"}, {"a": "MIT", "b": "MIT"}) == ["SBOM: c is not installed"]
    both = {"a": "MIT", "b": "MIT", "c": "MIT"}
    assert faults({"a", "b"}, both) == ["licences: c is not installed"]


def test_an_unknown_licence_is_a_fault() -> None:
    expected = ["licences: that of b is unknown"]
    assert faults({"a", "b"}, {"a": "MIT", "b": "UNKNOWN"}) == expected
