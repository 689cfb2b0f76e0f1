"""Train a model on a data set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
from apmax.validation import Floats

FOLDS = 5
MAX_REST_LABELS = 100
FITTED = ("coef_", "intercept_", "n_features_in_")
"""Attributes of a fitted linear classifier that predictions need."""


@dataclass(frozen=True)
class TrainedModel:
    """A model, the estimator that it came from, and warnings about the training data."""

    model: Model
    estimator: Any
    warnings: tuple[str, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether the fit was stopped by Ctrl-C."""
        return bool(getattr(self.result, "interrupted", False))

    @property
    def result(self) -> Any:
        """The FitResult of the estimator."""
        return getattr(self.estimator, "result_", None)

    @property
    def history(self) -> dict[str, Floats] | None:
        """AP during the fit, for estimators that record it."""
        return getattr(self.estimator, "history_", None)

    def with_facts(self, facts: dict[str, Any]) -> TrainedModel:
        """Add facts to the model."""
        return replace(self, model=replace(self.model, facts={**self.model.facts, **facts}))


def make_estimator(solver: str = "cv", *, seed: int = 0, rarer: int = FOLDS) -> Any:
    """Return the estimator for a solver.

    Parameters
    ----------
    solver : str
        "cv" (also "auto") chooses penalties by cross-validation; "lbfgs" fits once; other names
        are stochastic methods of `apmax.methods.METHODS`.
    seed : int
        Random seed of the stochastic methods.
    rarer : int
        Number of rows of the rarer class. With one row there is no cross-validation.
    """
    Registry("solver", dict.fromkeys(("auto", "cv", "lbfgs", *METHODS))).choose(solver)
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
    estimator.fit(X, y)
    positive, negative = str(dataset.positive), str(dataset.negative)
    classifier = clone(estimator)  # without what the fit leaves behind
    for name in FITTED:
        setattr(classifier, name, getattr(estimator, name))
    classifier.classes_ = np.array([negative, positive])
    steps = [("features", encoder)] if encoder is not None else []
    result = getattr(estimator, "result_", None)
    facts = {
        "rows": int(y.size),
        "positives": int(y.sum()),
        "features": int(X.shape[1]),
        "solver": solver,
        "converged": bool(getattr(result, "converged", True)),
    }
    model = Model(
        Pipeline([*steps, ("classifier", classifier)]),
        positive,
        negative,
        dataset.target,
        _rest_labels(dataset),
        facts,
    )
    found = [] if encoder is None else training_warnings(encoder, dataset.X)
    return TrainedModel(model, estimator, tuple(found))


def hold_out(dataset: Dataset, *, seed: int = 0, share: float = 0.2) -> tuple[Dataset, Dataset]:
    """Split a data set into a training and a test part with the same share of positives."""
    y = dataset.labels()
    rng = np.random.default_rng(seed)
    test = np.zeros(y.size, dtype=bool)
    for rows in (np.flatnonzero(y), np.flatnonzero(~y)):
        if rows.size < 2:
            raise ParameterError(
                "a class has only one row, so none can be held out: give --test data with both "
                "classes"
            )
        test[rng.permutation(rows)[: _test_rows(rows, share)]] = True
    return dataset.rows(~test), dataset.rows(test)


def _test_rows(rows: NDArray[Any], share: float) -> int:
    return min(max(1, round(share * rows.size)), rows.size - 1)


def _rest_labels(dataset: Dataset) -> list[str] | None:
    if not dataset.against_rest:
        return None
    others = [str(label) for label in dataset.counts if label != dataset.positive]
    return others if len(others) <= MAX_REST_LABELS else []
