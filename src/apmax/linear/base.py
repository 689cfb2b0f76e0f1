"""Shared by the linear estimators: input validation, prediction and calibration."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from apmax.errors import LabelError, ShapeError, WeightError
from apmax.linear.design import Design, product
from apmax.linear.platt import Calibration, calibrate, limited
from apmax.linear.result import FitResult
from apmax.validation import Floats, Mask, check_weights, plain_positives

logger = logging.getLogger("apmax")
MAX_POSITIVE_SHARE = 0.9
"""Share of positives above which the classes are probably the wrong way round."""
VECTORS = 16
"""Number of vectors with one entry per feature that the leanest solver allocates."""


class TrainingSet(NamedTuple):
    """Validated data: float X (dense C-ordered or CSR), mask of positives, weights or None."""

    X: Any
    positive: Mask
    weight: Floats | None
    """Relative weights; None for all ones."""
    total: float
    """Number of examples represented: the sum of the given weights, or the number of rows if
    that is larger, so that weights that sum to 1 do not count as a single example."""
    classes: NDArray[Any]
    """The negative and the positive class."""

    def without_zero_weights(self) -> TrainingSet:
        """Return the examples of positive weight."""
        if self.weight is None or self.weight.all():
            return self
        return self.rows(np.flatnonzero(self.weight))

    def rows(self, which: NDArray[Any]) -> TrainingSet:
        """Return some of the examples."""
        weight, share = None, which.size / self.positive.size
        if self.weight is not None:
            weight = self.weight[which]
            share = float(weight.sum() / self.weight.sum())
        X, positive = self.X[which], self.positive[which]
        return TrainingSet(X, positive, weight, share * self.total, self.classes)


def unchanged_on_error(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Restore all attributes of the estimator if `fit` raises."""

    @wraps(fit)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *arguments, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return wrapper


class LinearAPModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of linear classifiers whose `coef_` and `intercept_` give calibrated log-odds."""

    on_progress: Any = None
    """Optional callback (stage, done, of, best AP); an instance attribute, not a parameter."""

    coef_: Floats
    intercept_: Floats
    classes_: NDArray[Any]
    log_odds_limits_: tuple[float, float] = (-np.inf, np.inf)
    """Log-odds beyond which probabilities are nearly constant, from the spread of the classes."""

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``, a linear function of X."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.asarray(product(X, self.coef_[0]) + self.intercept_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with probability above one half."""
        above_half = self.decision_function(X) > 0
        return np.asarray(self.classes_[above_half.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Log-odds beyond ``log_odds_limits_`` are extrapolation and are raised by less than 1 above
        the limit, in the same order.
        """
        positive = expit(limited(self.decision_function(X), *self.log_odds_limits_))
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probabilities, finite for any log-odds."""
        log_odds = limited(self.decision_function(X), *self.log_odds_limits_)
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
        """Validate the data; the second class in sorted order is the positive one."""
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
                "of both classes"
            )
        positive = np.asarray(y == classes[1])
        weight, total = None, float(positive.size)
        if sample_weight is not None:
            given = _check_sample_weight(sample_weight, X)
            weight = check_weights(given, positive)
            total = max(float(given.sum()), float(np.count_nonzero(given)))
            if not given[~positive].any():
                raise WeightError(
                    "`sample_weight` is 0 for every negative example: a classifier needs both "
                    "classes; give some negatives a positive weight"
                )
        _warn_if_common(positive, weight, classes)
        return TrainingSet(X, positive, weight, total, classes)

    def _finish(
        self, design: Design, w: Floats, data: TrainingSet, columns: Any, result: FitResult
    ) -> None:
        """Set the fitted attributes and warn if the fit did not converge."""
        self._set_coefficients(design, w, data)
        self.n_iter_ = max(1, result.iterations)
        self.history_ = columns
        self.result_ = result
        logger.info("%s after %d iterations", result.message, result.iterations)
        if data.positive.sum() == 1:
            message = "`y` holds one positive example: only its rank can be learnt"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        if not result.converged:
            warnings.warn(result.message, ConvergenceWarning, stacklevel=4)

    def _set_coefficients(
        self, design: Design, w: Floats, data: TrainingSet, fit: Calibration | None = None
    ) -> None:
        """Set `classes_`, `coef_` and `intercept_`, with scaling and calibration folded in.

        Without a calibration it is fitted to the margins of the training data.
        """
        if fit is None:
            fit = calibrate(design.margins(w), data.positive, data.weight, data.total)
        unscaled = fit.slope * design.unscaled(w)
        self.classes_ = data.classes
        self.coef_ = unscaled[None, :-1]
        self.intercept_ = unscaled[-1:] + fit.offset
        self.log_odds_limits_ = fit.low, fit.high


def _warn_if_common(positive: Mask, weight: Floats | None, classes: NDArray[Any]) -> None:
    """Warn if text labels sort so that the common class is the positive one."""
    if plain_positives(classes) is not None:
        return
    share = float(np.average(positive, weights=weight))
    if share > MAX_POSITIVE_SHARE:
        rare, common = classes.tolist()
        warnings.warn(
            f"{share:.1%} of `y` is {common!r}, the positive class because it sorts last: to "
            f"detect {rare!r} instead, fit y == {rare!r}",
            UserWarning,
            stacklevel=4,
        )


def _check_that_weights_fit(features: int) -> None:
    """Refuse too many features before allocating: a sparse matrix can claim any width."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # unknown, for example on Windows
        return
    needed = VECTORS * 8 * features
    if needed > memory:
        raise ShapeError(
            f"`X` has {features} features, and a fit needs at least {needed / 1e9:.3g} GB for "
            f"their weights, more than this machine's {memory / 1e9:.3g} GB: drop features that do "
            "not occur, for example with X[:, numpy.unique(X.indices)]"
        )
