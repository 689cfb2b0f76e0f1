"""Seconds that AutoAPClassifier takes for a time budget, on tables of different size.

``python -m benchmarks.time_budget`` prints one line per table and budget, and exits with 1 if a fit
takes more than 1.2 times its budget.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.model_selection import train_test_split

from apmax import AutoAPClassifier
from benchmarks.tables import load

TABLES = {"churn": 5_000, "adult": 48_842, "cover": 60_000}
"""Tables, and how many of their rows are used."""
BUDGETS = (10.0, 30.0, 60.0)
LEEWAY = 1.2


def main() -> int:
    kept = True
    AutoAPClassifier(["logistic", "additive"], cv=2).fit(*_rows("churn", 500))  # compiles
    print(
        f"{'table':<8} {'rows':>7} {'budget':>7} {'seconds':>8} {'ratio':>6}  models, sampled rows"
    )
    for table, rows in TABLES.items():
        X, y = _rows(table, rows)
        for budget in BUDGETS:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = AutoAPClassifier(time_budget=budget).fit(X, y)
            seconds = time.perf_counter() - start
            kept &= seconds <= LEEWAY * budget
            used = int(np.isfinite(next(iter(model.out_of_fold_.values()))).sum())
            print(
                f"{table:<8} {y.size:>7} {budget:>7.0f} {seconds:>8.1f} {seconds / budget:>6.2f}  "
                f"{len(model.out_of_fold_)}, {used}",
                flush=True,
            )
    print(f"{'ok    ' if kept else 'MISSED'}  at most {LEEWAY} times the budget")
    return 0 if kept else 1


def _rows(table: str, count: int) -> tuple[object, np.ndarray]:
    X, y = load(table)
    rows = np.arange(y.size)
    if count < y.size:
        rows, _ = train_test_split(rows, train_size=count, stratify=y, random_state=0)
    return (X.iloc[rows] if hasattr(X, "iloc") else X[rows]), y[rows]


if __name__ == "__main__":
    sys.exit(main())
