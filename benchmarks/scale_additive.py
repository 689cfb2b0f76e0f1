"""Additive models of more rows than memory holds: coefficients of a sample and of all rows.

``python -m benchmarks.scale_additive`` fits both from the same files and samples, and scores them
on other rows. Two real tables of ``APMAX_DATA`` keep 500 of their positives in training. ``--cost``
measures memory and CPU time by the number of rows instead, with and without a copy of the rows.
Results go to docs/results/scale_additive.json and scale_additive_cost.json.
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

from benchmarks.scale import FEATURES, PEAK, run, write_parquet
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
    """Return halves of a table: for training, with few random positives, and for the test.

    The test half is the same for every seed, and no choice was made on it.
    """
    with np.load(Path(os.environ["APMAX_DATA"]) / "tabular" / f"{name}.npz") as stored:
        X, y = stored["X"].astype(np.float32), stored["y"].ravel().astype(bool)
    half = np.random.default_rng(99).random(y.size) < 0.5
    kept = half.copy()
    positives = np.flatnonzero(half & y)
    kept[
        np.random.default_rng(seed).choice(positives, positives.size - POSITIVES, replace=False)
    ] = False
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
    from apmax.scale.files import RawFiles

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = RawFiles(write(folder, *train), "y")
        model, start = AdditiveAPClassifier(), time.process_time()
        model._fit_sample(source, rows, seed)
        of_sample, ap = time.process_time() - start, ap_of(model, *test)
        start = time.process_time()
        model._refit(source, None)
        of_all, ap_of_all = time.process_time() - start, ap_of(model, *test)
    return {
        "table": name, "rows": int(train[1].size), "columns": int(train[0].shape[1]),
        "positives": int(train[1].sum()), "sample": rows, "seed": seed,
        "functions": int(model.linear_.coef_.size),
        "ap_sample": round(ap, 4), "ap_all_rows": round(ap_of_all, 4),
        "cpu_sample": round(of_sample, 1), "cpu_all_rows": round(of_all, 1),
        **_circumstances(),
    }  # fmt: skip


FIT = (
    PEAK
    + """
import json, sys, time, warnings
from apmax import AdditiveAPClassifier
from apmax.scale.files import RawFiles
warnings.simplefilter("ignore")
model = AdditiveAPClassifier(interactions=10)
source = RawFiles(sys.argv[1], "y")
model._fit_sample(source, 50_000, 0)
start = time.process_time()
model._refit(source, json.loads(sys.argv[2]))
print(json.dumps({"cpu": time.process_time() - start, "peak_mb": peak(),
    "functions": model.linear_.coef_.size}))
"""
)


def costs() -> Iterator[dict[str, Any]]:
    for rows, cache in ((1_000_000, True), (4_000_000, True), (200_000, True), (200_000, False)):
        with tempfile.TemporaryDirectory() as folder:
            files = write_parquet(Path(folder), rows)
            found = run(FIT, files, json.dumps(folder if cache else False))
        yield {
            "rows": rows, "columns": FEATURES, "sample": 50_000, "copy": cache,
            "functions": found["functions"], "cpu": round(found["cpu"], 1),
            "peak_mb": round(found["peak_mb"]), **_circumstances(),
        }  # fmt: skip


def _circumstances() -> dict[str, Any]:
    load = round(os.getloadavg()[0], 1)
    return {"load": load, "date": datetime.now(UTC).date().isoformat()}


def main() -> None:
    if sys.argv[1:] == ["--cost"]:
        store("scale_additive_cost", costs())
        return
    if "APMAX_DATA" not in os.environ:
        sys.exit("set APMAX_DATA to the folder with tabular/cover.npz and tabular/celeba_bald.npz")
    store(
        "scale_additive",
        (
            measured(name, train, test, rows, seed)
            for seed in range(SEEDS)
            for name, train, test in sets(seed)
            for rows in SAMPLES[name]
        ),
    )


def store(name: str, lines: Iterator[dict[str, Any]]) -> None:
    """Print and store results as they come."""
    found = []
    for line in lines:
        found.append(json.dumps(line))
        print(found[-1], flush=True)
        (RESULTS / f"{name}.json").write_text("[\n " + ",\n ".join(found) + "\n]\n")


if __name__ == "__main__":
    main()
