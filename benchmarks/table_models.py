"""Models of tables that ``benchmarks.tabular`` compares, each on one thread.

Baselines choose their hyperparameters by cross-validated AP on the training rows, with the same
five folds. `cpu` is the CPU time of the fit, with all of that selection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)
from threadpoolctl import threadpool_limits

from apmax import average_precision
from apmax.binary_target import binary_target
from apmax.tabular.columns import Columns
from apmax.tabular.terms import main_terms, matrix
from benchmarks.real_data import Split

LEAVES, MOST_ROUNDS = (5, 20, 63), 400
LIGHTGBM = {"objective": "binary", "learning_rate": 0.1, "num_threads": 1, "verbosity": -1,
            "metric": "None", "seed": 0, "deterministic": True}  # fmt: skip


class Fitted(NamedTuple):
    """Scores and probabilities of the test rows, CPU seconds of the fit, and what was chosen."""

    scores: np.ndarray
    probabilities: np.ndarray
    cpu: float
    notes: dict[str, Any]


class Method(NamedTuple):
    """A way to fit a split; results of another revision are not used.

    `fit` takes the split and a budget in seconds, which only automatic searches read.
    """

    fit: Callable[[Split, float], Fitted]
    revision: str


def folds() -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=0)


def logistic(split: Split, budget: float) -> Fitted:
    return _logistic_regression(plain_features(), (StandardScaler(), MinMaxScaler()), split)


def spline_logistic(split: Split, budget: float) -> Fitted:
    scalers = FunctionTransformer(), StandardScaler(), MinMaxScaler()
    return _logistic_regression(AdditiveBasis(), scalers, split)


def _logistic_regression(features: Any, scalers: Sequence[Any], split: Split) -> Fitted:
    """The best scaling by cross-validated AP; all count as CPU time."""
    X, X_test = _frame(split.X), _frame(split.X_test)
    best, fitted, total = -np.inf, None, 0.0
    for scaler in scalers:
        regression = LogisticRegressionCV(
            Cs=10,
            cv=folds(),
            scoring="average_precision",
            max_iter=2000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        )
        model = make_pipeline(features, scaler, regression)
        result = _timed(model, X, split.y, X_test)
        total += result.cpu
        cross_validated = float(np.max(np.asarray(regression.scores_).mean(axis=0)))
        if cross_validated > best:
            best = cross_validated
            chosen = {"scaler": type(scaler).__name__, "C": float(f"{regression.C_:.3g}")}
            fitted = result._replace(notes={**chosen, "cpu_of_one": round(result.cpu, 3)})
    assert fitted is not None
    return fitted._replace(cpu=total)


def plain_features() -> ColumnTransformer:
    """Numbers with missing values imputed and indicated; categories as indicators."""
    return ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), _numbers),
            ("categories", _one_hot(), _categories),
        ]
    )


class AdditiveBasis(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The basis of AdditiveAPClassifier without interactions."""

    def fit(self, X: Any, y: Any) -> AdditiveBasis:
        self.columns_ = Columns(X, "from_dtype")
        self.terms_ = main_terms(self.columns_, self.columns_.fit_transform(X), binary_target(y))
        return self

    def transform(self, X: Any) -> Any:
        return matrix(self.terms_, self.columns_.transform(X))


def _one_hot() -> OneHotEncoder:
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=10, sparse_output=False
    )


def hgb(split: Split, budget: float) -> Fitted:
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return _timed(model, split.X, split.y, split.X_test)


def lightgbm_ap(split: Split, budget: float) -> Fitted:
    """LightGBM; rounds and leaves have the highest cross-validated AP."""
    import lightgbm

    def ap(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
        return "ap", average_precision(data.get_label() > 0, scores), True

    start = time.process_time()
    best, chosen, rounds = -np.inf, {}, 0
    labels = split.y.astype(np.float64)
    for leaves in LEAVES:
        parameters = {**LIGHTGBM, "num_leaves": leaves}
        progress = lightgbm.cv(
            parameters,
            lightgbm.Dataset(split.X, labels),
            MOST_ROUNDS,
            folds=list(folds().split(split.X, split.y)),
            feval=ap,
        )
        path = np.asarray(progress["valid ap-mean"])
        if np.max(path) > best:
            best, chosen, rounds = float(np.max(path)), parameters, int(np.argmax(path)) + 1
    model = lightgbm.train(chosen, lightgbm.Dataset(split.X, labels), rounds)
    cpu = time.process_time() - start
    scores = np.asarray(model.predict(split.X_test, raw_score=True))
    notes = {"leaves": chosen["num_leaves"], "rounds": rounds}
    return Fitted(scores, 1 / (1 + np.exp(-scores)), cpu, notes)


def flaml(split: Split, budget: float) -> Fitted:
    """FLAML for `budget` seconds of CPU time; a busy machine needs a second, longer run.

    FLAML's budget is in seconds of wall time, a tenth more here for its own overhead.
    """
    from flaml import AutoML

    seconds = 1.1 * budget
    for _ in range(2):
        model = AutoML()
        start = time.process_time()
        model.fit(
            split.X,
            split.y.astype(int),
            metric="ap",
            task="classification",
            n_jobs=1,
            time_budget=seconds,
            seed=0,
            verbose=0,
        )
        cpu = time.process_time() - start
        if cpu >= budget:
            break
        seconds *= 1.1 * budget / max(cpu, 0.3 * budget)
    probabilities = np.asarray(model.predict_proba(split.X_test))[:, 1]
    notes = {"estimator": model.best_estimator, "budget": round(budget, 1)}
    return Fitted(probabilities, probabilities, cpu, notes)


def additive(split: Split, budget: float) -> Fitted:
    from apmax import AdditiveAPClassifier

    return _timed(AdditiveAPClassifier(), split.X, split.y, split.X_test)


def additive_main(split: Split, budget: float) -> Fitted:
    from apmax import AdditiveAPClassifier

    return _timed(AdditiveAPClassifier(interactions=0), split.X, split.y, split.X_test)


def auto(split: Split, budget: float) -> Fitted:
    from apmax import AutoAPClassifier

    return _timed(AutoAPClassifier(), split.X, split.y, split.X_test)


def auto_selecting(select: str) -> Callable[[Split, float], Fitted]:
    def fit(split: Split, budget: float) -> Fitted:
        from apmax import AutoAPClassifier

        return _timed(AutoAPClassifier(select=select), split.X, split.y, split.X_test)

    return fit


METHODS = {
    "logistic": Method(logistic, "1"),
    "spline-logistic": Method(spline_logistic, "2"),
    "hgb": Method(hgb, "1"),
    "lightgbm-ap": Method(lightgbm_ap, "1"),
    "additive-main": Method(additive_main, "3"),
    "additive": Method(additive, "4"),
    "auto": Method(auto, "6"),
    "auto-one-se": Method(auto_selecting("one-se"), "2"),
    "auto-stack": Method(auto_selecting("stack"), "2"),
    "flaml": Method(flaml, "1"),
}
"""A change that can move the scores of a method needs a new revision."""


def _timed(model: Any, X: Any, y: np.ndarray, X_test: Any) -> Fitted:
    start = time.process_time()
    with threadpool_limits(1):
        model.fit(X, y)
    cpu = time.process_time() - start
    probabilities = model.predict_proba(X_test)[:, 1]
    return Fitted(model.decision_function(X_test), probabilities, cpu, {})


def _frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).rename(columns=str)


def _numbers(frame: pd.DataFrame) -> list[str]:
    return list(frame.select_dtypes("number").columns)


def _categories(frame: pd.DataFrame) -> list[str]:
    return list(frame.select_dtypes(exclude="number").columns)


def _curved(frame: pd.DataFrame) -> list[str]:
    return [column for column in _numbers(frame) if frame[column].nunique() > 2]


def _binary(frame: pd.DataFrame) -> list[str]:
    return [column for column in _numbers(frame) if frame[column].nunique() <= 2]
