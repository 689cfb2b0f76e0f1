"""CPU time of predictions of models of tables, for one row and for many.

``python -m benchmarks.prediction_time`` trains on a table of customers (churn) and stores the
times in ``docs/results/prediction_time.json``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier

from apmax import AutoAPClassifier
from benchmarks.tables import load
from benchmarks.timing import RESULTS, medians

MODELS = ("logistic", "additive", "boosting-20x100", "stack")
TRAINING_ROWS, ROWS, REPEATS = 3_000, 10_000, 15


def main() -> None:
    X, y = load("churn")
    train, many, one = X[:TRAINING_ROWS], X.sample(ROWS, replace=True, random_state=0), X[:1]
    fitted: dict[str, Any] = {
        name: AutoAPClassifier(models, select=name).fit(train, y[:TRAINING_ROWS])
        for name, models in [*((name, [name]) for name in MODELS[:-1]), ("stack", None)]
    }
    boosting = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    fitted["hgb"] = boosting.fit(train, y[:TRAINING_ROWS])
    calls = [
        lambda model=model, rows=rows: model.predict_proba(rows)
        for model in fitted.values()
        for rows in (one, many)
    ]
    times = medians(REPEATS, *calls)
    stored = {
        "columns": X.shape[1],
        "rows": ROWS,
        "load": round(os.getloadavg()[0], 1),
        "seconds": {
            name: [round(value, 5) for value in times[2 * k : 2 * k + 2]]
            for k, name in enumerate(fitted)
        },
    }
    print(json.dumps(stored, indent=1))
    (RESULTS / "prediction_time.json").write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
