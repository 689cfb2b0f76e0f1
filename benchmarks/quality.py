"""Test AP of APClassifierCV beside LogisticRegressionCV and boosted trees, on real data.

``make bench-quality`` runs it. Defaults on our side; the same folds on both; the scale of the
features (unit deviation or [0, 1]) is chosen for logistic regression by its own
cross-validation, as ours chooses it.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from apmax import APClassifierCV, average_precision
from benchmarks.datasets import NAMES, Split, splits

MOST_BELOW, MEAN_ABOVE = 0.003, 0.008


def logistic_regression(split: Split, folds: Any) -> tuple[float, str]:
    """Test AP of the better of two scalings, by cross-validated AP."""
    best: tuple[float, float, str] | None = None
    scalers = (StandardScaler(with_mean=not sp.issparse(split.X)), MaxAbsScaler())
    for scaler in scalers:
        model = LogisticRegressionCV(
            Cs=10,
            cv=folds,
            scoring="average_precision",
            max_iter=2000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        )
        pipeline = make_pipeline(scaler, model).fit(split.X, split.y)
        cross_validated = float(np.max(np.asarray(model.scores_).mean(axis=0)))
        test = average_precision(split.y_test, pipeline.decision_function(split.X_test))
        if best is None or cross_validated > best[0]:
            best = (cross_validated, test, type(scaler).__name__)
    return best[1:] if best else (np.nan, "")


def ours(split: Split, folds: Any) -> tuple[float, str]:
    model = APClassifierCV(cv=folds).fit(split.X, split.y)
    test = average_precision(split.y_test, model.decision_function(split.X_test))
    return test, f"{model.scale_}, C={model.C_:.2g}, α={model.alpha_:g}"


def boosted_trees(split: Split, folds: Any) -> tuple[float, str]:
    dense = [X.toarray() if sp.issparse(X) else X for X in (split.X, split.X_test)]
    model = HistGradientBoostingClassifier(random_state=0).fit(dense[0], split.y)
    return average_precision(split.y_test, model.decision_function(dense[1])), ""


def main() -> int:
    warnings.simplefilter("ignore", ConvergenceWarning)
    names = sys.argv[1:] or NAMES
    sides = (logistic_regression, ours, boosted_trees)
    print(f"{'data':<12} {'logistic':>9} {'apmax':>9} {'gain':>8} {'trees':>9}   chosen, seconds")
    gains = []
    for name in names:
        results, notes, start = [], [], time.perf_counter()
        for split in splits(name):
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
            row = [side(split, folds) for side in sides]
            results.append([test for test, _ in row])
            notes.append(f"{row[0][1]} / {row[1][1]}")
        logistic, ap, trees = np.mean(results, axis=0)
        gains.append(ap - logistic)
        spent = time.perf_counter() - start
        print(
            f"{name:<12} {logistic:>9.4f} {ap:>9.4f} {gains[-1]:>+8.4f} {trees:>9.4f}   "
            f"{notes[0]}, {spent:.0f} s",
            flush=True,
        )
    print(f"{'mean gain':<12} {'':>9} {'':>9} {np.mean(gains):>+8.4f}")
    kept = min(gains) >= -MOST_BELOW and np.mean(gains) >= MEAN_ABOVE
    print(
        f"never more than {MOST_BELOW} below: {'ok' if min(gains) >= -MOST_BELOW else 'MISSED'}; "
        f"at least {MEAN_ABOVE} above on average: "
        f"{'ok' if np.mean(gains) >= MEAN_ABOVE else 'MISSED'}"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
