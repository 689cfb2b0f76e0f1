"""Logistic regression and APClassifierCV side by side, on data that comes with scikit-learn.

Ten tasks: find one handwritten digit among the others, 10 % of all, from six principal
components. A linear model is too simple for some of them, so it matters which errors it
makes. Both models choose their penalties by cross-validated average precision over the same
folds, and are judged on a test half that neither has seen.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apmax import APClassifierCV, average_precision, precision_recall_curve

REPORT = Path("demo-report")
NAMES = ("logistic regression", "APClassifierCV")
Scored = tuple[np.ndarray, list[np.ndarray]]
"""Test labels, and the test scores of each model."""


def run_task(digit: int) -> Scored:
    data, target = load_digits(return_X_y=True)
    y = target == digit
    X, X_test, y, y_test = train_test_split(data, y, test_size=0.5, stratify=y, random_state=digit)
    reduce = make_pipeline(PCA(6, random_state=0), StandardScaler()).fit(X)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    models: list[Any] = [
        LogisticRegressionCV(
            cv=folds, scoring="average_precision", l1_ratios=(0.0,), use_legacy_attributes=False
        ),
        APClassifierCV(cv=folds),
    ]
    fitted = [model.fit(reduce.transform(X), y) for model in models]
    return y_test, [model.decision_function(reduce.transform(X_test)) for model in fitted]


def comparison(tasks: list[Scored]) -> str:
    results = np.array([[average_precision(y, s) for s in scores] for y, scores in tasks])
    lines = [f"{'task':<10} {NAMES[0]:>20} {NAMES[1]:>15} {'gain':>8}"]
    labels = [*(f"digit {digit}" for digit in range(len(tasks))), "mean"]
    for label, (old, new) in zip(labels, [*results, results.mean(axis=0)], strict=True):
        lines.append(f"{label:<10} {old:>20.3f} {new:>15.3f} {new - old:>+8.3f}")
    return "\n".join(lines)


def write_report(tasks: list[Scored], table: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    REPORT.mkdir(exist_ok=True)
    (REPORT / "table.txt").write_text(table + "\n")
    figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
    y = np.concatenate([labels for labels, _ in tasks])
    for k, colour in enumerate(("#0072B2", "#D55E00")):
        # Tasks have scores of different scale, so their ranks are pooled.
        ranks = [np.argsort(np.argsort(scores[k])) / scores[k].size for _, scores in tasks]
        curve = precision_recall_curve(y, np.concatenate(ranks))
        label = f"{NAMES[k]}, AP {average_precision(y, np.concatenate(ranks)):.3f}"
        found = curve.recall > 0
        axes.plot(curve.recall[found], curve.precision[found], label=label, color=colour)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("One digit of ten, all ten test sets pooled")
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(REPORT / "precision-recall.png", dpi=150)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    start = time.perf_counter()
    tasks = []
    for digit in range(10):
        if sys.stderr.isatty():
            print(f"\rdigit {digit} of 0-9 …\033[K", end="", file=sys.stderr, flush=True)
        tasks.append(run_task(digit))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    table = comparison(tasks)
    print("Average precision on unseen test halves, 10 % positives:\n")
    print(table)
    write_report(tasks, table)
    seconds = time.perf_counter() - start
    print(f"\nWrote {REPORT}/table.txt and {REPORT}/precision-recall.png in {seconds:.0f} s.")


if __name__ == "__main__":
    main()
