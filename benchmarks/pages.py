"""Tables of the documentation, made from the stored results in ``docs/results``.

Pages contain blocks of cog (https://cog.readthedocs.io) that call these functions. ``make numbers``
renews the blocks, and the tests fail if a page differs from the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import remedies, tabular, tabular_summary
from benchmarks.remedies import gains
from benchmarks.tables import MOST_TRAINING_ROWS
from benchmarks.timing import RESULTS

NAMES = {
    "logistic": "tuned logistic regression",
    "spline-logistic": "logistic regression on the same basis",
    "hgb": "HistGradientBoosting, defaults",
    "lightgbm-ap": "LightGBM, tuned by AP",
    "flaml": 'FLAML, `metric="ap"`, same CPU time',
    "xgboost": "XGBoost, defaults",
    "catboost": "CatBoost, defaults",
    "additive-main": "`AdditiveAPClassifier(interactions=0)`",
    "additive": "`AdditiveAPClassifier`",
    "auto": "`AutoAPClassifier`",
    "auto-stack": '`AutoAPClassifier(select="stack")`',
}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, between empty lines."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def gain(values: Sequence[float]) -> str:
    """Return mean ± standard error; bold if the mean exceeds the error."""
    found = np.asarray(values)
    mean, error = float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))
    return gain_and_error(mean, error)


def gain_and_error(mean: float, error: float) -> str:
    """Return mean ± standard error; bold if the mean exceeds the error."""
    text = _minus(f"{mean:+.4f}")
    return f"{f'**{text}**' if abs(mean) > error else text} ± {error:.4f}"


def _minus(text: str) -> str:
    """Return the text with minus signs before numbers, and hyphens elsewhere."""
    return re.sub(r"-(?=\d)", "−", text)


def table_lines() -> list[dict[str, Any]]:
    """Return the stored lines of ``benchmarks.tabular`` and ``benchmarks.remedies``."""
    results = tabular.read(tabular.RESULTS)
    stored = [line for tables in results.values() for of in tables.values() for line in of.values()]
    return stored + remedies.read()


def table_differences(pairs: Sequence[tuple[str, str]]) -> str:
    """Compare pairs of methods on all tables that both have."""
    lines, rows = table_lines(), []
    for first, second in pairs:
        found = [*gains(lines, first, second).values()]
        up, median = sum(value > 0 for value in found), f"{np.median(found):+.4f}"
        rows.append(
            [NAMES[first], NAMES[second], gain(found), _minus(median), f"{up} of {len(found)}"]
        )
    return markdown(["model", "compared with", "mean gain in AP", "median", "tables up"], rows)


def table_targets() -> str:
    """Show the targets of ``make bench-tabular`` and what was measured."""
    kept = {True: "yes", False: "no", None: "not measured"}
    found = tabular_summary.bars(tabular.read(tabular.RESULTS))
    return markdown(["target", "reached"], [[_minus(bar.text), kept[bar.kept]] for bar in found])


def splits(methods: Sequence[str]) -> str:
    """Show of how many splits of each table the methods have results."""
    results, rows = tabular.read(tabular.RESULTS), []
    for method in methods:
        tables: dict[int, list[str]] = {}
        for table, lines in results[method].items():
            tables.setdefault(len(lines), []).append(table)
        counts = [f"{count} of {_some(names)}" for count, names in sorted(tables.items())]
        rows.append([f"`{method}`", ", ".join(counts)])
    return markdown(["method", "splits"], rows)


def gains_by_size() -> str:
    """Show gain and CPU time of AutoAPClassifier by the number of training rows."""
    lines = table_lines()
    sizes = {line["table"]: line["rows"] for line in lines if "rows" in line}
    over = {other: gains(lines, "auto", other) for other in ("logistic", "hgb")}
    limits = (0, 1_000, 4_000, MOST_TRAINING_ROWS)
    rows = []
    for low, high in pairwise(limits):
        tables = [name for name in over["hgb"] if low < sizes[name] <= high]
        found = [gain([one[name] for name in tables]) for one in over.values()]
        cpu = [one["cpu"] for one in lines if one["method"] == "auto" and one["table"] in tables]
        rows.append([f"{low:,}–{high:,}", str(len(tables)), *found, f"{np.median(cpu):.0f} s"])
    header = ["training rows", "tables", "over logistic regression", "over boosted trees"]
    return markdown([*header, "median CPU time"], rows)


def speed(name: str) -> str:
    """Show measured ratios with their targets."""
    rows = [
        [
            line["what"],
            f"{line['measured']:.3g}",
            f"{'≥' if line['at_least'] else '≤'} {line['bar']:g}",
        ]
        for line in _stored(name)
    ]
    return markdown(["", "measured", "target"], rows)


def linear_quality() -> str:
    """Show test AP of linear models and boosted trees on the sets of ``make bench-quality``."""
    rows = [
        [
            row["data"],
            f"{row['logistic']:.4f}",
            f"{row['apmax']:.4f}",
            gain_and_error(row["apmax"] - row["logistic"], row["error"]),
            f"{row['trees']:.4f}",
        ]
        for row in _stored("linear_quality")
    ]
    header = ["data", "logistic regression", "APClassifierCV", "gain ± standard error"]
    return markdown([*header, "boosted trees"], rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tables"


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def remedy_gains() -> str:
    """Compare remedies for imbalance with the same learner without them."""
    rows = [
        [
            row["learner"],
            row["remedy"],
            gain_and_error(row["mean"], row["error"]),
            f"{row['up']} of {row['tables']}",
        ]
        for row in remedies.summary(remedies.read())
    ]
    return markdown(["learner", "remedy", "gain in AP", "tables up"], rows)


def application() -> str:
    """Compare `apmax train` with default gradient boosting, table by table."""
    lines = (RESULTS / "application.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [
        [
            one["table"],
            f"{one['rows']:,}",
            f"`{one['chosen']}`",
            f"{one['ap'][one['chosen']]:.4f}",
            gain_and_error(one["gain"], one["gain_se"]),
            f"`{one['advised']}`",
            _minus(f"{-one['behind_best']:+.4f}") + f" ± {one['behind_best_se']:.4f}",
        ]
        for one in map(json.loads, lines)
    ]
    header = ["table", "rows", "kept", "test AP", "minus boosting", "advised", "minus kept"]
    return markdown(header, rows)
