"""Tables of the documentation about linear models, made from the stored results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.linear_quality import MEAN_ABOVE, MOST_BELOW, MOST_LOSS
from benchmarks.pages import gain, gain_and_error, item, markdown, minus, results_of


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
        for row in results_of("linear_quality")
    ]
    header = ["data", "logistic regression", "APClassifierCV", "gain ± standard error"]
    return markdown([*header, "boosted trees"], rows)


def linear_quality_targets() -> str:
    """Say which targets of ``make bench-quality`` are kept."""
    rows = results_of("linear_quality")
    gained = np.array([row["apmax"] - row["logistic"] for row in rows])
    error = float(np.sqrt(np.square([row["error"] for row in rows]).sum())) / len(rows)
    ratios = [row["loss_ratio"] for row in rows]
    below = [row["data"] for row, value in zip(rows, gained, strict=True) if value < -MOST_BELOW]
    targets = {
        f"a mean gain of at least {MEAN_ABOVE}": _kept(gained.mean() >= MEAN_ABOVE),
        f"no loss above {MOST_BELOW}": ", ".join([_kept(not below), *below]),
        f"a log-loss of at most {MOST_LOSS} times that of logistic regression": (
            f"{_kept(max(ratios) <= MOST_LOSS)}, {min(ratios):.2f}–{max(ratios):.2f}"
        ),
    }
    listed = "; ".join(f"{target} ({found})" for target, found in targets.items())
    mean = minus(f"{gained.mean():+.4f}")
    spread = gained.std(ddof=1) / len(rows) ** 0.5
    return (
        f"The mean gain is {mean} ± {error:.4f} over test rows, and ± {spread:.4f} over data sets. "
        f"Targets: {listed}."
    )


def _kept(met: bool) -> str:
    return "met" if met else "missed"


def cost_in_words() -> str:
    """Say how long APClassifierCV takes in units of LogisticRegressionCV."""
    found = [
        line["measured"]
        for line in results_of("linear_speed")
        if line["what"].startswith("fit of APClassifierCV() / LogisticRegressionCV")
    ]
    return item(
        "Compared with LogisticRegressionCV with ten values of C and one scaling, "
        f"`APClassifierCV` takes {min(found):.1f} to {max(found):.1f} times as long on "
        "[four data sets](benchmarks.md#linear-models-speed)."
    )


def linear_objectives() -> str:
    """Show gains in held-out AP over logistic regression by the objective of APClassifierCV."""
    stored = results_of("linear_objectives")
    rows = []
    for setting in stored[0]["ap"]:
        gained = [row["ap"][setting] - row["ap"]["logistic regression"] for row in stored]
        if setting != "logistic regression":
            rows.append([setting, gain(gained), minus(f"{min(gained):+.4f}")])
    return markdown(["objective", f"mean gain, {len(stored)} sets", "smallest"], rows)


def linear_methods() -> str:
    """Show held-out AP of the stochastic methods by learning rate."""
    first, *stored = results_of("linear_methods")
    sets = list(first["ap"])

    def three(values: Sequence[float]) -> str:
        return " / ".join(f"{value:.3f}".lstrip("0") for value in values)

    rows = [
        [f"`{row['method']}`", f"{row['rate']:g}"]
        + [three(row["ap"][name]) for name in sets]
        + [three([row["paper"][name] for name in sets])]
        for row in stored
    ]
    rows.append([f"`{first['method']}`", ""] + [three([first["ap"][name]]) for name in sets] + [""])
    return markdown(["method", "η", *sets, f"paper: {', '.join(sets)}"], rows)


def linear_methods_in_words() -> str:
    """Say where the default settings of stochastic methods are above the paper's."""
    _, *found = results_of("linear_methods")
    differences = {
        name: [row["ap"][name][1] - row["paper"][name] for row in found] for name in found[0]["ap"]
    }
    listed = [
        f"{sum(value > 0 for value in values)} of {len(values)} on {name} ({min(values):+.3f} to "
        f"{max(values):+.3f})"
        for name, values in differences.items()
    ]
    return item(f"Methods whose default is above the paper's settings: {minus(', '.join(listed))}.")
