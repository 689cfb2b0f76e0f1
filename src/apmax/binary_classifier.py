"""Base of the binary classifiers: labels, probabilities and score from a decision function."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin

from apmax.metrics import average_precision
from apmax.validation import Floats


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


class BinaryAPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers whose `decision_function` returns the log-odds of ``classes_[1]``.

    Subclasses have the parameter `pos_label` and set `classes_` and `pos_label_` in `fit`, both
    from :func:`apmax.binary_target.binary_target`.

    Notes
    -----
    `classes_` is sorted and scores refer to ``classes_[1]`` even if `pos_label` is ``classes_[0]``,
    because scikit-learn relies on it: with the positive class last in an unsorted `classes_`,
    ``scoring="roc_auc"``, ``"neg_log_loss"``, BaggingClassifier and VotingClassifier return wrong
    results without an error, and CalibratedClassifierCV fails.
    """

    on_progress: Any = None
    """Optional function (stage, done, total, AP) that follows a fit; set it on the instance."""

    pos_label: Any = None
    pos_label_: Any
    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data of the same kind as in `fit`.
        """
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with probability above one half.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data of the same kind as in `fit`.
        """
        above_half = self.decision_function(X) > 0
        return np.asarray(self.classes_[above_half.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data of the same kind as in `fit`.
        """
        log_odds = self._calibrated_log_odds(X)
        return np.column_stack([expit(-log_odds), expit(log_odds)])  # accurate on both sides

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probabilities, finite for any log-odds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data of the same kind as in `fit`.
        """
        log_odds = self._calibrated_log_odds(X)
        return -np.column_stack([np.logaddexp(0.0, log_odds), np.logaddexp(0.0, -log_odds)])

    def predict_log_odds(self, X: Any) -> Floats:
        """Return the log-odds of the positive class, `pos_label_`, of ``predict_proba``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            log p − log(1 − p) with the probability p of `pos_label_`.
        """
        log_odds = self._calibrated_log_odds(X)
        return log_odds if self.pos_label_ == self.classes_[1] else -log_odds

    def _calibrated_log_odds(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]`` that probabilities are made of."""
        return self.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the average precision of the positive class, `pos_label_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Held-out data of the same kind as in `fit`.
        y : array-like of shape (n_samples,)
            Labels, some of them positive.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.

        Returns
        -------
        float
            Average precision, between 0 and 1.
        """
        log_odds = self.decision_function(X)
        if self.pos_label_ != self.classes_[1]:
            log_odds = -log_odds
        return average_precision(
            y, log_odds, sample_weight=sample_weight, pos_label=self.pos_label_
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "on_progress"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "classes_" in state and "pos_label_" not in state:  # written before there was one
            state = {**state, "pos_label_": state["classes_"].tolist()[1]}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
