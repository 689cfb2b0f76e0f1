"""Compare logistic regression, APClassifierCV and boosted trees on the same folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from apmax import APClassifierCV, average_precision
from apmax.app.features import TableEncoder
from apmax.app.io import Dataset
from apmax.app.training import FOLDS
from apmax.errors import ParameterError
from apmax.validation import Floats, Mask

MAX_DENSE_BYTES = 1 << 31
"""Features are passed as a dense matrix up to this size; beyond it trees are left out."""


class Run(NamedTuple):
    """One model on one fold: its test AP, and the test rows with their scores."""

    name: str
    ap: float
    rows: NDArray[np.int64]
    scores: Floats


@dataclass(frozen=True)
class Difference:
    """A model against the baseline, fold by fold; the standard error is NaN for one fold."""

    model: str
    baseline: str
    mean: float
    standard_error: float
    wins: int
    losses: int
    folds: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean difference, by Student's t."""
        half = float(stdtrit(max(self.folds - 1, 1), 0.975)) * self.standard_error
        return self.mean - half, self.mean + half

    def sentence(self) -> str:
        """State what the folds show."""
        new, old = self.model, self.baseline
        if self.wins == self.losses == 0:
            return f"{new} and {old} have the same AP in every fold."
        if self.folds == 1:
            return f"{new}: {self.mean:+.3f} AP against {old} on a single fold; use more folds."
        low, high = self.interval
        evidence = (
            f"{self.mean:+.3f} AP on average (95 % interval {low:+.3f} to {high:+.3f}), better in "
            f"{self.wins} and worse in {self.losses} of {self.folds} folds."
        )
        if low > 0:
            return f"{new} is better than {old}: {evidence}"
        if high < 0:
            return f"{new} is worse than {old}: {evidence}"
        return f"{new} does not differ significantly from {old}: {evidence}"


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """AP per fold of several models; the first is the baseline.

    Parameters
    ----------
    ap : dict of str to array
        AP of each model on the same folds, in the same order.
    test_fraction : float
        Share of the data that a fold tests. Folds share training data, so the variance of the
        mean is corrected to (1/J + test/train) s² for J folds (Nadeau and Bengio, 2003).
    """

    ap: dict[str, Floats]
    test_fraction: float

    @property
    def folds(self) -> int:
        """The number of folds."""
        return len(next(iter(self.ap.values())))

    def summary(self, name: str) -> tuple[float, float]:
        """Return the mean and the standard deviation over folds (NaN for one fold)."""
        ap = np.asarray(self.ap[name])
        return float(ap.mean()), float(ap.std(ddof=1)) if ap.size > 1 else float("nan")

    def differences(self) -> dict[str, Difference]:
        """Return every other model against the first, by name."""
        baseline, *others = self.ap
        return {name: self._difference(name, baseline) for name in others}

    def _difference(self, name: str, baseline: str) -> Difference:
        gains = np.asarray(self.ap[name]) - np.asarray(self.ap[baseline])
        gains = np.where(np.abs(gains) < 1e-12, 0.0, gains)
        error = float("nan")
        if gains.size > 1:
            overlap = self.test_fraction / (1 - self.test_fraction)
            error = float(gains.std(ddof=1) * np.sqrt(1 / gains.size + overlap))
        wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
        return Difference(name, baseline, float(gains.mean()), error, wins, losses, gains.size)


def candidates(dataset: Dataset) -> dict[str, Callable[[Any, Mask, Any], Floats]]:
    """Return a fit-and-score function per model; trees only if dense features fit in memory."""
    width = dataset.X.shape[1]
    if dataset.is_table:
        width = len(TableEncoder().fit(dataset.X).get_feature_names_out())
    small = dataset.X.shape[0] * width * 8 <= MAX_DENSE_BYTES
    models = {"logistic regression": _logistic_regression, "apmax (APClassifierCV)": _apmax}
    return {**models, **({"boosted trees": _boosted_trees} if small else {})}


def compare(dataset: Dataset, *, folds: int = 5, repeats: int = 2, seed: int = 0) -> Iterator[Run]:
    """Yield every model on every fold; tables are encoded anew for each training part."""
    y = dataset.labels()
    rarer = int(min(y.sum(), (~y).sum()))
    if rarer - -(-rarer // folds) < FOLDS:
        raise ParameterError(
            f"the rarer class has {rarer} rows, and a training part of {folds} folds would have "
            f"fewer than {FOLDS}: use more data or other folds"
        )
    models = candidates(dataset)
    splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    for train, test in splitter.split(np.zeros(y.size), y):
        X, X_test = _parts(dataset, [train, test])
        for name, score in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores = score(X, y[train], X_test)
            yield Run(name, average_precision(y[test], scores), test, scores)


def logistic_regression_cv(folds: Any) -> LogisticRegressionCV:
    """Return a LogisticRegressionCV that is scored by AP, for scikit-learn 1.6 and later."""
    options: dict[str, Any] = {"cv": folds, "scoring": "average_precision", "max_iter": 2000}
    if "use_legacy_attributes" in signature(LogisticRegressionCV).parameters:
        options |= {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    return LogisticRegressionCV(**options)


def _parts(dataset: Dataset, parts: Sequence[Any]) -> list[Any]:
    if not dataset.is_table:
        return [dataset.X[rows] for rows in parts]
    encoder = TableEncoder().fit(dataset.X.iloc[parts[0]])
    return [encoder.transform(dataset.X.iloc[rows]) for rows in parts]


def _logistic_regression(X: Any, y: Mask, X_test: Any) -> Floats:
    """Choose the scale of the features and C by cross-validated AP, as APClassifierCV does."""
    X, X_test = _dense(X), _dense(X_test)
    sparse = sp.issparse(X)
    scalers = (
        MaxAbsScaler() if sparse else MinMaxScaler(),
        StandardScaler(with_mean=not sparse),
    )
    found = []
    for scaler in scalers:
        model = logistic_regression_cv(StratifiedKFold(5, shuffle=True, random_state=0))
        fitted = make_pipeline(scaler, model).fit(X, y)
        every = model.scores_  # a dict of classes before scikit-learn 1.8
        each = np.concatenate(list(every.values())) if isinstance(every, dict) else every
        reached = float(np.asarray(each).reshape(5, -1).mean(axis=0).max())
        found.append((reached, fitted))
    best = max(found, key=lambda pair: pair[0])[1]
    return np.asarray(best.decision_function(X_test))


def _apmax(X: Any, y: Mask, X_test: Any) -> Floats:
    return APClassifierCV().fit(X, y).decision_function(X_test)


def _boosted_trees(X: Any, y: Mask, X_test: Any) -> Floats:
    model = HistGradientBoostingClassifier(random_state=0).fit(_dense(X), y)
    return np.asarray(model.decision_function(_dense(X_test)))


def _dense(X: Any) -> Any:
    small = X.shape[0] * X.shape[1] * 8 <= MAX_DENSE_BYTES
    return X.toarray() if sp.issparse(X) and small else X
