"""Seconds that AutoAPClassifier takes for a time budget, on tables of different size.

``python -m benchmarks.time_budget`` stores one line per table and budget in
``docs/results/time_budget.json``, and exits with 1 if a fit takes more than 1.2 times its budget.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from apmax import AutoAPClassifier
from benchmarks.tables import load
from benchmarks.timing import RESULTS

TABLES = {"churn": 5_000, "adult": 48_842, "cover": 286_048}
"""Tables, and how many of their rows are used."""
BUDGETS = (10.0, 30.0, 60.0)
LEEWAY = 1.2


def main() -> int:
    AutoAPClassifier(["logistic", "additive"], cv=2).fit(*_rows("churn", 500))  # compiles
    found = []
    for table, rows in TABLES.items():
        X, y = _rows(table, rows)
        for budget in BUDGETS:
            found.append({"table": table, **_fit(X, y, budget)})
            print(found[-1], flush=True)
    (RESULTS / "time_budget.json").write_text(json.dumps(found, indent=1) + "\n")
    kept = all(one["seconds"] <= LEEWAY * one["budget"] for one in found)
    print(f"{'ok    ' if kept else 'MISSED'}  at most {LEEWAY} times the budget")
    return 0 if kept else 1


def _fit(X: Any, y: np.ndarray, budget: float) -> dict[str, Any]:
    load = os.getloadavg()[0]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoAPClassifier(time_budget=budget).fit(X, y)
    seconds = time.perf_counter() - start
    return {
        "rows": y.size,
        "budget": budget,
        "seconds": round(seconds, 1),
        "models": len(model.leaderboard_),
        "rows_used": int(np.isfinite(model.out_of_fold_[model.best_]).sum()),
        "load": round(load, 1),
    }


def _rows(table: str, count: int) -> tuple[Any, np.ndarray]:
    X, y = load(table)
    rows = np.arange(y.size)
    if count < y.size:
        rows, _ = train_test_split(rows, train_size=count, stratify=y, random_state=0)
    return (X.iloc[rows] if hasattr(X, "iloc") else X[rows]), y[rows]


if __name__ == "__main__":
    sys.exit(main())
