"""Tables of the documentation about remedies, `apmax train` and weights for trees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import remedies
from benchmarks.boosting_weights import LEAST_MEAN, MOST_BELOW
from benchmarks.pages import gain, gain_and_error, markdown, mean_and_error, minus, wrapped
from benchmarks.timing import RESULTS


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
    return markdown(["learner", "remedy", "gain in AP", "tables with a gain"], rows)


def remedies_in_words() -> str:
    """Name the remedies that change AP by more than two standard errors."""
    found: dict[bool, dict[str, list[str]]] = {True: {}, False: {}}
    for row in remedies.summary(remedies.read()):
        if abs(row["mean"]) > 2 * row["error"]:
            found[row["mean"] > 0].setdefault(row["learner"], []).append(row["remedy"])
    raised, lowered = (_by_learner(found[up]) for up in (True, False))
    return "\n" + wrapped(
        f"Remedies that raise AP by more than two standard errors: {raised}. Remedies that lower "
        f"it by more than two: {lowered}."
    )


def _by_learner(found: dict[str, list[str]]) -> str:
    """List the remedies of each learner."""
    learners = {"logistic": "logistic regression", "lightgbm": "LightGBM"}
    listed = [
        f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} for {learners[one]}"
        for one, names in found.items()
    ]
    return ", and ".join(listed) or "none"


def _advised(one: dict[str, Any]) -> tuple[str, str]:
    """Return the advised model and its AP minus that of the kept one, if they differ."""
    if one["advised"] == one["chosen"]:
        return "the same", ""
    difference = minus(f"{-one['behind_best']:+.4f}") + f" ± {one['behind_best_se']:.4f}"
    return f"`{one['advised']}`", difference


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
            *_advised(one),
        ]
        for one in map(json.loads, lines)
    ]
    header = ["table", "rows", "kept", "test AP", "minus boosting", "advised", "minus kept"]
    return markdown(header, rows)


def application_summary() -> str:
    """Summarise the comparison of `apmax train` with default gradient boosting."""
    lines = (RESULTS / "application.jsonl").read_text(encoding="utf-8").splitlines()
    stored = [json.loads(line) for line in lines]
    below = {one["table"]: (one["gain"], one["gain_se"]) for one in stored if one["gain"] < 0}
    clearly = [table for table, (mean, error) in below.items() if -mean > error]
    listed = [minus(f"{name} ({mean:+.4f} ± {error:.4f})") for name, (mean, error) in below.items()]
    within = [
        sum(one["behind_best"] <= times * one["behind_best_se"] for one in stored)
        for times in (1, 2)
    ]
    cost = np.mean([one["behind_best"] for one in stored])
    return (
        f"- The kept model gains {gain([one['gain'] for one in stored])} over boosting (standard "
        f"error over tables). It is below on {', '.join(listed)}.\n"
        "- Target: at least the AP of boosting on every table. By more than one standard error it "
        f"is {'missed on ' + ', '.join(clearly) if clearly else 'met'}.\n"
        f"- The advised model is within one standard error of the kept one on {within[0]} of "
        f"{len(stored)} tables, and within two on {within[1]}. It costs {cost:.4f} AP on average.\n"
    )


def boosting_weights() -> str:
    """Show what weights gain for boosted trees, and the rule that decides on them."""
    lines = (RESULTS / "boosting_weights.jsonl").read_text(encoding="utf-8").splitlines()
    by_table: dict[str, list[float]] = {}
    for line in map(json.loads, lines):
        by_table.setdefault(line["table"], []).append(line["weighted"] - line["plain"])
    means = {table: float(np.mean(values)) for table, values in by_table.items()}
    ends = sorted(means, key=lambda table: -means[table])
    shown = [f"{name} {gain(by_table[name])}" for name in (*ends[:3], *ends[-3:])]
    splits = len(next(iter(by_table.values())))
    return (
        f"On {len(means)} tables with {splits} splits each the mean gain is "
        f"{gain([*means.values()])}. The three largest and the three smallest: "
        f"{', '.join(shown)}.\n\n{_missed_conditions([*means.values()])}\n"
    )


def _missed_conditions(gained: Sequence[float]) -> str:
    """Say which of the conditions for using the weights are missed."""
    mean, error = mean_and_error(gained)
    conditions = {
        f"a mean gain of {LEAST_MEAN}": mean >= LEAST_MEAN,
        "two standard errors": mean >= 2 * error,
        f"no table below −{MOST_BELOW}": min(gained) >= -MOST_BELOW,
    }
    missed = [name for name, met in conditions.items() if not met]
    return f"Conditions that are missed: {', '.join(missed) or 'none'}."
