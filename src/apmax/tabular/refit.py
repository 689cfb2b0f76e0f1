"""Coefficients of an additive model, fitted block by block to more rows than memory holds.

A fit to a sample has chosen the basis functions, C, and the weights of the alphas. The fits here
are those of :class:`apmax.APClassifierCV` to all data, from the coefficients of the sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.interrupts import interrupt_on_hold, raise_if_interrupted
from apmax.lbfgs import Minimum, Objective, minimise
from apmax.linear import APClassifierCV, FitResult
from apmax.linear.classifier_cv import result_of
from apmax.linear.design import Design
from apmax.linear.full_batch import relative_penalty
from apmax.linear.path import GAIN_PER_TOL
from apmax.linear.platt import platt
from apmax.scale.blocks import Block, Engine, Progress
from apmax.scale.calibration import BINS, calibrate_blocks
from apmax.scale.fit import LEAST_GAIN, LOGISTIC_ITERATIONS, ap_objective, logistic_objective
from apmax.scale.sums import (
    Scaling,
    Statistics,
    Sums,
    add,
    histogram,
    margins,
    merge_statistics,
    statistics,
)
from apmax.validation import Floats

LOGISTIC_TOL = 1e-3
"""Largest gradient of the log-loss relative to the share of the rarer class, to which gradients are
proportional."""


def refit(engine: Engine, linear: APClassifierCV, progress: Progress) -> tuple[Floats, FitResult]:
    """Return coefficients and, last, the intercept of a model fitted to all rows.

    They are the mean of fits to all rows and of `linear`, both standardised, since a mean of models
    of different rows varies less: :class:`apmax.APClassifierCV` averages fits to all data and to
    the folds likewise.

    Log-odds of `linear` are calibrated on held-out rows of the sample. Calibrated on the training
    rows, they would be larger; those of the result are reduced from there in the same proportion.
    """
    of_columns, *of_classes = engine.fold(weighted_sums, add)
    mass, rows = (float(one.sum()) for one in of_classes)
    total, rare = max(mass, rows), float(of_classes[0].min()) / mass
    scaling = Scaling(of_columns / mass, np.ones(engine.features))
    design = Design(np.empty((0, engine.features)), *scaling[::-1])
    start = design.scaled(np.append(linear.coef_[0], linear.intercept_))
    ((_, weights),) = linear.weights_.items()
    path, used = linear._checked_path(), np.flatnonzero(weights[1:])
    fits: list[Minimum] = []

    def fitted(objective: Objective, w: Floats, **options: Any) -> Floats:
        fits.append(minimise(objective, w, **options))
        raise_if_interrupted()
        progress.report("all rows", len(fits), 1 + used.size)
        return fits[-1].w

    w = fitted(
        logistic_objective(engine, scaling, mass, 1 / (2 * linear.C_ * total)),
        start,
        max_iter=LOGISTIC_ITERATIONS,
        tol=LOGISTIC_TOL * rare,
        least_gain=LEAST_GAIN,
    )
    mean = weights[0] * _standardised(engine, scaling, w)
    anchor = w = _calibrated(engine, scaling, w, total)
    for k in used:
        penalty = relative_penalty(path.alphas[k], anchor)
        w = fitted(
            ap_objective(engine, scaling, path.gamma, penalty, anchor),
            w,
            max_iter=path.max_iter,
            tol=path.tol,
            least_gain=GAIN_PER_TOL * path.tol,
        )
        mean += weights[1 + k] * _standardised(engine, scaling, w)
    mean = (_standardised(engine, scaling, mean) + _standardised(engine, scaling, start)) / 2
    with interrupt_on_hold():
        before, after = (calibrate_blocks(engine, scaling, one, total) for one in (start, mean))
    out = after.slope / before.slope * mean
    out[-1] += (after.offset - before.offset) / before.slope
    return design.unscaled(out), result_of(fits)


def weighted_sums(block: Block) -> Sums:
    """Return Σ v x, and for each class Σ v and the number of rows of positive weight."""
    v = block.weight if block.weight.size else np.ones(block.positive.size)
    of_classes = [np.bincount(block.positive, each, 2).astype(np.float64) for each in (v, v > 0)]
    return block.X.T @ v, *of_classes


def margin_statistics(block: Block, scaling: Scaling, w: Floats) -> Statistics:
    """Return mean and deviation of the margins."""
    return statistics(block._replace(X=margins(block, scaling, w)[:, None]))


def _standardised(engine: Engine, scaling: Scaling, w: Floats) -> Floats:
    """Return w with margins of mean 0 and deviation 1."""
    found = engine.fold(margin_statistics, merge_statistics, scaling, w)
    deviation = float(np.sqrt(found.squares[0] / found.weight.sum())) or 1.0
    out = w / deviation
    out[-1] -= found.mean[0] / deviation
    return np.asarray(out)


def _calibrated(engine: Engine, scaling: Scaling, w: Floats, total: float) -> Floats:
    """Return w with its margins scaled to log-odds, as :mod:`apmax.linear.path` does."""
    found = engine.fold(margin_statistics, merge_statistics, scaling, w)
    low, high = float(found.lowest[0]), float(found.highest[0])
    count, sums = engine.fold(histogram, add, scaling, w, low, high, BINS)
    there = count > 0
    positive = np.broadcast_to([[False], [True]], count.shape)[there]
    slope, offset = platt(sums[there] / count[there], positive, count[there], total)
    return np.append(slope * w[:-1], slope * w[-1] + offset)
