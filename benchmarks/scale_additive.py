"""Additive models of more rows than memory holds: coefficients of a sample and of all rows.

``python -m benchmarks.scale_additive`` fits both from the same files and samples, and scores them
on other rows. Two real tables of ``APMAX_DATA`` keep 500 of their positives in training. Results go
to docs/results/scale_additive.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import FEATURES
from benchmarks.timing import RESULTS

REAL, POSITIVES = ("cover", "celeba_bald"), 500
SYNTHETIC_ROWS, OFFSET = 2_000_000, -8.95
SAMPLES = {"synthetic": (50_000, 200_000)} | dict.fromkeys(REAL, (10_000, 40_000))
"""Rows of the samples."""
SEEDS = 3
PART = 100_000
Rows = tuple[np.ndarray, np.ndarray]


def synthetic(seed: int) -> Rows:
    """Normal features; the log-odds are linear in five of them, with curves of three others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((SYNTHETIC_ROWS, FEATURES), dtype=np.float32)
    log_odds = X[:, :5] @ np.array([1, 0.8, 0.6, 0.4, 0.2], np.float32) + 0.3 * X[:, 0] ** 2
    log_odds += 0.8 * np.sin(2 * X[:, 5]) - 0.7 * np.abs(X[:, 6]) + OFFSET
    return X, rng.random(SYNTHETIC_ROWS) < 1 / (1 + np.exp(-log_odds))


def real(name: str, seed: int) -> tuple[Rows, Rows]:
    """Return halves of a table for training, with few positives, and for the test."""
    with np.load(Path(os.environ["APMAX_DATA"]) / "tabular" / f"{name}.npz") as stored:
        X, y = stored["X"].astype(np.float32), stored["y"].ravel().astype(bool)
    rng = np.random.default_rng(seed)
    half = rng.random(y.size) < 0.5
    kept = half.copy()
    positives = np.flatnonzero(half & y)
    kept[rng.choice(positives, positives.size - POSITIVES, replace=False)] = False
    return (X[kept], y[kept]), (X[~half], y[~half])


def sets(seed: int) -> Iterator[tuple[str, Rows, Rows]]:
    for name in REAL:
        yield name, *real(name, seed)
    yield "synthetic", synthetic(2 * seed), synthetic(2 * seed + 1)


def write(folder: str, X: np.ndarray, y: np.ndarray) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**{f"x{k}": X[:, k] for k in range(X.shape[1])}, "y": y})
    pq.write_table(table, Path(folder) / "rows.parquet", row_group_size=PART)
    return folder


def ap_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    import pandas as pd

    from apmax import average_precision

    names = list(model.feature_names_in_)
    scores = [
        model.decision_function(pd.DataFrame(X[k : k + PART], columns=names))
        for k in range(0, y.size, PART)
    ]
    return float(average_precision(y, np.concatenate(scores)))


def measured(name: str, train: Rows, test: Rows, rows: int, seed: int) -> dict[str, Any]:
    from apmax import AdditiveAPClassifier

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = write(folder, *train)
        model, start = AdditiveAPClassifier(), time.process_time()
        model._fit_sample(files, "y", None, None, rows, seed)
        of_sample, ap = time.process_time() - start, ap_of(model, *test)
        start = time.process_time()
        model._refit(files, "y", None, None, None)
        of_all, ap_of_all = time.process_time() - start, ap_of(model, *test)
    return {
        "table": name, "rows": int(train[1].size), "columns": int(train[0].shape[1]),
        "positives": int(train[1].sum()), "sample": rows, "seed": seed,
        "functions": int(model.linear_.coef_.size),
        "ap_sample": round(ap, 4), "ap_all_rows": round(ap_of_all, 4),
        "cpu_sample": round(of_sample, 1), "cpu_all_rows": round(of_all, 1),
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def main() -> None:
    if "APMAX_DATA" not in os.environ:
        sys.exit("set APMAX_DATA to the folder with tabular/cover.npz and tabular/celeba_bald.npz")
    found = []
    for seed in range(SEEDS):
        for name, train, test in sets(seed):
            for rows in SAMPLES[name]:
                found.append(measured(name, train, test, rows, seed))
                print(json.dumps(found[-1]), flush=True)
                lines = ",\n ".join(map(json.dumps, found))
                (RESULTS / "scale_additive.json").write_text(f"[\n {lines}\n]\n")


if __name__ == "__main__":
    main()
