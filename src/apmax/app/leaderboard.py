"""Compare logistic regression, APClassifierCV and gradient boosting on the same folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from apmax import APClassifierCV, average_precision
from apmax.app.features import TableEncoder
from apmax.app.io import Dataset
from apmax.app.training import FOLDS
from apmax.errors import ParameterError
from apmax.splits import Split, make_splits
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
    """AP per fold of several models on the same folds; the first is the baseline.

    Folds share training data, so the variance of a mean over J folds is corrected to
    (1/J + test/train) s² (Nadeau and Bengio, 2003).
    """

    ap: dict[str, Floats]
    test_fraction: float
    """Share of the data that a fold tests."""

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


def compare(dataset: Dataset, *, folds: int = 5, repeats: int = 2, seed: int = 0) -> Iterator[Run]:
    """Yield every model on every fold; tables are encoded anew for each training part."""
    y = dataset.labels()
    rarer = int(min(y.sum(), (~y).sum()))
    if rarer - -(-rarer // folds) < FOLDS:
        raise ParameterError(
            f"the rarer class has {rarer} rows, and a training part of {folds} folds would have "
            f"fewer than {FOLDS}: use more data or other folds"
        )
    for train, test in _splits(dataset, folds, repeats, seed):
        X, X_test = _parts(dataset, train, test)
        learnt, tested = dataset.rows(train), dataset.rows(test)
        for name, fit in candidates(X, learnt.weight, learnt.groups).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))
                scores = fit(X, y[train]).decision_function(X_test)
            ap = average_precision(y[test], scores, sample_weight=tested.weight)
            yield Run(name, ap, test, scores)


def _splits(dataset: Dataset, folds: int, repeats: int, seed: int) -> Iterator[Split]:
    """Yield the folds of all repeats; no group is in both parts of a split."""
    y = dataset.labels()
    if dataset.groups is None:
        splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
        yield from splitter.split(np.zeros(y.size), y)
        return
    for repeat in range(repeats):
        grouped = StratifiedGroupKFold(folds, shuffle=True, random_state=seed + repeat)
        yield from make_splits(grouped, dataset.X, y, dataset.weight, dataset.groups)


def candidates(
    X: Any, weight: Floats | None = None, groups: NDArray[Any] | None = None
) -> dict[str, Callable[[Any, Mask], Any]]:
    """Return a function that fits each model; gradient boosting only for a dense matrix."""
    trees = HistGradientBoostingClassifier(random_state=0)
    weighted: dict[str, Any] = {"sample_weight": weight}
    return {
        "logistic regression": partial(_fit_logistic_regression, groups=groups, **weighted),
        "apmax (APClassifierCV)": partial(APClassifierCV().fit, groups=groups, **weighted),
        **({} if sp.issparse(X) else {"gradient boosting": partial(trees.fit, **weighted)}),
    }


def logistic_regression_cv(folds: list[Split]) -> LogisticRegressionCV:
    """Return a logistic regression whose C is chosen by cross-validated AP."""
    return LogisticRegressionCV(cv=folds, scoring="average_precision", max_iter=2000)


def _fit_logistic_regression(
    X: Any, y: Mask, *, sample_weight: Floats | None, groups: NDArray[Any] | None
) -> Any:
    """Choose the scale of the features and C by cross-validated AP, as APClassifierCV does."""
    sparse = sp.issparse(X)
    scalers = (MaxAbsScaler() if sparse else MinMaxScaler(), StandardScaler(with_mean=not sparse))
    folds = make_splits(FOLDS, X, y, sample_weight, groups)
    fitted = [
        Pipeline([("scaler", scaler), ("model", logistic_regression_cv(folds))]).fit(
            X, y, model__sample_weight=sample_weight
        )
        for scaler in scalers
    ]
    return max(fitted, key=_cross_validated_ap)


def _cross_validated_ap(fitted: Any) -> float:
    """Return the largest mean AP over the five folds; before scikit-learn 1.10 in a dict."""
    scores = fitted[-1].scores_
    folds = np.asarray([*scores.values()] if isinstance(scores, dict) else scores)
    return float(folds.reshape(FOLDS, -1).mean(axis=0).max())


def _parts(dataset: Dataset, train: Any, test: Any) -> list[Any]:
    """Return the features of both parts, as dense matrices if these are small."""
    parts = [dataset.rows(rows).X for rows in (train, test)]
    if dataset.is_table:
        encoder = TableEncoder().fit(parts[0])
        parts = [encoder.transform(part) for part in parts]
    small = parts[0].shape[0] * parts[0].shape[1] * 8 <= MAX_DENSE_BYTES
    return [part.toarray() if sp.issparse(part) and small else part for part in parts]
