"""CPU time and memory of models of tables by the number of rows, and of wide sparse data.

``python -m benchmarks.table_size`` fits synthetic data, each in a process of its own with one
thread, and stores the results in ``docs/results/table_size.json``. Stored fits are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from benchmarks.timing import RESULTS

NUMBERS, CATEGORIES, TEST_ROWS = 9, 3, 100_000
WORDS, PER_ROW = 10**6, 50
FITS: tuple[tuple[str, int, float | None], ...] = (
    ("auto", 20_000, None),
    ("auto", 50_000, None),
    ("additive", 10**5, None),
    ("auto", 10**5, None),
    ("additive", 10**6, None),
    ("auto", 10**6, 600.0),
    ("sparse", 20_000, None),
)
"""Model, training rows and time budget of each fit."""


def table(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers with heavy tails and missing values, categories, and 2 % positives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, NUMBERS))
    levels = rng.integers(0, 12, (rows, CATEGORIES))
    log_odds = (
        X[:, :4] @ np.array([1.0, 0.7, 0.5, 0.3])
        + np.abs(X[:, 4])
        + 0.6 * X[:, 5] * X[:, 6]
        + 0.2 * levels[:, 0]
        - 7.2
    )
    y = rng.random(rows) < 1 / (1 + np.exp(-log_odds))
    X[:, ::2] = np.exp(X[:, ::2])
    X[rng.random(X.shape) < 0.03] = np.nan
    frame = pd.DataFrame(X, columns=[f"number_{k}" for k in range(NUMBERS)])
    for k in range(CATEGORIES):
        frame[f"category_{k}"] = pd.Categorical.from_codes(
            levels[:, k], [f"level {level}" for level in range(12)]
        )
    return frame, y


def sparse(rows: int, seed: int) -> tuple[csr_array, np.ndarray]:
    """Return counts of 50 words per row out of 10^6, with Zipf's frequencies, and few positives."""
    rng = np.random.default_rng(seed)
    words = (WORDS ** rng.random((rows, PER_ROW))).astype(np.int32)
    starts = PER_ROW * np.arange(rows + 1)
    X = csr_array((np.ones(words.size), words.ravel(), starts), shape=(rows, WORDS))
    X.sum_duplicates()
    weights = np.random.default_rng(0).normal(scale=0.4, size=WORDS)
    y = rng.random(rows) < 1 / (1 + np.exp(5 - X @ weights))
    return X, y


def fit_sparse(rows: int) -> dict[str, Any]:
    """Fit ``APClassifierCV`` to wide sparse data and return its costs and test AP."""
    from apmax import APClassifierCV

    APClassifierCV(cv=2).fit(*sparse(5000, 2))  # compiles
    X, y = sparse(rows, 0)
    before = _cpu()
    model = APClassifierCV().fit(X, y)
    return {
        "model": "sparse",
        "rows": rows,
        "columns": X.shape[1],
        "entries": int(X.nnz),
        "positives": int(y.sum()),
        "budget": None,
        "cpu": round(_cpu() - before, 1),
        "load": round(os.getloadavg()[0], 1),
        "peak_bytes": _peak(),
        "test_ap": round(float(model.score(*sparse(rows, 1))), 4),
    }


def fit(name: str, rows: int, budget: float | None) -> dict[str, Any]:
    """Fit one model in this process and return its costs and test AP."""
    from apmax import AdditiveAPClassifier, AutoAPClassifier

    AdditiveAPClassifier(cv=2).fit(*table(5000, 2))  # compiles
    X, y = table(rows, 0)
    auto = AutoAPClassifier(time_budget=budget)
    model = AdditiveAPClassifier() if name == "additive" else auto
    before = _cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    found: dict[str, Any] = {
        "model": name,
        "rows": rows,
        "columns": X.shape[1],
        "positives": int(y.sum()),
        "budget": budget,
        "cpu": round(_cpu() - before, 1),
        "load": round(os.getloadavg()[0], 1),
        "table_bytes": int(X.memory_usage(deep=True).sum()),
        "peak_bytes": _peak(),
        "test_ap": round(float(model.score(*table(TEST_ROWS, 1))), 4),
    }
    if isinstance(model, AutoAPClassifier):
        held_out = np.isfinite(np.stack(list(model.out_of_fold_.values()))).any(axis=0)
        found |= {
            "chosen": model.best_,
            "models": sorted(model.out_of_fold_),
            "rows_used": int(held_out.sum()),
        }
    return found


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _peak() -> int:
    """Return the peak of the resident memory; not ru_maxrss, which a child inherits."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", help="fit in this process: a line of FITS as JSON")
    one = parser.parse_args().one
    if one:
        name, rows, budget = json.loads(one)
        print(json.dumps(fit_sparse(rows) if name == "sparse" else fit(name, rows, budget)))
        return
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    file = RESULTS / "table_size.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    known = [(line["model"], line["rows"], line["budget"]) for line in found]
    for line in FITS:
        if line in known:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.table_size", "--one", json.dumps(line)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict.fromkeys(threads, "1"),
        )
        found.append(json.loads(done.stdout))
        print(found[-1], flush=True)
        order = {(name, rows): place for place, (name, rows, _) in enumerate(FITS)}
        found.sort(key=lambda line: order[line["model"], line["rows"]])
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
