"""Held-out margins of the models of the folds, and their calibration."""

from __future__ import annotations

import numpy as np

from apmax.linear.base import TrainingSet
from apmax.linear.design import product
from apmax.linear.folds import Fold
from apmax.linear.platt import Calibration, calibrate
from apmax.splits import mean_held_out
from apmax.validation import Floats


def held_out_margins(folds: list[Fold], models: list[Floats]) -> Floats:
    """Return the margins by each fold's model of the rows that it has not seen, otherwise NaN.

    Rows that several folds hold out have the mean of their margins.
    """
    margins = [
        product(fold.data.X[fold.test_rows], w[:-1]) + w[-1]
        for fold, w in zip(folds, models, strict=True)
    ]
    splits = [(fold.train_rows, fold.test_rows) for fold in folds]
    return mean_held_out(splits, margins, folds[0].data.positive.size)


def calibration_of(margins: Floats, data: TrainingSet, *, curved: bool) -> Calibration:
    """Calibrate held-out margins."""
    seen = ~np.isnan(margins)
    if data.weight is not None:
        seen &= data.weight > 0
    weight = None if data.weight is None else data.weight[seen]
    return calibrate(margins[seen], data.positive[seen], weight, data.total, curved=curved)
