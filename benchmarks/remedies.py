"""Common remedies for class imbalance, and other boosting libraries, by test AP on the same tables.

``make bench-remedies`` runs what is missing in ``docs/results/remedies.jsonl`` and prints means
over tables. A remedy is compared with the same learner on the same features without it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from apmax import average_precision
from benchmarks.real_data import ROOT, Split
from benchmarks.table_models import LIGHTGBM, plain_features
from benchmarks.tables import TABLES, table_split

RESULTS = ROOT / "docs" / "results" / "remedies.jsonl"
LEARNERS = ("logistic", "lightgbm")
REMEDIES = ("none", "class weights", "SMOTE", "undersampling")
FOCUS = 2.0
"""The exponent γ of the focal loss (Lin et al., 2017)."""

Fit = Callable[[Any, np.ndarray, Any], np.ndarray]


def _logistic(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, weight: Any = None) -> np.ndarray:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(X, y, logisticregression__sample_weight=weight)
    return np.asarray(model.decision_function(X_test))


def _lightgbm(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, weight: Any = None, objective: Any = "binary"
) -> np.ndarray:
    import lightgbm

    parameters = {**LIGHTGBM, "num_leaves": 20, "objective": objective}
    data = lightgbm.Dataset(X, y.astype(np.float64), weight=weight)
    return np.asarray(lightgbm.train(parameters, data, 100).predict(X_test, raw_score=True))


def _focal(scores: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature of −(1 − q)^γ log q, q the probability of the row's own class.

    The curvature is that of a difference quotient, bounded below as boosting needs it.
    """
    sign = 2.0 * data.get_label() - 1.0

    def slope(z: np.ndarray) -> np.ndarray:
        q = expit(sign * z)
        return np.asarray(
            sign * (1 - q) ** FOCUS * (FOCUS * q * np.log(np.maximum(q, 1e-12)) - (1 - q))
        )

    step = 1e-4
    curvature = (slope(scores + step) - slope(scores - step)) / (2 * step)
    return slope(scores), np.maximum(curvature, 1e-3)


def _balanced(y: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(y, 0.5 / y.mean(), 0.5 / (1 - y.mean())))


def _remedied(fit: Callable[..., np.ndarray], remedy: str) -> Fit:
    def run(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
        if remedy == "none":
            return fit(X, y, X_test)
        if remedy == "class weights":
            return fit(X, y, X_test, _balanced(y))
        if remedy == "focal loss":
            return fit(X, y, X_test, None, _focal)
        from imblearn.over_sampling import SMOTE
        from imblearn.under_sampling import RandomUnderSampler

        sampler = RandomUnderSampler(random_state=0)
        if remedy == "SMOTE":
            sampler = SMOTE(random_state=0, k_neighbors=min(5, int(y.sum()) - 1))
        if y.mean() >= 0.5:
            return fit(X, y, X_test)
        sampled, labels = sampler.fit_resample(X, y)
        return fit(sampled, labels, X_test)

    return run


def _xgboost(X: Any, y: np.ndarray, X_test: Any) -> np.ndarray:
    from xgboost import XGBClassifier

    model = XGBClassifier(n_jobs=1, random_state=0).fit(X, y)
    return np.asarray(model.predict_proba(X_test)[:, 1])


def _catboost(X: Any, y: np.ndarray, X_test: Any) -> np.ndarray:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(thread_count=1, random_seed=0, verbose=0, allow_writing_files=False)
    return np.asarray(model.fit(X, y).predict_proba(X_test)[:, 1])


METHODS: dict[str, Fit] = {
    f"{learner}, {remedy}": _remedied(fit, remedy)
    for learner, fit in (("logistic", _logistic), ("lightgbm", _lightgbm))
    for remedy in (*REMEDIES, *(("focal loss",) if learner == "lightgbm" else ()))
}
"""A learner and a remedy: both read numbers, with indicators for categories."""
METHODS |= {"xgboost": _xgboost, "catboost": _catboost}


def features(split: Split) -> tuple[Any, Any]:
    """Return both parts as numbers: missing values imputed and indicated, categories indicated."""
    import pandas as pd

    frames = [
        X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).rename(columns=str)
        for X in (split.X, split.X_test)
    ]
    encoder = plain_features().fit(frames[0])
    return encoder.transform(frames[0]), encoder.transform(frames[1])


def run(tables: Sequence[str], seeds: int, minutes: float, path: Path) -> None:
    """Fit and store what is missing."""
    start, done = (
        time.monotonic(),
        {(one["table"], one["seed"], one["method"]) for one in read(path)},
    )
    for seed in range(seeds):
        for table in tables:
            missing = [name for name in METHODS if (table, seed, name) not in done]
            if not missing:
                continue
            split = table_split(table, seed)
            X, X_test = features(split)
            for name in missing:
                if time.monotonic() - start > 60 * minutes:
                    return
                began = time.process_time()
                with threadpool_limits(1):
                    scores = METHODS[name](X, split.y, X_test)
                line: dict[str, Any] = {"table": table, "seed": seed, "method": name}
                line |= {"rows": int(split.y.size), "positives": int(split.y.sum())}
                line["ap"] = round(average_precision(split.y_test, scores), 6)
                line["cpu"] = round(time.process_time() - began, 3)
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(*line.values(), flush=True)


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the stored lines."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def gains(lines: list[dict[str, Any]], method: str, baseline: str) -> dict[str, float]:
    """Return the gain in AP of a method over another, by table: means over the shared splits."""
    ap = {(one["method"], one["table"], one["seed"]): one["ap"] for one in lines}
    by_table: dict[str, list[float]] = {}
    for (name, table, seed), value in ap.items():
        if name == method and (baseline, table, seed) in ap:
            by_table.setdefault(table, []).append(value - ap[baseline, table, seed])
    return {table: float(np.mean(values)) for table, values in by_table.items()}


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean gain ± standard error over tables of each remedy over its learner without it."""
    rows = []
    for name in METHODS:
        learner, _, remedy = name.partition(", ")
        if remedy in ("", "none"):
            continue
        found = np.array([*gains(lines, name, f"{learner}, none").values()])
        if found.size > 1:
            error = float(found.std(ddof=1) / np.sqrt(found.size))
            mean = float(found.mean())
            up = int((found > 0).sum())
            rows.append(
                {"learner": learner, "remedy": remedy, "mean": mean, "error": error, "up": up}
                | {"tables": int(found.size)}
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remedies", description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=3, help="splits per table")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no fit after this")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    run(options.tables, options.seeds, options.minutes, options.results)
    for row in summary(read(options.results)):
        print(
            f"{row['learner']:<9} {row['remedy']:<14} {row['mean']:+.4f} ± {row['error']:.4f}  "
            f"up on {row['up']} of {row['tables']} tables"
        )


if __name__ == "__main__":
    main()
