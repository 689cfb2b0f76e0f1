"""Splits of the data for cross-validation: made or taken, and checked before any work."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, check_cv

from apmax.errors import ParameterError
from apmax.linear.base import TrainingSet
from apmax.validation import Mask

DEFAULT_FOLDS = 5


class Fold(NamedTuple):
    """One split of the data, as rows: a copy of them lives only while a fold is worked on."""

    data: TrainingSet
    train_rows: NDArray[np.intp]
    test_rows: NDArray[np.intp]

    @property
    def train(self) -> TrainingSet:
        """A copy of the rows that are fitted."""
        return self.data.rows(self.train_rows).seen()

    @property
    def test(self) -> TrainingSet:
        """A copy of the rows that are held out."""
        return self.data.rows(self.test_rows).seen()


def is_number_of_folds(cv: Any) -> bool:
    """Whether the folds are ours to choose; None is five, or fewer if a class has fewer."""
    return cv is None or isinstance(cv, (int, np.integer))


def folds_of(cv: Any, data: TrainingSet) -> list[Fold]:
    """The folds of a number, a splitter or an iterable of splits; all have both classes."""
    if is_number_of_folds(cv):
        cv = _stratified(cv, data.positive)
    folds = [
        Fold(data, *(_rows(part, data, number) for part in split))
        for number, split in enumerate(_splits(cv, data))
    ]
    if not folds:
        raise ParameterError("`cv` gives no split at all: give at least one, or a number of folds")
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
            f"`cv` = {count} needs that many examples of each class, and there are only {fewest} "
            f"of one: {'lower cv, or ' if fewest > 1 else ''}use APClassifier"
        )
    return StratifiedKFold(count, shuffle=True, random_state=0)


def _splits(cv: Any, data: TrainingSet) -> list[tuple[Any, Any]]:
    """Pairs of what is fitted and what is held out."""
    try:
        splits = list(check_cv(cv, data.positive, classifier=True).split(data.X, data.positive))
        return [(train, test) for train, test in splits]
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"`cv` cannot split the data ({error}): give a number of folds, a splitter, or pairs "
            "of rows; for a splitter that needs groups, cv=list(splitter.split(X, y, groups))"
        ) from error


def _rows(part: Any, data: TrainingSet, number: int) -> NDArray[np.intp]:
    """Rows as numbers, of numbers or a mask."""
    which = np.asarray(part)
    try:
        return np.asarray(np.arange(data.positive.size)[which if which.size else []])
    except IndexError as error:
        raise ParameterError(
            f"split {number} of `cv` names rows that are not there ({error}): X has "
            f"{data.positive.size} rows, from 0 on"
        ) from None


def _check_classes(fold: Fold, number: int) -> None:
    """AP needs a positive to be judged by and both classes to be learnt from, all with weight."""
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
