"""Held-out margins of the models of the folds, and their calibration."""

from __future__ import annotations

import warnings

import numpy as np

from apmax.binary_target import FEW_POSITIVES
from apmax.linear.base import TrainingSet
from apmax.linear.design import product
from apmax.linear.folds import Fold
from apmax.linear.platt import Calibration, calibrate, misfit
from apmax.splits import mean_held_out
from apmax.validation import Floats

MISFIT = 0.03
"""Share of the log-loss lost to linear log-odds from which a fit warns."""


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


def calibration_of(margins: Floats, data: TrainingSet) -> Calibration:
    """Calibrate held-out margins, and warn if their log-odds are not linear."""
    seen = ~np.isnan(margins)
    if data.weight is not None:
        seen &= data.weight > 0
    positive, weight = data.positive[seen], None if data.weight is None else data.weight[seen]
    fit = calibrate(margins[seen], positive, weight, data.total)
    enough = np.count_nonzero(positive) >= 2 * FEW_POSITIVES
    saved = misfit(margins[seen], positive, weight, fit) if enough else 0.0
    if saved > MISFIT:
        warnings.warn(
            f"the log-odds are not linear in the score: probabilities by bins would have a "
            f"log-loss {saved:.0%} lower; the ranking is not affected. For better probabilities "
            "use AdditiveAPClassifier, or CalibratedClassifierCV(model, method='isotonic'), or "
            "transform skewed features, for example with QuantileTransformer",
            UserWarning,
            stacklevel=5,
        )
    return fit
