"""Shared by the linear estimators: training data, prediction and calibration."""

from __future__ import annotations

import logging
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from apmax.binary_classifier import BinaryAPClassifier
from apmax.binary_target import BinaryTarget, binary_target
from apmax.errors import ShapeError
from apmax.linear.design import Design, product
from apmax.linear.numbers_only import checked_numbers
from apmax.linear.platt import Calibration, calibrate, limited
from apmax.linear.result import FitResult
from apmax.memory import memory_of_machine
from apmax.sampling import sample_for_search
from apmax.validation import Floats, Mask, check_no_label_is_missing

logger = logging.getLogger("apmax")
VECTORS = 16
"""Number of vectors with one entry per feature that the leanest solver allocates."""


class TrainingSet(NamedTuple):
    """Validated data: float X (dense C-ordered or CSR) and the target."""

    X: Any
    target: BinaryTarget

    @property
    def positive(self) -> Mask:
        """Return the mask of positives."""
        return self.target.positive

    @property
    def weight(self) -> Floats | None:
        """Return relative weights; None for all ones."""
        return self.target.weight

    @property
    def total(self) -> float:
        """Return the number of examples that the weights stand for."""
        return self.target.total

    def without_zero_weights(self) -> TrainingSet:
        """Return the examples of positive weight."""
        if self.weight is None or self.weight.all():
            return self
        return self.rows(np.flatnonzero(self.weight))

    def rows(self, which: NDArray[np.intp]) -> TrainingSet:
        """Return some of the examples."""
        return TrainingSet(self.X[which], self.target.rows(which))

    def thinned(self, seed: int, rows: NDArray[np.intp] | None = None) -> TrainingSet:
        """Return some of the rows, by default all, or a weighted sample of them if they are many.

        The seed makes samples of different folds independent, so that the mean of their models
        rests on more rows than one of them.
        """
        target = self.target if rows is None else self.target.rows(rows)
        sample = sample_for_search(target.positive, target.weight, seed)
        if sample is None:
            return self if rows is None else TrainingSet(self.X[rows], target)
        chosen, weight = sample
        of_sample = target._replace(positive=target.positive[chosen], weight=weight)
        return TrainingSet(self.X[chosen if rows is None else rows[chosen]], of_sample)


class LinearAPModel(BinaryAPClassifier):
    """Base of linear classifiers whose `coef_` and `intercept_` give calibrated log-odds."""

    coef_: Floats
    intercept_: Floats
    log_odds_limits_: tuple[float, float] = (-np.inf, np.inf)
    """Log-odds beyond which probabilities are nearly constant, from the spread of the classes."""
    log_odds_curve_: Floats | None = None
    """Points (log-odds, calibrated log-odds), shape (2, points); None if they are equal."""

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``, a linear function of X.

        If `pos_label_` is ``classes_[0]``, lower values mean more likely positive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New data.
        """
        check_is_fitted(self, "coef_")
        X = checked_numbers(self, X, accept_sparse="csr", reset=False)
        return np.asarray(product(X, self.coef_[0]) + self.intercept_[0])

    def _calibrated_log_odds(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]`` that probabilities are made of."""
        return limited(self.decision_function(X), *self.log_odds_limits_, self.log_odds_curve_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
        """Validate the data and find the positive class."""
        if y is not None and (labels := np.asarray(y)).ndim == 1:
            check_no_label_is_missing(labels, "y")
        X, y = checked_numbers(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), order="C"
        )
        _check_that_weights_fit(X.shape[1])
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        name = type(self).__name__
        target = binary_target(y, sample_weight, pos_label=self.pos_label, estimator=name)
        return TrainingSet(X, target)

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
        """Set the classes and the coefficients, with scaling and calibration folded in.

        Without a calibration it is fitted to the margins of the training data. The weights `w`
        rank the positive class high; `coef_` is of the log-odds of ``classes_[1]``.
        """
        if fit is None:
            fit = calibrate(design.margins(w), data.positive, data.weight, data.total, curved=True)
        unscaled = fit.slope * design.unscaled(w)
        unscaled[-1] += fit.offset
        limits, curve = (fit.low, fit.high), fit.curve
        if data.target.pos_index == 0:
            unscaled, limits = -unscaled, (-fit.high, -fit.low)
            curve = None if curve is None else -curve[:, ::-1]
        self.classes_, self.pos_label_ = data.target.classes, data.target.pos_label
        self.coef_, self.intercept_ = unscaled[None, :-1], unscaled[-1:]
        self.log_odds_limits_, self.log_odds_curve_ = limits, curve


def _check_that_weights_fit(features: int) -> None:
    """Refuse too many features before allocating: a sparse matrix can claim any width."""
    memory, needed = memory_of_machine(), VECTORS * 8 * features
    if memory is not None and needed > memory:
        raise ShapeError(
            f"`X` has {features} features, and a fit needs at least {needed / 1e9:.3g} GB for "
            f"their weights, more than this machine's {memory / 1e9:.3g} GB: drop features that do "
            "not occur, for example with X[:, numpy.unique(X.indices)]"
        )
