"""Data and models of `apmax demo`: find one digit among the others.

Ten tasks on six principal components of scikit-learn's digits, with 10 % positives each. All
models are tested on a half of the data that none has seen.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apmax import APClassifierCV, StochasticAPClassifier, average_precision
from apmax.app.leaderboard import logistic_regression_cv
from apmax.validation import Floats, Mask

DIGITS, COMPONENTS = 10, 6
REPORTED_DIGIT = 8
METHOD = "soap-adam"
MODELS = ("logistic regression", "APClassifierCV", METHOD)


class Task(NamedTuple):
    """The test labels of one task, and the scores and estimators of all models."""

    y: Mask
    scores: list[Floats]
    estimators: list[Any]


def run_task(digit: int) -> Task:
    """Train all models to find one digit."""
    data, target = load_digits(return_X_y=True)
    y = target == digit
    X, X_test, y, y_test = train_test_split(data, y, test_size=0.5, stratify=y, random_state=digit)
    reduce = make_pipeline(PCA(COMPONENTS, random_state=0), StandardScaler()).fit(X)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    models: list[Any] = [
        logistic_regression_cv(folds),
        APClassifierCV(cv=folds),
        StochasticAPClassifier(METHOD, random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [model.fit(reduce.transform(X), y) for model in models]
    return Task(y_test, [m.decision_function(reduce.transform(X_test)) for m in fitted], fitted)


def ap_table(tasks: list[Task]) -> dict[str, list[float]]:
    """Return the test AP of every model on every task, and the means."""
    rows = {
        f"digit {digit}": [average_precision(task.y, scores) for scores in task.scores]
        for digit, task in enumerate(tasks)
    }
    return {**rows, "mean": np.mean(list(rows.values()), axis=0).tolist()}
