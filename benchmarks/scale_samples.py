"""What samples of negatives cost linear models, and how wide the interval of a histogram is.

``python -m benchmarks.scale_samples`` writes
``docs/results/scale_samples.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any
from unittest import mock

import numpy as np

from apmax import APClassifier, average_precision
from apmax.scale import ranking
from benchmarks.scale import FEATURES, rare
from benchmarks.timing import RESULTS

ROWS = 2_000_000
FEW = 1_500
PER_POSITIVE, NEGATIVES = 10, 200_000
SEEDS = range(3)
PARTS = 8
"""Parts of the data of the interval."""


def fitted(X: np.ndarray, y: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> APClassifier:
    model = APClassifier()
    model.fit(X[rows], y[rows], sample_weight=weight)
    return model


def of_sample(X: np.ndarray, y: np.ndarray, negatives: int, seed: int) -> APClassifier:
    """Fit all positives and weighted random negatives."""
    against = np.flatnonzero(~y)
    drawn = np.random.default_rng(seed).choice(against, negatives, replace=False)
    rows = np.sort(np.append(np.flatnonzero(y), drawn))
    return fitted(X, y, rows, np.where(y[rows], 1.0, against.size / negatives))


def samples() -> Iterator[dict[str, Any]]:
    """Test AP of models of all rows and of samples, with many positives and with few."""
    X, y = rare(ROWS, 0)
    X_test, y_test = rare(ROWS, 1)
    for positives in (int(y.sum()), FEW):
        kept = np.random.default_rng(0).choice(np.flatnonzero(y), positives, replace=False)
        rows = np.sort(np.append(np.flatnonzero(~y), kept))
        train, labels = X[rows], y[rows]

        def ap(model: APClassifier) -> float:
            return round(average_precision(y_test, model.decision_function(X_test)), 4)

        everything = np.arange(rows.size)
        sizes = (PER_POSITIVE * positives, NEGATIVES)
        yield {
            "rows": rows.size,
            "columns": FEATURES,
            "positives": positives,
            "all_rows": ap(fitted(train, labels, everything, np.ones(rows.size))),
            "samples": [
                {"negatives": n, "test_ap": [ap(of_sample(train, labels, n, s)) for s in SEEDS]}
                for n in sizes
            ],
        }


def interval_width(positives: int) -> float:
    """Width of the interval that the metric of Dask collections has for many positives."""
    rng = np.random.default_rng(0)
    y = rng.random(5 * positives) < 0.2
    scores = rng.normal(size=y.size) + y
    parts = [(y[rows], scores[rows], None) for rows in np.array_split(np.arange(y.size), PARTS)]

    def fold(function: Any, merge: Any, *arguments: Any) -> Any:
        return reduce(merge, (function(part, *arguments) for part in parts))

    with mock.patch.object(ranking, "MOST_POSITIVES", 10):
        found = ranking.average_precision_of(fold)
    return float(f"{found.upper - found.lower:.2g}")


def main() -> None:
    stored = {
        "interval": [
            {"positives": count, "width": interval_width(count)} for count in (100_000, 200_000)
        ],
        "samples": list(samples()),
    }
    print(json.dumps(stored, indent=1))
    (RESULTS / "scale_samples.json").write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
