"""Tables of the documentation, made from the stored results in ``docs/results``.

Pages contain blocks of cog (https://cog.readthedocs.io) that call these functions. ``make numbers``
renews the blocks, and the tests fail if a page differs from the results.
"""

from __future__ import annotations

import json
import re
import textwrap
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
    "spline-logistic": "logistic regression on the same spline features",
    "hgb": "HistGradientBoosting, defaults",
    "lightgbm-ap": "LightGBM, leaves (5, 20, 63) and rounds chosen by AP",
    "flaml": 'FLAML, `metric="ap"`, at least the same CPU time',
    "xgboost": "XGBoost, defaults",
    "catboost": "CatBoost, defaults",
    "additive-main": "`AdditiveAPClassifier`, no interactions",
    "additive": "`AdditiveAPClassifier`",
    "auto": "`AutoAPClassifier`",
    "auto-one-se": '`AutoAPClassifier(select="one-se")`',
    "auto-stack": '`AutoAPClassifier(select="stack")`',
}


LABELS = {
    "difference of unit coef_ × 1e6,": "10⁶ × largest difference between `coef_` of `fit_files` "
    "and `fit`, each scaled to length 1,",
    "soap-adam to LogisticRegression's test AP / its fit,": "time of `soap-adam` until it has the "
    "test AP of LogisticRegression / time of LogisticRegression,",
    "unit deviation": "unit standard deviation",
    "unit maximum": "largest absolute value 1",
}
"""Names of measurements in the stored results, and their longer names in tables."""
SHORT = {
    "logistic": "logistic regression",
    "hgb": "HistGradientBoosting",
    "lightgbm-ap": "LightGBM tuned by AP",
    "additive": "`AdditiveAPClassifier`",
    "auto": "`AutoAPClassifier`",
}
"""Names in headings of tables; the text before them has those of NAMES."""
PREVALENCES = (0.0, 0.05, 0.2, 0.5)
"""Limits of the groups of tables by their share of positives."""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, between empty lines."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def item(text: str) -> str:
    """Return an item of a list, wrapped."""
    return wrapped(f"- {text}", indent="  ")


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of the usual length."""
    return textwrap.fill(text, 119, subsequent_indent=indent, break_on_hyphens=False) + "\n"


def gain(values: Sequence[float]) -> str:
    """Return mean ± standard error; bold if the mean exceeds two errors."""
    return gain_and_error(*mean_and_error(values))


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    found = np.asarray(values)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))


def gain_and_error(mean: float, error: float) -> str:
    """Return mean ± standard error; bold if the mean exceeds two errors."""
    text = minus(f"{mean:+.4f}")
    return f"{f'**{text}**' if mean > 2 * error else text} ± {error:.4f}"


def minus(text: str) -> str:
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
        up = f"{sum(value > 0 for value in found)} of {len(found)}"
        middle = minus(f"{np.median(found):+.4f}")
        rows.append([NAMES[first], NAMES[second], gain(found), middle, up])
    return markdown(
        ["model", "compared with", "mean gain in AP", "median", "tables with a gain"], rows
    )


def evidence() -> str:
    """Compare the models of tables with others, and say where AP training itself helps."""
    others = [("auto", other) for other in ("hgb", "catboost", "lightgbm-ap", "flaml")]
    same_basis = ("additive-main", "spline-logistic")
    table = table_differences([*others, ("additive", "logistic"), same_basis])
    mean, error = mean_and_error([*gains(table_lines(), *same_basis).values()])
    clear = _clear_gains()
    sets = ", ".join(f"{row['data']} {minus(f'{gained:+.3f}')}" for row, gained in clear)
    networks = results_of("surrogate_quality")["test"]["network"]
    best = _best_network(networks)
    lines = [
        "**Tables.** Training the same model for AP instead of log-loss (AP training, last row) "
        f"{_words(mean, error)}. The gain comes from better models and their combination.",
        "**Linear models.** AP training is above tuned logistic regression by more than two "
        f"standard errors on {len(clear)} of {len(results_of('linear_quality'))} data sets "
        f"({sets}).",
        f"**Networks.** AP training of small networks on {len(networks['baseline'])} tables, after "
        f"cross-entropy, {_words(*best)}. Train with cross-entropy, and treat AP training as a "
        "candidate.",
    ]
    return table_facts() + table + "".join(map(item, lines)) + "\n"


def _best_network(networks: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Return mean gain and standard error of the best AP training of networks."""
    return max(
        mean_and_error([*found.values()]) for name, found in networks.items() if name != "baseline"
    )


def _words(mean: float, error: float) -> str:
    """Say whether a difference exceeds two standard errors."""
    figures = f"{minus(f'{mean:+.4f}')} ± {error:.4f}"
    if abs(mean) <= 2 * error:
        return f"makes no measurable difference ({figures})"
    return f"{'raises' if mean > 0 else 'lowers'} AP ({figures})"


def _clear_gains() -> list[tuple[dict[str, Any], float]]:
    """Return the data sets on which APClassifierCV gains two standard errors, with the gain."""
    found = [(row, row["apmax"] - row["logistic"]) for row in results_of("linear_quality")]
    return [(row, gained) for row, gained in found if gained > 2 * row["error"]]


def clear_gains() -> str:
    """Say where APClassifierCV gains clearly, and how far boosted trees are ahead there."""
    found = [
        f"{row['data']} ({gained:+.3f}; boosted trees {row['trees'] - row['logistic']:+.3f})"
        for row, gained in _clear_gains()
    ]
    text = (
        "Gains over logistic regression of more than two standard errors, beside those of boosted"
    )
    return wrapped(minus(f"{text} trees: {', '.join(found)}."))


def table_facts() -> str:
    """Say how many tables and splits there are, how large, and what FLAML was given."""
    rows = {line["table"]: line["rows"] for line in table_lines() if "rows" in line}
    results = tabular.read(tabular.RESULTS)
    splits = {len(lines) for lines in results["auto"].values()}
    flaml = results["flaml"]
    seconds = [results["auto"][name][seed]["cpu"] for name in flaml for seed in flaml[name]]
    missing = " and ".join(sorted({*results["auto"]} - {*flaml}))
    return wrapped(
        f"Test AP on {len(rows)} public tables with {min(rows.values()):,} to "
        f"{max(rows.values()):,} training rows. `AutoAPClassifier` selects among logistic "
        "regression, an additive model, trees and their stack. Everything is chosen by "
        f"cross-validation on training rows. The gain on a table is a mean over "
        f"{min(splits)}–{max(splits)} splits. "
        "Each row shows the mean over tables ± its standard error. Gains are bold above two "
        "standard errors. A wider search of LightGBM's parameters was not compared. FLAML ran on "
        f"one split of {len(flaml)} tables (all but {missing}) with at least the CPU time of apmax "
        f"(median {np.median(seconds):.0f} s)."
    )


def table_targets() -> str:
    """Show the targets of ``make bench-tabular`` and what was measured."""
    kept = {True: "yes", False: "no", None: "not measured"}
    found = tabular_summary.bars(tabular.read(tabular.RESULTS))
    return markdown(["target", "reached"], [[minus(bar.text), kept[bar.kept]] for bar in found])


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
    """Show the gain of AutoAPClassifier by the number of training rows."""
    lines, others = table_lines(), ("logistic", "hgb", "lightgbm-ap")
    over = {other: gains(lines, "auto", other) for other in others}
    rows = [
        [size, str(len(tables)), *(gain([one[name] for name in tables]) for one in over.values())]
        for size, tables in _tables_by_size(lines).items()
    ]
    return markdown(["training rows", "tables", *(f"over {SHORT[one]}" for one in others)], rows)


def gains_by_size_in_words() -> str:
    """Compare the gain over tuned LightGBM on the smallest and on the largest tables."""
    lines, other = table_lines(), "lightgbm-ap"
    over = gains(lines, "auto", other)
    sizes = [*_tables_by_size(lines).items()]
    (few, small), (many, large) = (
        (size, [over[name] for name in tables]) for size, tables in (sizes[0], sizes[-1])
    )
    (mean, error), (mean_of_few, error_of_few) = map(mean_and_error, (large, small))
    falls = mean_of_few - mean
    errors = abs(falls) / np.hypot(error, error_of_few)
    figures = [gain(values).replace("*", "") for values in (small, large)]
    return wrapped(
        f"The mean gain over {SHORT[other]} is {'smaller' if falls > 0 else 'not smaller'} on "
        f"larger tables: {figures[1]} with {many} training rows, {figures[0]} with {few}, a "
        f"difference of {errors:.1f} standard errors. With more than {MOST_TRAINING_ROWS:,} "
        "training rows the gain is not measured: [compare](#compare-with-your-own-model)."
    )


def cpu_by_size() -> str:
    """Show the CPU time of fits by the number of training rows."""
    lines = table_lines()
    methods = ("logistic", "hgb", "lightgbm-ap", "additive", "auto")
    rows = []
    for size, tables in _tables_by_size(lines).items():
        found = [
            [one["cpu"] for one in lines if one["method"] == method and one["table"] in tables]
            for method in methods
        ]
        rows.append([size, *(f"{np.median(times):.1f} s" for times in found)])
    return markdown(["training rows", *(SHORT[method] for method in methods)], rows)


def _tables_by_size(lines: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the tables in each range of training rows."""
    sizes = {line["table"]: line["rows"] for line in lines if "rows" in line}
    limits = (0, 1_000, 4_000, MOST_TRAINING_ROWS)
    return {
        f"{low:,}–{high:,}": [name for name, rows in sizes.items() if low < rows <= high]
        for low, high in pairwise(limits)
    }


def gains_by_prevalence() -> str:
    """Show the gains of AutoAPClassifier by the share of positives, and its worst tables."""
    lines, others = table_lines(), ("logistic", "hgb", "lightgbm-ap")
    over = {other: gains(lines, "auto", other) for other in others}
    share = {one["table"]: one["positives"] / one["rows"] for one in lines if "rows" in one}
    rows = []
    for low, high in pairwise(PREVALENCES):
        tables = [name for name in over["hgb"] if low < share[name] <= high]
        found = [gain([one[name] for name in tables]) for one in over.values()]
        rows.append([f"{low:.0%}–{high:.0%}", str(len(tables)), *found])
    worst = {other: min(found, key=lambda name: found[name]) for other, found in over.items()}
    listed = "; ".join(
        minus(f"{_with_a_digit(over[other][name])} over {SHORT[other]} (on {name})")
        for other, name in worst.items()
    )
    header = ["positives", "tables", *(f"over {SHORT[other]}" for other in others)]
    return markdown(header, rows) + wrapped(f"The smallest gains: {listed}.")


def _with_a_digit(value: float) -> str:
    """Return a difference with four decimals, or with more if they would all be zeros."""
    decimals = 4
    while value and decimals < 9 and not float(f"{value:.{decimals}f}"):
        decimals += 1
    return f"{value:+.{decimals}f}"


def gains_in_words() -> str:
    """Say for whom AutoAPClassifier and AP training gain."""
    lines, found = table_lines(), _clear_gains()
    middle = {
        other: minus(f"{np.median([*gains(lines, 'auto', other).values()]):+.3f}")
        for other in ("logistic", "lightgbm-ap")
    }
    best = _best_network(results_of("surrogate_quality")["test"]["network"])
    parts = [
        f"**Tables.** `AutoAPClassifier` has a median gain of {middle['logistic']} over tuned "
        f"logistic regression and {middle['lightgbm-ap']} over LightGBM with leaves and rounds "
        "chosen by AP.",
        f"**Linear models.** AP training helps on {len(found)} of "
        f"{len(results_of('linear_quality'))} data sets.",
        f"**Networks.** AP training after cross-entropy {_words(*best)} on average over tables.",
    ]
    return "".join(map(item, parts))


def speed(*names: str) -> str:
    """Show what was measured, with the targets."""
    rows = []
    for line in (line for name in names for line in results_of(name)):
        least, found, bar = line["at_least"], line["measured"], line["bar"]
        met = found >= bar if least else found <= bar
        measured, target = f"{found:.3g}", f"{'≥' if least else '≤'} {bar:g}"
        if not met and float(measured) == bar:
            measured = f"{found:.5g}"
        if line["what"].startswith("bits equal"):
            measured, target = "yes" if met else "no", "yes"
        rows.append([_label(line["what"]), measured, target + ("" if met else ", **missed**")])
    return markdown(["", "measured", "target"], rows)


def _label(what: str) -> str:
    """Return the name of a measurement in words of the documentation."""
    for stored, shown in LABELS.items():
        what = what.replace(stored, shown)
    return what


def load(name: str) -> str:
    """Say how busy the machine was during a measurement."""
    stored = results_of(name)
    found = [line["load"] for line in stored]
    cores = stored[0]["cores"]
    return f"Load average during the measurement: {min(found)}–{max(found)} on {cores} cores."


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tables"


def results_of(name: str) -> Any:
    """Return the results of a command."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def release() -> str:
    """Show the size of the installed core and the times of its imports."""
    facts = results_of("release")
    with_dependencies = facts["installed_bytes_with_dependencies"]
    package, estimator = facts["import_seconds"], facts["estimator_import_seconds"]
    values = {
        "wheel": f"{facts['wheel_bytes'] / 1e6:.2f} MB",
        "installed, `apmax` alone": f"{facts['installed_bytes'] / 1e6:.1f} MB",
        "installed, with all required packages": f"{with_dependencies / 1e6:.0f} MB",
        "CPU time of `import apmax`, after NumPy": f"{1e3 * package:.1f} ms",
        "CPU time of `from apmax import APClassifierCV`": f"{estimator:.2f} s",
    }
    return markdown(["", "measured"], [list(row) for row in values.items()])
