"""Folds of a training set."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.linear.base import TrainingSet
from apmax.splits import make_splits


class Fold(NamedTuple):
    """One split of the data as row numbers; rows are copied only while a fold is processed."""

    data: TrainingSet
    train_rows: NDArray[np.intp]
    test_rows: NDArray[np.intp]
    number: int = 0

    @property
    def train(self) -> TrainingSet:
        """Return a copy of the training rows, or of a weighted sample of them if they are many."""
        return self.data.thinned(self.number, self._counted(self.train_rows))

    @property
    def test(self) -> TrainingSet:
        """Return a copy of the held-out rows."""
        return self.data.rows(self._counted(self.test_rows))

    def _counted(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of positive weight."""
        return rows if self.data.weight is None else rows[self.data.weight[rows] > 0]


def folds_of(cv: Any, data: TrainingSet, groups: Any = None) -> list[Fold]:
    """Return the folds of a number, a splitter or an iterable of splits."""
    splits = make_splits(cv, data.X, data.positive, data.weight, groups)
    return [Fold(data, train, test, number) for number, (train, test) in enumerate(splits)]
