"""Train a model on a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import apmax
from apmax.app.drift import training_warnings
from apmax.app.features import TableEncoder
from apmax.app.io import Dataset
from apmax.app.model import Model
from apmax.errors import ParameterError
from apmax.methods import METHODS
from apmax.registry import Registry
from apmax.splits import make_splits

FOLDS = 5
FITTED = ("coef_", "intercept_", "n_features_in_")
"""Attributes of a fitted linear classifier that predictions need."""


@dataclass(frozen=True)
class TrainedModel:
    """A model, warnings about the training data, and how the fit ended."""

    model: Model
    warnings: list[str]
    interrupted: bool
    message: str


def make_estimator(solver: str = "cv", *, seed: int = 0, rarer: int = FOLDS) -> Any:
    """Return the estimator: "cv", "lbfgs", or a name of `apmax.methods.METHODS`.

    With one row in the rarer class there is no cross-validation.
    """
    Registry("solver", dict.fromkeys(("cv", "lbfgs", *METHODS))).choose(solver)
    if solver in METHODS:
        return apmax.StochasticAPClassifier(
            solver, random_state=seed, early_stopping=True, n_iter_no_change=20
        )
    return apmax.APClassifierCV() if solver != "lbfgs" and rarer > 1 else apmax.APClassifier()


def train_model(
    dataset: Dataset, *, solver: str = "cv", seed: int = 0, on_progress: Any = None
) -> TrainedModel:
    """Encode a data set and fit a classifier to it."""
    y = dataset.labels()
    encoder = TableEncoder().fit(dataset.X) if dataset.is_table else None
    X = dataset.X if encoder is None else encoder.transform(dataset.X)
    estimator = make_estimator(solver, seed=seed, rarer=int(min(y.sum(), (~y).sum())))
    estimator.on_progress = on_progress
    folds = {"groups": dataset.groups} if isinstance(estimator, apmax.APClassifierCV) else {}
    estimator.fit(X, y, sample_weight=dataset.weight, **folds)
    positive, negative = str(dataset.positive), str(dataset.negative)
    classifier = clone(estimator)  # without what the fit leaves behind
    for name in FITTED:
        setattr(classifier, name, getattr(estimator, name))
    classifier.classes_, classifier.pos_label_ = np.array([negative, positive]), positive
    steps = [("features", encoder)] if encoder is not None else []
    result = estimator.result_
    facts = {
        "rows": int(y.size),
        "positives": int(y.sum()),
        "features": int(X.shape[1]),
        "solver": solver,
        "converged": result.converged,
    }
    model = Model(
        Pipeline([*steps, ("classifier", classifier)]),
        positive,
        negative,
        dataset.target,
        dataset.against_rest,
        facts,
        None if dataset.ids is None else str(dataset.ids.name),
        {name: one for name, one in dataset.formats.items() if name in dataset.X},
    )
    found = [] if encoder is None else training_warnings(encoder, dataset.X)
    return TrainedModel(model, found, result.interrupted, result.message)


def hold_out(dataset: Dataset, *, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split off a fifth of the rows of each class, and at least one, for testing.

    With groups, the test rows are about a fifth of the groups.
    """
    y = dataset.labels()
    if dataset.groups is not None:
        splits = make_splits(None, dataset.X, y, dataset.weight, dataset.groups)
        learnt, tested = splits[seed % len(splits)]
        return dataset.rows(learnt), dataset.rows(tested)
    rng = np.random.default_rng(seed)
    test = np.zeros(y.size, dtype=bool)
    for rows in (np.flatnonzero(y), np.flatnonzero(~y)):
        if rows.size < 2:
            raise ParameterError("a class has only one row: give --test data with both classes")
        test[rng.permutation(rows)[: max(1, round(0.2 * rows.size))]] = True
    return dataset.rows(~test), dataset.rows(test)
