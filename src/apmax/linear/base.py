"""What both linear estimators share: checking data, predicting, and folding in Platt's scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from apmax.errors import LabelError
from apmax.linear.design import Design
from apmax.linear.full_batch import platt
from apmax.validation import Floats, Mask, check_weights


class TrainingSet(NamedTuple):
    """Checked data: float X (dense C-ordered or CSR), the mask of positives, weights or None."""

    X: Any
    positive: Mask
    weight: Floats | None

    def rows(self, which: NDArray[Any]) -> TrainingSet:
        """Some of the examples."""
        weight = None if self.weight is None else self.weight[which]
        return TrainingSet(self.X[which], self.positive[which], weight)


class LinearAPModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier whose `coef_` and `intercept_` give calibrated log-odds."""

    coef_: Floats
    intercept_: Floats
    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class, ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0], dtype=np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class whose probability is above one half."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, columns in the order of ``classes_``."""
        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithm of the probabilities, finite for any log-odds."""
        log_odds = self.decision_function(X)
        return -np.column_stack([np.logaddexp(0.0, log_odds), np.logaddexp(0.0, -log_odds)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
        """Check the data and set `classes_`; the second class, in order, is the positive."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), order="C"
        )
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
                f"`y` holds one class only ({classes[0]!r}): a classifier needs examples of two "
                "classes"
            )
        positive = np.asarray(y == classes[1])
        weight = None
        if sample_weight is not None:
            numbers = check_array(sample_weight, ensure_2d=False, input_name="sample_weight")
            weight = check_weights(np.broadcast_to(numbers, positive.shape), positive)
        self.classes_ = classes
        return TrainingSet(X, positive, weight)

    def _set_coefficients(self, design: Design, w: Floats, data: TrainingSet) -> None:
        """Fold the scale of the features and Platt's fit into `coef_` and `intercept_`."""
        slope, offset = platt(design.margins(w), data.positive, data.weight)
        unscaled = slope * design.unscaled(w)
        self.coef_ = unscaled[None, :-1]
        self.intercept_ = unscaled[-1:] + offset
