"""Fits of the library on the folds, within a time budget."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import config_context
from threadpoolctl import threadpool_limits

from apmax.interrupts import raise_if_interrupted
from apmax.metrics import ap_of_scores
from apmax.sampling import sample_rows
from apmax.splits import Split, mean_held_out, restricted
from apmax.tabular.additive import AdditiveAPClassifier
from apmax.tabular.library import ADDITIVE, LOGISTIC, fit_trees, log_odds
from apmax.tabular.logistic import Shape, fit_path
from apmax.validation import Floats, Mask

logger = logging.getLogger("apmax")


class TrainingTable(NamedTuple):
    """Data of all fits: rows as given for the additive model, and the matrix for the others."""

    X: Any
    matrix: Floats
    shape: Shape
    positive: Mask
    weight: Floats | None
    rows: NDArray[np.intp]
    """Number of each row in the data given to `fit`."""
    categorical_features: Any

    def part(self, which: NDArray[np.intp], weight: Floats | None) -> TrainingTable:
        """Return some of the rows, with these weights."""
        return self._replace(
            X=take_rows(self.X, which),
            matrix=self.matrix[which],
            positive=self.positive[which],
            weight=weight,
            rows=self.rows[which],
        )

    def without_rows(self) -> TrainingTable:
        """Return what models of the matrix need, for worker processes."""
        return self._replace(X=None, categorical_features=None)


class Candidate(NamedTuple):
    """A model on all folds."""

    name: str
    log_odds: Floats
    """Held-out log-odds of each row, the mean over repeated splits; NaN where never held out."""
    models: list[Any]
    """Fitted estimators whose log-odds are averaged."""
    seconds: float


def take_rows(X: Any, which: Any) -> Any:
    """Return rows of an array or a frame."""
    if hasattr(X, "iloc"):
        return X.iloc[which]
    return X[np.asarray(which)]


class Progress:
    """Counts the fits of all models and passes them on to a callback (stage, done, total, AP)."""

    def __init__(self, callback: Callable[..., None] | None) -> None:
        self.callback = callback
        self.total = self.done = self.end = 0
        self.after_each: Callable[[], None] | None = None

    def expect(self, fits: int) -> None:
        """Set the number of fits of all models together."""
        self.total, self.done, self.end = fits, 0, 0

    def begin(self, fits: int) -> None:
        """Begin a model that consists of so many fits, at most."""
        self.done, self.end = self.end, self.end + fits

    def advance(self, stage: str, ap: float) -> None:
        """Report a complete fit, and the AP of its model so far."""
        self.done = min(self.done + 1, self.end)
        if self.callback is not None and self.total:
            self.callback(stage, self.done, self.total, ap)
        if self.after_each is not None:
            self.after_each()


class Search:
    """Fits candidates one after another, each on all folds."""

    def __init__(
        self,
        data: TrainingTable,
        splits: Sequence[Split],
        *,
        seed: int,
        n_jobs: int | None,
        progress: Progress,
    ) -> None:
        self.data, self.splits = data, splits
        self.seed, self.n_jobs, self.progress = seed, n_jobs, progress
        held_out = np.concatenate([test for _, test in splits])
        # If every row is held out exactly once, the models of the folds can be averaged.
        self.partition = np.unique(held_out).size == held_out.size == data.positive.size

    def sampled(self, count: int) -> Search:
        """Return a search on a weighted sample of rows, with the same splits restricted to it."""
        data = self.data
        rows, weight = sample_rows(data.positive, data.weight, count, self.seed)
        splits = restricted(self.splits, rows, data.positive.size)
        return Search(
            data.part(rows, weight),
            splits,
            seed=self.seed,
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    def pilot(self, name: str, count: int) -> float:
        """Return the seconds of one fit to a sample of rows, in this process."""
        data = self.sampled(count).data
        start = time.perf_counter()
        if name == ADDITIVE:
            _fit_additive(data, None, n_jobs=1)  # the start of workers would count as time per row
        else:
            _fit_rows(name, np.arange(data.positive.size), data, self.seed)
        return time.perf_counter() - start

    def fits(self, name: str) -> int:
        """Return the number of fits of a model that `progress` counts."""
        folds = len(self.splits)
        # The additive model reports each fold for its pairs, for C, for alpha (at most twice) and,
        # if there are pairs, for its held-out rows.
        return 5 * folds if name == ADDITIVE else folds + (not self.partition)

    def fit(self, name: str) -> Candidate:
        """Fit a model on each fold, or the additive model with its own cross-validation."""
        start = time.perf_counter()
        self.progress.begin(self.fits(name))
        found, models = self._additive() if name == ADDITIVE else self._over_folds(name)
        seconds = time.perf_counter() - start
        logger.info("%s: %.1f s", name, seconds)
        return Candidate(name, found, models, seconds)

    def _over_folds(self, name: str) -> tuple[Floats, list[Any]]:
        """Fit a model on each fold; of several models per fold, keep the best by mean AP."""
        data = self.data
        tasks = (
            delayed(_fit_rows)(name, rows, data.without_rows(), self.seed)
            for rows, _ in self.splits
        )
        models: list[list[Any]] = []
        log_odds_of, ap = [], []
        for found in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            raise_if_interrupted()
            _, test = self.splits[len(models)]
            models.append(found)
            log_odds_of.append([log_odds(model, data.matrix[test]) for model in found])
            ap.append([self._average_precision(test, z) for z in log_odds_of[-1]])
            self.progress.advance(name, float(np.max(np.mean(ap, axis=0))))
            raise_if_interrupted()
        best = int(np.argmax(np.mean(ap, axis=0)))
        chosen = [of_fold[best] for of_fold in models]
        if not self.partition:  # for example forward chaining: the last model has seen most
            every = np.arange(data.positive.size)
            chosen = [_fit_rows(name, every, data, self.seed)[best]]
            self.progress.advance(name, float(np.mean(ap, axis=0)[best]))
            raise_if_interrupted()
        held_out = [of_fold[best] for of_fold in log_odds_of]
        return mean_held_out(self.splits, held_out, data.positive.size), chosen

    def _average_precision(self, test: NDArray[np.intp], log_odds: Floats) -> float:
        data = self.data
        weight = None if data.weight is None else data.weight[test]
        return ap_of_scores(data.positive[test], log_odds, weight)

    def _additive(self) -> tuple[Floats, list[Any]]:
        def report(stage: str, done: int, of: int, ap: float) -> None:
            self.progress.advance(ADDITIVE, ap)

        model = _fit_additive(self.data, self.splits, self.n_jobs, report)
        raise_if_interrupted()
        log_odds: Floats = model.out_of_fold_
        del model.out_of_fold_  # kept once, by AutoAPClassifier
        return log_odds, [model]


def _fit_additive(
    data: TrainingTable, cv: Any, n_jobs: int | None, on_progress: Any = None
) -> AdditiveAPClassifier:
    model = AdditiveAPClassifier(
        categorical_features=data.categorical_features, cv=cv, n_jobs=n_jobs
    )
    model.on_progress = on_progress
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.positive, data.weight)
    model.cv = model.on_progress = None  # of no use to a fitted model
    return model


def _fit_rows(name: str, rows: NDArray[np.intp], data: TrainingTable, seed: int) -> list[Any]:
    """Fit a model to some rows, on one thread; logistic regression once for each C."""
    weight = None if data.weight is None else data.weight[rows]
    arguments = data.matrix[rows], data.positive[rows], weight, data.shape
    routing = config_context(enable_metadata_routing=False)  # a setting of the user's own models
    with warnings.catch_warnings(), threadpool_limits(1), routing:
        warnings.simplefilter("ignore")
        return fit_path(*arguments) if name == LOGISTIC else [fit_trees(name, *arguments, seed)]
