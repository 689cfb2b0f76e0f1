"""Logistic regression of the library: C is chosen once, by AP over the splits of all models."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from apmax.linear.platt import platt
from apmax.validation import Floats, Mask

CS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of C that are compared."""


class Shape(NamedTuple):
    """Number of numeric and of categorical columns."""

    numbers: int
    categories: int

    @property
    def categorical(self) -> list[int]:
        """Return the positions of the categorical columns."""
        return list(range(self.numbers, self.numbers + self.categories))


class Clip(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Clips each column to the range of the rows it was fitted to; missing numbers stay missing."""

    def fit(self, X: Floats, y: object = None) -> Clip:
        """Find the range of each column; 0 if all its numbers are missing."""
        self.n_features_in_ = X.shape[1]
        self.low_ = np.nan_to_num(np.fmin.reduce(X))
        self.high_ = np.nan_to_num(np.fmax.reduce(X))
        return self

    def transform(self, X: Floats) -> Floats:
        """Return the numbers, or the end of the range that is closest."""
        return np.clip(X, self.low_, self.high_)


def fit_path(
    X: Floats, positive: Mask, weight: Floats | None, shape: Shape, Cs: tuple[float, ...] = CS
) -> list[Pipeline]:
    """Fit one pipeline per C, smallest first; each fit starts from the previous one.

    Numbers beyond the range of X count as its end, as in trees and the additive model.

    The penalty shrinks log-odds, and those of different folds differently. Platt scaling on the
    training rows undoes that, so that models of different folds share a scale.
    """
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    numbers = make_pipeline(Clip(), imputer, StandardScaler())
    one_hot = OneHotEncoder(handle_unknown="ignore")
    features = make_column_transformer(
        (numbers, list(range(shape.numbers))), (one_hot, shape.categorical)
    )
    features.set_output(transform="default")  # whatever sklearn.set_config asks for
    Z = features.fit_transform(X)
    total = float(positive.size if weight is None else weight.sum())
    model = LogisticRegression(max_iter=1000, warm_start=True)
    found = []
    for C in Cs:
        model.set_params(C=C).fit(Z, positive, weight)
        calibrated = deepcopy(model)
        slope, offset = platt(model.decision_function(Z), positive, weight, total)
        calibrated.coef_ = slope * model.coef_
        calibrated.intercept_ = slope * model.intercept_ + offset
        found.append(make_pipeline(features, calibrated))
    return found


def contributions(model: Any, X: Floats, shape: Shape) -> Floats:
    """Return what each column of X adds to the log-odds, and the intercept last.

    `model` is one of :func:`fit_path`, or has a method `contributions` of its own.
    """
    if not isinstance(model, Pipeline):
        return np.asarray(model.contributions(X))
    features, logistic = model
    place = _columns_of(features, shape)
    coefficients = sp.csr_array(
        (logistic.coef_[0], (np.arange(place.size), place)), (place.size, sum(shape))
    )
    parts = features.transform(X) @ coefficients
    parts = parts.toarray() if sp.issparse(parts) else np.asarray(parts)
    return np.column_stack([parts, np.full(X.shape[0], logistic.intercept_[0])])


def _columns_of(features: Any, shape: Shape) -> NDArray[np.intp]:
    """Return the column of the table that each feature is made of."""
    (_, numbers, _), (_, one_hot, _) = features.transformers_[:2]
    place: list[int] = []
    if shape.numbers:
        _, imputer, _ = numbers
        place = [*range(shape.numbers), *imputer.indicator_.features_]
    if shape.categories:
        sizes = [len(levels) for levels in one_hot.categories_]
        place += np.repeat(shape.categorical, sizes).tolist()
    return np.asarray(place, np.intp)
