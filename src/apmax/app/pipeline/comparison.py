"""What people use today beside APClassifierCV, on the same splits of their data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from apmax.app.data.files import Dataset
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.training import FOLDS
from apmax.errors import ParameterError
from apmax.linear.classifier_cv import APClassifierCV
from apmax.linear.design import make_design
from apmax.metrics import average_precision
from apmax.validation import Floats, Mask

Rows = NDArray[np.int64]
LARGEST_DENSE = 1 << 31
"""Bytes of a dense matrix above which boosted trees are left out of a comparison."""


class Contender(NamedTuple):
    """A way to train: features and labels in, scores of other features out."""

    name: str
    scores: Callable[[Any, Mask, Any], Floats]


class Run(NamedTuple):
    """One model on one split: its test AP, and the rows tested with their scores."""

    name: str
    ap: float
    rows: Rows
    scores: Floats


def logistic_regression_cv(folds: Any) -> LogisticRegressionCV:
    """LogisticRegressionCV scored by AP, for any scikit-learn from 1.6 on."""
    options: dict[str, Any] = {"cv": folds, "scoring": "average_precision", "max_iter": 2000}
    if "use_legacy_attributes" in signature(LogisticRegressionCV).parameters:
        options |= {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    return LogisticRegressionCV(**options)


def _logistic_regression(X: Any, y: Mask, X_test: Any) -> Floats:
    """As APClassifierCV chooses it: the scale of the features and C by cross-validated AP."""
    best, scores = -np.inf, np.zeros(X_test.shape[0])
    X, X_test = _without_offsets(X, X_test)
    sparse = sp.issparse(X)
    for scaler in (
        MaxAbsScaler() if sparse else MinMaxScaler(),
        StandardScaler(with_mean=not sparse),
    ):
        model = logistic_regression_cv(StratifiedKFold(5, shuffle=True, random_state=0))
        fitted = make_pipeline(scaler, model).fit(X, y)
        every = model.scores_
        each = (
            np.concatenate([np.asarray(one) for one in every.values()])
            if isinstance(every, dict)
            else np.asarray(every)
        )
        reached = float(each.reshape(5, -1).mean(axis=0).max())
        if reached > best:
            best, scores = reached, np.asarray(fitted.decision_function(X_test))
    return scores


def _without_offsets(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Sparse features far from 0, as a year is, less their mean: as APClassifierCV reads them.

    Or else logistic regression would hardly converge, and lose by that alone.
    """
    centre = make_design(X, "maximum", None).centre if sp.issparse(X) else np.zeros(0)
    far = np.flatnonzero(centre)
    if not far.size:
        return X, X_test
    near = np.flatnonzero(centre == 0)
    parts = [
        sp.hstack(
            [part[:, near], sp.csr_matrix(part[:, far].toarray() - centre[far])], format="csr"
        )
        for part in (X, X_test)
    ]
    return parts[0], parts[1]


def _apmax(X: Any, y: Mask, X_test: Any) -> Floats:
    return APClassifierCV().fit(X, y).decision_function(X_test)


def _boosted_trees(X: Any, y: Mask, X_test: Any) -> Floats:
    dense = [part.toarray() if sp.issparse(part) else part for part in (X, X_test)]
    model = HistGradientBoostingClassifier(random_state=0).fit(dense[0], y)
    return np.asarray(model.decision_function(dense[1]))


LOGISTIC = Contender("logistic regression", _logistic_regression)
APMAX = Contender("apmax (APClassifierCV)", _apmax)
TREES = Contender("boosted trees", _boosted_trees)


def contenders_for(dataset: Dataset) -> list[Contender]:
    """Logistic regression first, then ours; trees if a dense matrix of the features fits."""
    X = dataset.X
    features = len(TableEncoder.fit(X).feature_names()) if hasattr(X, "columns") else X.shape[1]
    trees = [TREES] if X.shape[0] * features * 8 <= LARGEST_DENSE else []
    return [LOGISTIC, APMAX, *trees]


def compare(dataset: Dataset, *, folds: int = 5, repeats: int = 2, seed: int = 0) -> Iterator[Run]:
    """Every model on every split, as they come.

    Tables are encoded anew for each training part, so that nothing of a test part is known.
    """
    if dataset.y is None:
        raise ParameterError("the data have no target: say which column it is")
    fewest = int(min(dataset.y.sum(), (~dataset.y).sum()))
    if fewest - -(-fewest // folds) < FOLDS:
        raise ParameterError(
            f"the rarer class has {fewest} rows: a training part of {folds} folds would have fewer "
            f"than the {FOLDS} that the choice of penalties needs; use more data, or other folds"
        )
    contenders = contenders_for(dataset)
    splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    for rows, others in splitter.split(np.zeros(dataset.y.size), dataset.y):
        X, X_test = _parts(dataset.X, rows, others)
        for contender in contenders:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores = contender.scores(X, dataset.y[rows], X_test)
            ap = average_precision(dataset.y[others], scores)
            yield Run(contender.name, ap, others, scores)


def _parts(X: Any, rows: Any, others: Any) -> tuple[Any, Any]:
    if not hasattr(X, "columns"):
        return X[rows], X[others]
    encoder = TableEncoder.fit(X.iloc[rows])
    return encoder.transform(X.iloc[rows]), encoder.transform(X.iloc[others])
