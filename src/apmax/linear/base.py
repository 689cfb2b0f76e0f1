"""What both linear estimators share: checking data, predicting, and folding in Platt's scale."""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from apmax.errors import LabelError, ShapeError, WeightError
from apmax.linear.design import Design, product
from apmax.linear.platt import platt
from apmax.validation import Floats, Mask, check_weights, plain_positives

MOSTLY = 0.9
"""The share of a class from which on it is hardly the one that is looked for."""
VECTORS = 16
"""Vectors of a weight per feature that the leanest solver holds at once."""


class TrainingSet(NamedTuple):
    """Checked data: float X (dense C-ordered or CSR), the mask of positives, weights or None."""

    X: Any
    positive: Mask
    weight: Floats | None
    """Relative weights; None for all ones."""
    total: float
    """How many examples these stand for: the sum of the weights as they were given, or the
    number of rows if that is more. Weights that sum to 1 do not make one example of all."""
    classes: NDArray[Any]
    """The negative and the positive class."""

    def seen(self) -> TrainingSet:
        """Without the examples of weight 0."""
        if self.weight is None or self.weight.all():
            return self
        return self.rows(np.flatnonzero(self.weight))

    def rows(self, which: NDArray[Any]) -> TrainingSet:
        """Some of the examples."""
        weight, share = None, which.size / self.positive.size
        if self.weight is not None:
            weight = self.weight[which]
            share = float(weight.sum() / self.weight.sum())
        X, positive = self.X[which], self.positive[which]
        return TrainingSet(X, positive, weight, share * self.total, self.classes)


class LinearAPModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier whose `coef_` and `intercept_` give calibrated log-odds."""

    on_progress: Any = None
    """Called with (stage, done, of, AP so far) during a fit; set it on an instance. It is not a
    parameter: a clone does not have it."""

    coef_: Floats
    intercept_: Floats
    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class, ``classes_[1]``."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.asarray(product(X, self.coef_[0]) + self.intercept_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class whose probability is above one half."""
        above_half = self.decision_function(X) > 0
        return np.asarray(self.classes_[above_half.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, columns in the order of ``classes_``."""
        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithm of the probabilities, finite for any log-odds."""
        log_odds = self.decision_function(X)
        return -np.column_stack([np.logaddexp(0.0, log_odds), np.logaddexp(0.0, -log_odds)])

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "on_progress"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
        """The data, checked; the second class, in order, is the positive one."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), order="C"
        )
        _check_that_weights_fit(X.shape[1])
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        check_classification_targets(y)
        classes = np.unique(y)
        if classes.size > 2:
            raise LabelError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}: `y` holds {classes.size} classes; wrap the estimator in "
                "sklearn.multiclass.OneVsRestClassifier"
            )
        if classes.size < 2:
            raise LabelError(
                f"`y` holds one class only ({classes.tolist()[0]!r}): a classifier needs examples "
                "of two"
            )
        positive = np.asarray(y == classes[1])
        weight, total = None, float(positive.size)
        if sample_weight is not None:
            given = _check_sample_weight(sample_weight, X)
            weight = check_weights(given, positive)
            total = max(float(given.sum()), float(np.count_nonzero(given)))
            if not given[~positive].any():
                raise WeightError(
                    "`sample_weight` is 0 for every negative example: a classifier needs examples "
                    "of two classes; give some a weight above 0"
                )
        _warn_if_common(positive, weight, classes)
        return TrainingSet(X, positive, weight, total, classes)

    def _set_coefficients(self, design: Design, w: Floats, data: TrainingSet) -> None:
        """Set `classes_`, and `coef_` and `intercept_` with the scale and Platt's fit folded in."""
        slope, offset = platt(design.margins(w), data.positive, data.weight, data.total)
        unscaled = slope * design.unscaled(w)
        self.classes_ = data.classes
        self.coef_ = unscaled[None, :-1]
        self.intercept_ = unscaled[-1:] + offset


def _warn_if_common(positive: Mask, weight: Floats | None, classes: NDArray[Any]) -> None:
    """Labels such as words do not say which class is meant; bool, {0, 1} and {-1, 1} do."""
    if plain_positives(classes) is not None:
        return
    share = float(np.average(positive, weights=weight))
    if share > MOSTLY:
        rare, common = classes.tolist()
        warnings.warn(
            f"{share:.1%} of `y` is {common!r}, the second class, whose average precision is "
            f"maximised: if {rare!r} is what you look for, fit y == {rare!r}",
            UserWarning,
            stacklevel=4,
        )


def _check_that_weights_fit(features: int) -> None:
    """Refuse before anything is allocated: a sparse matrix claims any width for free."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # a system that does not say, as Windows
        return
    needed = VECTORS * 8 * features
    if needed > memory:
        raise ShapeError(
            f"`X` has {features} features, and a fit with a weight for each takes at least "
            f"{needed / 1e9:.3g} GB of this machine's {memory / 1e9:.3g}: number only the features "
            "that occur, for example with X[:, numpy.unique(X.indices)]"
        )
