"""The target of a binary classifier: which class is positive, and the weights of the examples."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight

from apmax.errors import LabelError, WeightError
from apmax.validation import (
    Floats,
    Mask,
    check_no_label_is_missing,
    check_weights,
    plain_positives,
)

MOST_EXAMPLES = 1e15
"""Largest number of examples that weights stand for: more of them change nothing but rounding."""
FEW_POSITIVES = 50
"""Number of positives below which AP over the folds is mostly noise."""


class BinaryTarget(NamedTuple):
    """Validated labels and weights of the training data."""

    positive: Mask
    weight: Floats | None
    """Relative weights; None for all ones."""
    total: float
    """Number of examples represented: the sum of the given weights, or the number of rows of
    positive weight if that is larger, so that weights that sum to 1 do not count as one example;
    at most `MOST_EXAMPLES`."""
    classes: NDArray[Any]
    """Both classes in sorted order."""
    pos_index: int
    """Position of the positive class in `classes`."""

    def rows(self, which: NDArray[np.intp]) -> BinaryTarget:
        """Return some of the examples."""
        weight, share = None, which.size / self.positive.size
        if self.weight is not None:
            weight = self.weight[which]
            share = float(weight.sum() / self.weight.sum())
        return self._replace(positive=self.positive[which], weight=weight, total=share * self.total)

    @property
    def counts(self) -> Floats | None:
        """How many examples each row stands for; None for one each."""
        return None if self.weight is None else self.weight * (self.total / self.weight.sum())

    @property
    def pos_label(self) -> Any:
        """The positive class as a Python object."""
        return self.classes.tolist()[self.pos_index]


def binary_target(
    y: Any,
    sample_weight: Any = None,
    *,
    pos_label: Any = None,
    estimator: str = "APClassifierCV",
    stacklevel: int = 5,
) -> BinaryTarget:
    """Validate labels and weights for `fit`, and find the positive class.

    The positive class is `pos_label`, or else the last in sorted order. A warning is issued if
    that default is the more frequent class, unless labels are bool, {0, 1} or {-1, 1}.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of two classes.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights; each class needs some weight.
    pos_label : optional
        The positive class.
    estimator : str
        Name of the estimator, for messages.
    stacklevel : int, default=5
        Level of the user's code for the warning. The default is the caller of `fit`, which is
        decorated and calls a check of its own.

    Returns
    -------
    BinaryTarget
        The mask of positives, the weights and the classes.
    """
    y = column_or_1d(y, warn=True)
    check_no_label_is_missing(y, "y")
    assert_all_finite(y, input_name="y")
    classes = _two_classes(y, estimator)
    pos_index = 1 if pos_label is None else _index_of(pos_label, classes)
    positive = np.asarray(y == classes[pos_index], dtype=bool)
    weight, total = None, float(positive.size)
    if sample_weight is not None:
        given = _check_sample_weight(sample_weight, positive)
        weight = check_weights(given, positive)
        with np.errstate(over="ignore"):
            total = float(np.clip(given.sum(), np.count_nonzero(given), MOST_EXAMPLES))
        if not given[~positive].any():
            raise WeightError(
                "`sample_weight` is 0 for every negative example: a classifier needs both "
                "classes; give some negatives a positive weight"
            )
    if pos_label is None:
        _warn_if_common(positive, weight, classes, stacklevel + 1)
    return BinaryTarget(positive, weight, total, classes, pos_index)


def _two_classes(y: NDArray[Any], estimator: str) -> NDArray[Any]:
    """Return the two classes in sorted order."""
    try:
        check_classification_targets(y)
        classes = np.unique(y)
    except TypeError as error:  # labels that cannot be compared, and bytes
        if all(isinstance(label, bytes) for label in y.tolist()):
            raise LabelError(
                "`y` holds labels of type bytes: convert them to text, for example with "
                "[label.decode() for label in y]"
            ) from None
        raise LabelError(
            f"`y` mixes labels of different types ({error}): convert all to text, for example with "
            "y.astype(str)"
        ) from None
    if classes.size > 2:
        raise LabelError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}: `y` holds {classes.size} classes. For one model per class write "
            f"OneVsRestClassifier({estimator}()).fit(X, y), from sklearn.multiclass"
        )
    if classes.size < 2:
        raise LabelError(
            f"`y` holds one class only ({classes.tolist()[0]!r}): a classifier needs examples "
            "of both classes"
        )
    return classes


def _index_of(pos_label: Any, classes: NDArray[Any]) -> int:
    """Return the position of `pos_label` among the classes."""
    labels = classes.tolist()
    if np.ndim(pos_label) == 0 and pos_label in labels:
        return int(labels.index(pos_label))
    hint = ""
    if labels == [0, 1]:
        hint = (
            ". scikit-learn's cross_val_predict, StackingClassifier and VotingClassifier replace "
            f"labels by 0 and 1: give them y == {pos_label!r}, and leave out pos_label"
        )
    raise LabelError(
        f"`pos_label` = {pos_label!r} is not a class of `y`: choose {labels[0]!r} or "
        f"{labels[1]!r}{hint}"
    )


def _warn_if_common(
    positive: Mask, weight: Floats | None, classes: NDArray[Any], stacklevel: int
) -> None:
    """Warn if the more frequent class sorts last, unless labels say which one is positive."""
    if plain_positives(classes) is not None:
        return
    share = float(np.average(positive, weights=weight))
    if share > 0.5:
        rare, common = classes.tolist()
        warnings.warn(
            f"the positive class is {common!r}, the last in sorted order and {share:.1%} of `y`: "
            f"to detect {rare!r}, pass pos_label={rare!r}; to keep {common!r}, "
            f"pos_label={common!r}",
            UserWarning,
            stacklevel=stacklevel,
        )


def warn_if_few(positive: Mask, *, stacklevel: int) -> None:
    """Warn if there are too few positives for a choice by cross-validated AP."""
    count = int(np.count_nonzero(positive))
    if count < FEW_POSITIVES:
        warnings.warn(
            f"`y` holds {count} positive examples, and with fewer than {FEW_POSITIVES} "
            "cross-validated AP is mostly noise: prefer simple models and collect more "
            "positives, or check the model on other data",
            UserWarning,
            stacklevel=stacklevel,
        )
