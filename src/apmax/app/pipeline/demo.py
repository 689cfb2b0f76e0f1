"""Ten tasks on data that comes with scikit-learn: one digit among the others.

Six principal components of the images, 10 % positives. A linear model is too simple for some of
the tasks, so it matters which errors it makes. The first two models choose their penalties by
cross-validated average precision over the same folds, the third is a stochastic method with its
defaults; all are judged on a test half that none has seen.
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

from apmax.app.pipeline.comparison import logistic_regression_cv
from apmax.linear.classifier import APClassifier
from apmax.linear.classifier_cv import APClassifierCV
from apmax.metrics import average_precision
from apmax.validation import Floats, Mask

DIGITS, COMPONENTS = 10, 6
HARDEST = 8
STOCHASTIC = "soap-adam"
MODELS = ("logistic regression", "APClassifierCV", STOCHASTIC)


class Task(NamedTuple):
    """The test half of one task, and every model's scores and estimator."""

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
        APClassifier(STOCHASTIC, random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [model.fit(reduce.transform(X), y) for model in models]
    scores = [model.decision_function(reduce.transform(X_test)) for model in fitted]
    return Task(y_test, scores, fitted)


def ap_table(tasks: list[Task]) -> dict[str, list[float]]:
    """Test AP of every model on every task, and the means."""
    rows = {
        f"digit {digit}": [average_precision(task.y, scores) for scores in task.scores]
        for digit, task in enumerate(tasks)
    }
    return {**rows, "mean": np.mean(list(rows.values()), axis=0).tolist()}
