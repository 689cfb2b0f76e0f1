"""Train a model on a data set: compare candidates on the same folds, and keep one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.pipeline import Pipeline

from apmax.app.drift import profile, training_warnings
from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.app.folds import FOLDS, make_folds
from apmax.app.io import Dataset
from apmax.app.linear_search import LINEAR, fit_linear
from apmax.app.model import Model
from apmax.app.workers import start_workers
from apmax.errors import ParameterError
from apmax.registry import Registry
from apmax.tabular import AutoAPClassifier, Leaderboard
from apmax.tabular.library import ADDITIVE, BOOSTING, LOGISTIC, NAMES, STACK
from apmax.validation import Floats

AUTO, TREES = "auto", "trees"
LIBRARY: dict[str, tuple[list[str], str]] = {
    AUTO: (list(NAMES), "one-se"),
    ADDITIVE: ([LOGISTIC, ADDITIVE], ADDITIVE),
    TREES: (list(BOOSTING), "one-se"),
    STACK: (list(NAMES), STACK),
    LOGISTIC: ([LOGISTIC], LOGISTIC),
}
"""For each choice of --model, the models that are compared, and which of them is kept."""
MODELS = (AUTO, ADDITIVE, LINEAR, TREES, STACK, LOGISTIC)
SIMPLEST_FIRST = (LOGISTIC, LINEAR, *NAMES[1:])
MAX_DENSE_WIDTH, MAX_DENSE_CELLS = 128, 1 << 27
"""A sparse matrix of no more columns and entries is compared like a table."""
SMALL_CELLS = 1 << 16
"""Smaller tables are fitted by one process: starting others takes longer."""


@dataclass(frozen=True)
class TrainedModel:
    """A model, the models it was compared with, and how the training ended."""

    model: Model
    leaderboard: Leaderboard
    out_of_fold: dict[str, Floats]
    """For each model of the leaderboard, calibrated log-odds of each row by cross-validation; NaN
    for a row that is never held out."""
    warnings: list[str]
    interrupted: bool
    message: str
    seconds: float

    @property
    def advice(self) -> str:
        """Which model to use, in one sentence."""
        return self.leaderboard.advice(SIMPLEST_FIRST)


def train_model(
    dataset: Dataset,
    *,
    model: str = AUTO,
    minutes: float | None = None,
    jobs: int = -1,
    folds: int = FOLDS,
    repeats: int = 1,
    seed: int = 0,
    on_progress: Callable[..., None] | None = None,
) -> TrainedModel:
    """Compare models by cross-validation and fit one to all rows.

    Parameters
    ----------
    dataset : Dataset
        Features and labels.
    model : str
        "auto" keeps the simplest model within one standard error of the best, "trees" does so
        among boosted trees; "additive", "stack", "logistic" and "linear" are one model each.
    minutes : float, optional
        Time limit, also for the comparison.
    jobs : int
        Number of processes; -1 is one per core. The result does not depend on it.
    folds, repeats : int
        Number of folds, and how often they are drawn.
    seed : int
        Random seed of folds and models.
    on_progress : callable, optional
        Called with (stage, done, total, AP).
    """
    start = time.perf_counter()
    Registry("model", dict.fromkeys(MODELS)).choose(model)
    y = dataset.labels()
    splits = make_folds(dataset, folds, repeats, seed)
    dense = _is_dense(dataset)
    if not dense and model not in (AUTO, LINEAR, LOGISTIC):
        raise ParameterError(
            f"--model {model} needs a table, and {dataset.source} has {dataset.X.shape[1]:,} "
            f"sparse features: use --model {LINEAR} or {LOGISTIC}"
        )
    linear = model == LINEAR or not dense
    preprocessor = _preprocessor(dataset, linear=linear)
    X = dataset.X if preprocessor is None else preprocessor.transform(dataset.X)
    positive, negative = str(dataset.positive), str(dataset.negative)
    labels = np.where(y, positive, negative)
    small = X.shape[0] * X.shape[1] <= SMALL_CELLS
    processes = 1 if small and jobs == -1 else jobs
    start_workers(processes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        if linear:
            if minutes is not None:
                raise ParameterError(f"--minutes has no effect on --model {LINEAR}: leave it out")
            names = [LOGISTIC, LINEAR] if model == AUTO else [model]
            search = fit_linear(
                X, y, dataset.weight, splits, names, jobs=processes, on_progress=on_progress
            )
            classifier, board = search.classifier, search.leaderboard
            out_of_fold, interrupted, message = search.out_of_fold, search.interrupted, ""
            search.set_labels(positive, negative)
        else:
            compared, select = LIBRARY[model]
            left = None if minutes is None else 60 * minutes - (time.perf_counter() - start)
            classifier = AutoAPClassifier(
                compared,
                select=select,
                time_budget=left,
                cv=splits,
                n_jobs=processes,
                random_state=seed,
                pos_label=positive,
            )
            classifier.on_progress = on_progress
            X = X.toarray() if sp.issparse(X) else X
            classifier.fit(X, labels, dataset.weight)
            classifier.cv = None  # the rows of the splits are of no use to a fitted model
            board, out_of_fold = classifier.leaderboard_, classifier.out_of_fold_
            interrupted, message = classifier.result_.interrupted, classifier.result_.message
    chosen = next(one for one in board if one.chosen)
    held_out = out_of_fold[chosen.model]
    seen = ~np.isnan(held_out)
    kinds = {} if preprocessor is None else preprocessor.kinds_
    facts = {
        "model": chosen.model,
        "rows": int(y.size),
        "positives": int(y.sum()),
        "features": int(X.shape[1]),
        "cv_ap": chosen.ap,
        "cv_ap_se": None if np.isnan(chosen.ap_se) else chosen.ap_se,
        "folds": len(splits),
        "seed": seed,
    }
    trained = Model(
        Pipeline(
            [*([("table", preprocessor)] if preprocessor else []), ("classifier", classifier)]
        ),
        positive,
        negative,
        dataset.target,
        dataset.against_rest,
        facts,
        None if dataset.ids is None else str(dataset.ids.name),
        dataset.weight_column,
        {name: one for name, one in dataset.formats.items() if name in dataset.X},
        board,
        profile=profile(dataset.X, kinds, expit(held_out[seen])),
    )
    found = [] if preprocessor is None else training_warnings(preprocessor, dataset.X)
    notes = dict.fromkeys([*found, *(str(one.message) for one in caught)])
    seconds = time.perf_counter() - start
    return TrainedModel(trained, board, out_of_fold, [*notes], interrupted, message, seconds)


def _is_dense(dataset: Dataset) -> bool:
    """Tell whether the features can be compared like a table."""
    if dataset.is_table or not sp.issparse(dataset.X):
        return True
    rows, columns = dataset.X.shape
    return bool(columns <= MAX_DENSE_WIDTH and rows * columns <= MAX_DENSE_CELLS)


def _preprocessor(dataset: Dataset, *, linear: bool) -> TablePreprocessor | None:
    if not dataset.is_table:
        return None
    return (TableEncoder() if linear else TablePreprocessor()).fit(dataset.X)
