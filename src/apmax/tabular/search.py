"""Fits of the library on the folds, within a time budget."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import config_context
from threadpoolctl import threadpool_limits

from apmax.interrupts import raise_if_interrupted
from apmax.metrics import ap_of_scores
from apmax.splits import Split
from apmax.tabular.additive import AdditiveAPClassifier
from apmax.tabular.library import ADDITIVE, Shape, fit_model, log_odds
from apmax.tabular.sampling import restricted, sample_rows
from apmax.validation import Floats, Mask

logger = logging.getLogger("apmax")


class TrainingTable(NamedTuple):
    """Data of all fits: rows as given for the additive model, and the matrix for the others."""

    X: Any
    matrix: Floats
    shape: Shape
    positive: Mask
    weight: Floats | None
    categorical_features: Any

    def rows(self, which: NDArray[np.intp], weight: Floats | None) -> TrainingTable:
        """Return some of the rows, with these weights."""
        return self._replace(
            X=take_rows(self.X, which),
            matrix=self.matrix[which],
            positive=self.positive[which],
            weight=weight,
        )


class Candidate(NamedTuple):
    """A model on all folds."""

    name: str
    log_odds: Floats
    """Held-out log-odds of each row; NaN for rows that are never held out."""
    models: list[Any]
    """Fitted estimators whose log-odds are averaged."""
    seconds: float


def take_rows(X: Any, which: Any) -> Any:
    """Return rows of an array or a frame."""
    if hasattr(X, "iloc"):
        return X.iloc[which]
    return X[np.asarray(which)]


class Search:
    """Fits candidates one after another, each on all folds."""

    def __init__(
        self, data: TrainingTable, splits: Sequence[Split], *, seed: int, n_jobs: int | None
    ) -> None:
        self.data, self.splits = data, splits
        self.seed, self.n_jobs = seed, n_jobs
        held_out = np.concatenate([test for _, test in splits])
        # If every row is held out exactly once, the models of the folds can be averaged.
        self.partition = np.unique(held_out).size == held_out.size == data.positive.size

    def sampled(self, count: int) -> Search:
        """Return a search on a weighted sample of rows, with the same splits restricted to it."""
        data = self.data
        rows, weight = sample_rows(data.positive, data.weight, count, self.seed)
        splits = restricted(self.splits, rows, data.positive.size)
        return Search(data.rows(rows, weight), splits, seed=self.seed, n_jobs=self.n_jobs)

    def pilot(self, name: str, count: int) -> float:
        """Return the seconds of one fit to a sample of rows."""
        data = self.sampled(count).data
        start = time.perf_counter()
        if name == ADDITIVE:
            _fit_additive(data, None, self.n_jobs)
        else:
            arguments = (data.matrix, data.positive, data.weight, data.shape, self.seed)
            _fit_rows(name, np.arange(data.positive.size), *arguments)
        return time.perf_counter() - start

    def fit(self, name: str) -> Candidate:
        """Fit a model on each fold, or the additive model with its own cross-validation."""
        start = time.perf_counter()
        found, models = self._additive() if name == ADDITIVE else self._over_folds(name)
        seconds = time.perf_counter() - start
        logger.info("%s: %.1f s", name, seconds)
        return Candidate(name, found, models, seconds)

    def average_precision(self, candidate: Candidate) -> float:
        """Return the mean AP over the folds."""
        data = self.data
        ap = [
            ap_of_scores(
                data.positive[test],
                candidate.log_odds[test],
                None if data.weight is None else data.weight[test],
            )
            for _, test in self.splits
        ]
        return float(np.mean(ap))

    def _over_folds(self, name: str) -> tuple[Floats, list[Any]]:
        data = self.data
        parts = [train for train, _ in self.splits]
        if not self.partition:  # for example forward chaining: the last model has seen most
            parts.append(np.arange(data.positive.size))
        arguments = (data.matrix, data.positive, data.weight, data.shape, self.seed)
        tasks = (delayed(_fit_rows)(name, rows, *arguments) for rows in parts)
        models = []
        for model in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            models.append(model)
            raise_if_interrupted()
        found = np.full(data.positive.size, np.nan)
        for model, (_, test) in zip(models, self.splits, strict=False):
            found[test] = log_odds(model, data.matrix[test])
        return found, models if self.partition else models[-1:]

    def _additive(self) -> tuple[Floats, list[Any]]:
        model = _fit_additive(self.data, self.splits, self.n_jobs)
        raise_if_interrupted()
        return model.linear_.out_of_fold_, [model]


def _fit_additive(data: TrainingTable, cv: Any, n_jobs: int | None) -> AdditiveAPClassifier:
    model = AdditiveAPClassifier(
        categorical_features=data.categorical_features, cv=cv, n_jobs=n_jobs
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.positive, data.weight)
    model.cv = None  # the rows of the splits are of no use to a fitted model
    return model


def _fit_rows(
    name: str,
    rows: NDArray[np.intp],
    matrix: Floats,
    positive: Mask,
    weight: Floats | None,
    shape: Shape,
    seed: int,
) -> Any:
    """Fit a model to some rows, on one thread."""
    of_rows = None if weight is None else weight[rows]
    routing = config_context(enable_metadata_routing=False)  # a setting of the user's own models
    with warnings.catch_warnings(), threadpool_limits(1), routing:
        warnings.simplefilter("ignore")
        return fit_model(name, matrix[rows], positive[rows], of_rows, shape, seed)
