"""Train a model on a data set: compare candidates on the same folds, and keep one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.pipeline import Pipeline

from apmax.app.advice import advice
from apmax.app.archive import LABELS
from apmax.app.drift import has_few_values, profile, training_warnings
from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.app.folds import FOLDS, make_folds
from apmax.app.io import Dataset
from apmax.app.linear_search import LINEAR, Comparison, fit_linear, set_labels
from apmax.app.model import Model
from apmax.app.table_sample import evenly_drawn
from apmax.app.workers import start_workers
from apmax.errors import ParameterError
from apmax.registry import Registry
from apmax.splits import Split
from apmax.tabular import AutoAPClassifier, Leaderboard
from apmax.tabular.budget import TooShortError
from apmax.tabular.library import ADDITIVE, BOOSTING, LOGISTIC, NAMES, STACK
from apmax.validation import Floats

AUTO, TREES = "auto", "trees"
LIBRARY: dict[str, tuple[list[str], str]] = {
    **{name: ([name], name) for name in NAMES},
    AUTO: (list(NAMES), "best"),
    ADDITIVE: ([LOGISTIC, ADDITIVE], ADDITIVE),
    TREES: (list(BOOSTING), "best"),
    STACK: (list(NAMES), STACK),
}
"""For each choice of --model, the models that are compared, and which of them is kept."""
MODELS = (*LIBRARY, LINEAR)
MAX_DENSE_WIDTH, MAX_DENSE_CELLS = 128, 1 << 27
"""A sparse matrix of no more columns and entries is compared like a table."""
FIT_SHARE = 0.9
"""Share of the time that is left for fits; the rest is for the stack, the file and the output."""
SOME_ROWS = 2_000
"""Rows whose predictions tell whether the model has few different ones."""
SMALL_WORK = 3 << 19
"""Product of rows, columns and models up to which one process is faster: others take seconds to
start."""


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
        """Whether a simpler model is as good, in one sentence."""
        return advice(self.leaderboard)


def train_model(
    dataset: Dataset,
    *,
    model: str = AUTO,
    minutes: float | None = None,
    jobs: int | None = None,
    folds: int = FOLDS,
    repeats: int = 1,
    seed: int = 0,
    started: float | None = None,
    on_progress: Callable[..., None] | None = None,
) -> TrainedModel:
    """Compare models by cross-validation and fit one to all rows.

    `model` is a key of `LIBRARY` or "linear". `started` is when the time limit of `minutes` began,
    by `time.perf_counter`; the default is now. `on_progress` is called with (stage, done, total,
    AP). The result does not depend on the number of processes, `jobs`; the default is one if the
    work is small, and else one per core.
    """
    start = time.perf_counter()
    Registry("--model", dict.fromkeys(MODELS)).choose(model)
    dense = _is_dense(dataset)
    if not dense and model not in (AUTO, LINEAR, LOGISTIC):
        raise ParameterError(
            f"--model {model} needs a table, and {dataset.source} has {dataset.X.shape[1]:,} "
            f"sparse features: use --model {LINEAR} or {LOGISTIC}"
        )
    linear = model == LINEAR or not dense
    if linear and minutes is not None:
        raise ParameterError("--minutes has no effect on linear models: leave it out")
    splits = make_folds(dataset, folds, repeats, seed)
    preprocessor = _preprocessor(dataset, linear=linear)
    X = dataset.X if preprocessor is None else preprocessor.transform(dataset.X)
    processes = _processes(X, model, linear=linear) if jobs is None else jobs
    start_workers(processes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "A worker stopped")  # joblib starts another one
        warnings.filterwarnings("ignore", r"\d+ tasks which were still")  # joblib, after Ctrl-C
        if linear:
            found = _compare_linear(dataset, X, splits, model, processes, on_progress)
        else:
            with _time_left(minutes, start if started is None else started) as left:
                found = _compare_library(
                    dataset, X, splits, model, left, processes, seed, on_progress
                )
    notes = [] if preprocessor is None else training_warnings(preprocessor, dataset.X)
    notes += [str(one.message).replace("`y` holds", f"{dataset.source.name} has") for one in caught]
    return TrainedModel(
        _model(dataset, preprocessor, found, {"folds": len(splits), "seed": seed}),
        found.leaderboard,
        found.out_of_fold,
        [*dict.fromkeys(notes)],
        found.interrupted,
        found.message,
        time.perf_counter() - start,
    )


def _processes(X: Any, model: str, *, linear: bool) -> int:
    """Return how many processes share the fits by default; -1 is one per core."""
    size = X.nnz if sp.issparse(X) else X.shape[0] * X.shape[1]
    names = [LINEAR] if linear else LIBRARY[model][0]
    models = sum(name != STACK for name in names)
    return 1 if size * models <= SMALL_WORK else -1


@contextmanager
def _time_left(minutes: float | None, started: float) -> Iterator[float | None]:
    """Yield the seconds that are left for fits; ParameterError if they are too few for a model."""
    if minutes is None:
        yield None
        return
    spent = time.perf_counter() - started
    try:
        yield FIT_SHARE * max(60 * minutes - spent, 1.0)
    except TooShortError as error:
        enough = np.ceil((spent + error.enough / FIT_SHARE) / 6) / 10
        raise ParameterError(
            f"--minutes {minutes:g} is too short for one model, after {spent:.0f} s of reading and "
            f"checking the data: use --minutes {enough:g} or more"
        ) from error


def _compare_linear(
    dataset: Dataset, X: Any, splits: list[Split], model: str, jobs: int, on_progress: Any
) -> Comparison:
    """Compare linear models of a matrix."""
    names = [LOGISTIC, LINEAR] if model == AUTO else [model]
    y, weight = dataset.labels(), dataset.weight
    found = fit_linear(X, y, weight, splits, names, jobs=jobs, on_progress=on_progress)
    set_labels(found.classifier, *_labels(dataset))
    return found


def _compare_library(
    dataset: Dataset,
    X: Any,
    splits: list[Split],
    model: str,
    seconds: float | None,
    jobs: int,
    seed: int,
    on_progress: Any,
) -> Comparison:
    """Compare the models of AutoAPClassifier."""
    compared, select = LIBRARY[model]
    positive, negative = _labels(dataset)
    classifier = AutoAPClassifier(
        compared,
        select=select,
        time_budget=seconds,
        cv=splits,
        n_jobs=jobs,
        random_state=seed,
        pos_label=positive,
    )
    classifier.on_progress = on_progress
    labels = np.where(dataset.labels(), positive, negative)
    classifier.fit(X.toarray() if sp.issparse(X) else X, labels, dataset.weight)
    classifier.cv = None  # the rows of the splits are of no use to a fitted model
    result = classifier.result_
    board, out_of_fold = classifier.leaderboard_, classifier.out_of_fold_
    return Comparison(classifier, board, out_of_fold, result.interrupted, result.message)


def _labels(dataset: Dataset) -> tuple[Any, Any]:
    """Return the positive and the negative label as in the file; as text if their types differ."""
    positive, negative = dataset.positive, dataset.negative
    if type(positive) is type(negative) and isinstance(positive, LABELS):
        return positive, negative
    return str(positive), str(negative)


def _model(
    dataset: Dataset,
    preprocessor: TablePreprocessor | None,
    found: Comparison,
    facts: dict[str, Any],
) -> Model:
    """Return the chosen model with all that the file should say about it."""
    y, kinds = dataset.labels(), {} if preprocessor is None else preprocessor.kinds_
    chosen = next(one for one in found.leaderboard if one.chosen)
    held_out = found.out_of_fold[chosen.model]
    facts = {
        "model": chosen.model,
        "rows": int(y.size),
        "positives": int(y.sum()),
        "features": int(found.classifier.n_features_in_),
        "cv_ap": chosen.ap,
        "cv_ap_se": None if np.isnan(chosen.ap_se) else chosen.ap_se,
        **facts,
    }
    steps = [] if preprocessor is None else [("table", preprocessor)]
    model = Model(
        Pipeline([*steps, ("classifier", found.classifier)]),
        str(dataset.positive),
        str(dataset.negative),
        dataset.target,
        dataset.against_rest,
        facts,
        None if dataset.ids is None else str(dataset.ids.name),
        dataset.weight_column,
        {name: one for name, one in dataset.formats.items() if name in dataset.X},
        found.leaderboard,
    )
    even = evenly_drawn(dataset)
    seen, margins = dataset.rows(even), held_out[even]
    probabilities = expit(margins[~np.isnan(margins)])
    if has_few_values(model.probability(seen.rows(np.arange(min(even.size, SOME_ROWS))).X)):
        probabilities = model.probability(seen.X)
    return replace(model, profile=profile(seen.X, kinds, probabilities))


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
