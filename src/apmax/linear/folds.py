"""Cross-validation splits, validated before any work."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, check_cv

from apmax.errors import ParameterError
from apmax.linear.base import TrainingSet
from apmax.linear.thinning import thinned
from apmax.validation import Mask

DEFAULT_FOLDS = 5


class Fold(NamedTuple):
    """One split of the data as row numbers; rows are copied only while a fold is processed."""

    data: TrainingSet
    train_rows: NDArray[np.intp]
    test_rows: NDArray[np.intp]
    number: int = 0

    @property
    def train(self) -> TrainingSet:
        """Return a copy of the training rows, or of a weighted sample of them if they are many."""
        return thinned(self.data.rows(self.train_rows).without_zero_weights(), self.number)

    @property
    def test(self) -> TrainingSet:
        """Return a copy of the held-out rows."""
        return self.data.rows(self.test_rows).without_zero_weights()


def is_number_of_folds(cv: Any) -> bool:
    """Return whether `cv` is a number of folds; None is five, or fewer if a class is smaller."""
    return cv is None or isinstance(cv, (int, np.integer))


def folds_of(cv: Any, data: TrainingSet) -> list[Fold]:
    """Return the folds of a number, a splitter or an iterable of splits."""
    if is_number_of_folds(cv):
        cv = _stratified(cv, data.positive)
    folds = [
        Fold(data, train, test, number) for number, (train, test) in enumerate(_splits(cv, data))
    ]
    if not folds:
        raise ParameterError("`cv` yields no split: give at least one, or a number of folds")
    for number, fold in enumerate(folds):
        _check_classes(fold, number)
    return folds


def _stratified(cv: int | None, positive: Mask) -> StratifiedKFold:
    fewest = int(min(positive.sum(), (~positive).sum()))
    count = min(DEFAULT_FOLDS, max(2, fewest)) if cv is None else int(cv)
    if count < 2:
        raise ParameterError(f"`cv` = {count} must be at least 2: each fold is held out once")
    if count > fewest:
        raise ParameterError(
            f"`cv` = {count} needs that many examples of each class, but one class has {fewest}: "
            f"{'lower cv, or ' if fewest > 1 else ''}use APClassifier"
        )
    return StratifiedKFold(count, shuffle=True, random_state=0)


def _splits(cv: Any, data: TrainingSet) -> list[tuple[Any, ...]]:
    """Return pairs of training and held-out row numbers, given as numbers or masks."""
    every = np.arange(data.positive.size)
    try:
        splits = check_cv(cv, data.positive, classifier=True).split(data.X, data.positive)
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in splits]
        return [tuple(every[part if part.size else []] for part in pair) for pair in pairs]
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"`cv` cannot split the {every.size} rows of X ({error}): give a number of folds, a "
            "splitter, or pairs of rows; for a splitter that needs groups, "
            "cv=list(splitter.split(X, y, groups))"
        ) from error


def _check_classes(fold: Fold, number: int) -> None:
    """Check that both parts hold both classes with positive weight."""
    weight = fold.data.weight
    for name, rows in (("fits", fold.train_rows), ("holds out", fold.test_rows)):
        positive = fold.data.positive[rows]
        if weight is not None:
            positive = positive[weight[rows] > 0]
        if positive.all() or not positive.any():
            which = "negative" if positive.any() else "positive"
            raise ParameterError(
                f"split {number} of `cv` {name} no {which} example: every part needs both classes; "
                "use StratifiedKFold, fewer folds, or other splits"
            )
