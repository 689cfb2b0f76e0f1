"""Measurements in the sentences of the documentation are those of docs/results.

Tables and paragraphs between ``[[[cog`` and ``[[[end]]]`` are generated, and ``tests/test_docs.py``
compares them. Numbers that stand in other sentences are compared here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apmax.memory import BYTES_PER_BYTE, BYTES_PER_ROW
from benchmarks import cost_pages, pages, tables

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SIZES = {
    (one["model"], one["rows"]): (f"{one['cpu']:.0f} s", f"{one['peak_bytes'] / 1e9:.1f} GB")
    for one in pages.results_of("table_size")
}
ADDITIVE, AUTO = SIZES["additive", 1_000_000], SIZES["auto", 100_000]
PROCESSES, FORESTS = (f"{one / 1e9:g} GB" for one in (cost_pages.PROCESSES, cost_pages.FORESTS))
PER_ROW = f"{BYTES_PER_ROW / 1e3:g} KB per row"
FILES = max(one["measured"] for one in pages.results_of("scale_files") if "RSS in" in one["what"])
PASSES = max(one["passes"] for one in pages.results_of("scale_files_cpu"))
DASK = {one["what"]: one["measured"] for one in pages.results_of("scale_dask")}
LABELS = pages.results_of("reliability")["APLoss trains thousands of labels in less than 3 GB"]
LINEAR = pages.results_of("linear_quality")
CLEAR = sum(row["apmax"] - row["logistic"] > 2 * row["error"] for row in LINEAR)
WITHIN = sum(abs(row["apmax"] - row["logistic"]) <= 2 * row["error"] for row in LINEAR)
FEW, SOME, MANY = (f"{one / 1e9:g}" for one in cost_pages.MEMORIES)
MEASURED = {
    "benchmarks.md": [f"about {PASSES} passes per fit"],
    "faq.md": [
        f"10⁶ rows of 12 columns take {ADDITIVE[0]} of CPU time and {ADDITIVE[1]}",
        f"100,000 rows of 12 columns take {AUTO[0]} of CPU time and {AUTO[1]}",
        f"up to {tables.MOST_TRAINING_ROWS:,} training rows",
        f"{FEW}, {SOME} and {MANY} GB",
        LABELS["figure"].partition(", 100 batches")[0].replace(", 5", " with 5"),
    ],
    "should-i-use-this.md": [f"more than {tables.MOST_TRAINING_ROWS:,} training rows"],
    "coming-from-logistic-regression.md": [f"on {CLEAR} of the {len(LINEAR)} data sets"],
    "linear.md": [
        f"On {WITHIN} of {len(LINEAR)} data sets",
        f"and on {CLEAR} above",
        f"on {CLEAR} of {len(LINEAR)} data sets",
    ],
    "scale.md": [
        f"{PROCESSES} plus {PER_ROW} plus {BYTES_PER_BYTE} times the size of the table",
        f"assuming {PER_ROW} plus {BYTES_PER_BYTE} times the size of the table",
        f"workers were {DASK['1 → 2 workers, speed-up on two cores']:.3g} times as fast as one",
        f"{FORESTS} more for the forests",
        f"`AdditiveAPClassifier` {ADDITIVE[1]} for 10⁶ rows × 12",
        f"`AutoAPClassifier` {AUTO[1]} for 10⁵ × 12",
        f"about {FILES:.0f} MB with 30 columns",
        f"about {PASSES} passes over the data",
        f"{PROCESSES} for the processes, and up to {FORESTS} for the forests",
    ],
    "tabular.md": [
        f"{PROCESSES}, plus {PER_ROW}, plus {BYTES_PER_BYTE} times the size of the table (8 bytes "
        f"per number), plus {FORESTS} for the forests"
    ],
}
LIMITS = [
    "a line every 30 seconds",
    "expand to more than 4 GB",
    "Use partitions of about 128 MB",
    "splines would take more than 2 GB",
    "With less than 8 GB",
    "16 partitions of 128 MB",
]
"""Numbers with units that are not measurements: limits, defaults and descriptions."""


def sentences(page: Path) -> str:
    """Return the text of a page without blocks of code and generated parts, in one line."""
    text = page.read_text("utf-8")
    for other in (r"\[\[\[cog.*?\[\[\[end\]\]\]", r"^( *)```.*?^\1```"):
        text = re.sub(other, "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(text.split())


@pytest.mark.parametrize("name", MEASURED)
def test_measurements_in_sentences_are_those_of_the_results(name: str) -> None:
    text = sentences(ROOT / "docs" / name)
    assert [part for part in MEASURED[name] if part not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_times_and_sizes_in_sentences_are_compared_with_results(page: Path) -> None:
    text = sentences(page)
    for known in (*MEASURED.get(page.name, []), *LIMITS):
        text = text.replace(known, "")
    unit = r"(?:s|ms|min|minutes|seconds|kB|KB|MB|GB|TB|h|hours|times as (?:fast|long))"
    assert re.findall(rf".{{0,60}}\b\d[\d.,–]* {unit}\b", text) == []
