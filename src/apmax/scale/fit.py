"""The fit of :class:`apmax.APClassifier` by folds over blocks of rows.

Scaling takes one pass, logistic regression and the AP objective one per evaluation (two for wide
or sparse features), calibration a few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from apmax.blas_threads import one_blas_thread
from apmax.errors import BackendError, WeightError
from apmax.interrupts import (
    CooperativeInterrupt,
    interrupt_on_hold,
    interrupted,
    raise_if_interrupted,
)
from apmax.lbfgs import Minimum, Objective, minimise
from apmax.linear.design import Design, FeatureRange, check_that_squares_fit, maximum
from apmax.linear.full_batch import relative_penalty
from apmax.linear.history import HistoryRow
from apmax.linear.platt import Calibration
from apmax.linear.result import FitResult
from apmax.objective._summary import MAX_GAMMA
from apmax.objective.surrogates import LOGISTIC, Surrogate
from apmax.scale.blocks import LARGEST_WEIGHT, Engine, Progress
from apmax.scale.calibration import calibrate_blocks
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.sums import (
    ONE_PASS_FEATURES,
    Scaling,
    Statistics,
    add,
    ap_of_moments,
    ap_of_vector_moments,
    gradient,
    log_loss,
    merge_statistics,
    moments,
    statistics,
    vector_moments,
)
from apmax.validation import Floats

LOGISTIC_ITERATIONS, LOGISTIC_TOL = 1000, 1e-4
LEAST_GAIN = 64 * float(np.finfo(np.float64).eps)
"""Stopping rules of the logistic regression, as in :func:`apmax.linear.full_batch.fit_logistic`."""


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit."""

    gamma: float
    alpha: float
    max_iter: int
    tol: float
    C: float


class LinearFit(NamedTuple):
    """A fitted linear model."""

    design: Design
    """Without rows: the scaling of the features."""
    w: Floats
    anchor: Floats
    calibration: Calibration
    history: dict[str, Any]
    result: FitResult
    statistics: Statistics


def check_surrogate(surrogate: Surrogate, gamma: float) -> None:
    """Refuse surrogates whose pair sums are not functions of a few moments."""
    if surrogate != LOGISTIC:
        raise BackendError(
            f"`surrogate` = {surrogate.name!r} cannot be fitted block by block: only "
            '"logistic" has a summary that merges over blocks; use it, or fit a sample that fits '
            "into memory (apmax.scale.sample_negatives) with fit"
        )
    if gamma > MAX_GAMMA:
        raise BackendError(
            f"`gamma` = {gamma:g} is above {MAX_GAMMA:g}, the largest that can be fitted block by "
            "block: use a smaller one, or fit a sample that fits into memory with fit"
        )


def fit(
    engine: Engine,
    settings: Settings,
    *,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> LinearFit:
    """Fit scaling, logistic regression, the AP objective and the calibration."""
    # Products of BLAS are small here; waiting for its threads would take longer.
    with one_blas_thread():
        return _fit(engine, settings, checkpoint or Checkpoint(None), progress or Progress())


def _fit(
    engine: Engine, settings: Settings, checkpoint: Checkpoint, progress: Progress
) -> LinearFit:
    found = engine.fold(statistics, merge_statistics)
    raise_if_interrupted()
    _check(found)
    scaling = scaling_of(found, engine.sparse)
    checkpoint.load(asdict(settings), found)
    anchor = checkpoint.anchor
    if anchor is None:
        logistic = _fit_logistic(engine, scaling, found, settings, checkpoint, progress)
        anchor = logistic.w
        if not logistic.interrupted:
            checkpoint.keep_anchor(anchor)
    w, rows, result = _fit_ap(engine, scaling, settings, checkpoint, anchor, progress)
    with interrupt_on_hold():
        calibration = calibrate_blocks(engine, scaling, w, found.total)
    if not result.interrupted:
        checkpoint.remove()
    table = np.array(rows, dtype=np.float64).reshape(-1, len(HistoryRow._fields))
    columns = dict(zip(HistoryRow._fields, table.T, strict=True))
    design = Design(np.empty((0, engine.features)), scaling.scale, scaling.centre)
    return LinearFit(design, w, anchor, calibration, columns, result, found)


def scaling_of(found: Statistics, sparse: bool) -> Scaling:
    """Scale dense features to standard deviation 1 and sparse ones to largest absolute value 1.

    The rules are those of :func:`apmax.linear.design.make_design`.
    """
    largest = np.maximum(found.highest, -found.lowest)
    check_that_squares_fit(largest)
    centre = found.mean
    if sparse:
        away = np.maximum(found.highest - centre, centre - found.lowest)
        one_sided = (found.lowest > 0) | (found.highest < 0)
        centre = np.where(one_sided & (2 * away < largest), centre, 0.0)
        size = maximum(None, None, FeatureRange(found.lowest, found.highest, centre))
    else:
        size = np.sqrt(found.squares / found.weight.sum())
    rounding = (1e-6 if found.single else 1e-12) * largest
    scale = np.divide(1.0, size, out=np.zeros(size.size), where=size > rounding)
    return Scaling(centre, scale)


def logistic_objective(engine: Engine, scaling: Scaling, mass: float, penalty: float) -> Objective:
    """Return mean log-loss + penalty·‖w‖²; one pass."""

    def objective(w: Floats) -> tuple[float, Floats]:
        value, slope = engine.fold(log_loss, add, scaling, w)
        slope = slope / mass
        slope[:-1] += 2.0 * penalty * w[:-1]
        return float(value) / mass + penalty * float(w[:-1] @ w[:-1]), slope

    return objective


def ap_objective(
    engine: Engine, scaling: Scaling, gamma: float, penalty: float, anchor: Floats
) -> Objective:
    """Return −ÂP + penalty·‖w − anchor‖²; one pass, or two for wide or sparse features."""
    one_pass = not engine.sparse and engine.features <= ONE_PASS_FEATURES

    def ap(w: Floats) -> Any:
        if one_pass:
            return engine.fold(vector_moments, add, scaling, w, gamma, finish=ap_of_vector_moments)
        value, *polynomials = engine.fold(moments, add, scaling, w, gamma, finish=ap_of_moments)
        return value, *engine.fold(gradient, add, scaling, w, *polynomials)

    def objective(w: Floats) -> tuple[float, Floats]:
        value, slope = ap(w)
        slope = -slope
        away = w[:-1] - anchor[:-1]
        slope[:-1] += 2.0 * penalty * away
        return -value + penalty * float(away @ away), slope

    return objective


def _fit_logistic(
    engine: Engine,
    scaling: Scaling,
    found: Statistics,
    settings: Settings,
    checkpoint: Checkpoint,
    progress: Progress,
) -> Minimum:
    """Return the logistic regression that anchors the fit."""
    done = 0

    def record(w: Floats, value: float, slope: Floats) -> None:
        nonlocal done
        done += 1
        progress.report("logistic regression", done, LOGISTIC_ITERATIONS)

    penalty = 1 / (2 * settings.C * found.total)
    objective = logistic_objective(engine, scaling, found.weight.sum(), penalty)
    minimum = minimise(
        _remembering(checkpoint.recorded(objective)),
        np.zeros(engine.features + 1),
        max_iter=LOGISTIC_ITERATIONS,
        tol=LOGISTIC_TOL,
        least_gain=LEAST_GAIN,
        each_iteration=record,
    )
    if minimum.interrupted and minimum.iterations == 0:  # there is nothing to keep
        raise_if_interrupted()
    return minimum


def _fit_ap(
    engine: Engine,
    scaling: Scaling,
    settings: Settings,
    checkpoint: Checkpoint,
    anchor: Floats,
    progress: Progress,
) -> tuple[Floats, list[HistoryRow], FitResult]:
    """Follow average precision from the anchor."""
    message = "interrupted: kept the logistic regression"
    kept: tuple[Floats, list[HistoryRow], FitResult]
    kept = anchor, [], FitResult(False, True, message, 0)
    if interrupted():
        return kept
    penalty = relative_penalty(settings.alpha, anchor)
    objective = _remembering(
        checkpoint.recorded(ap_objective(engine, scaling, settings.gamma, penalty, anchor))
    )
    rows: list[HistoryRow] = []

    def record(w: Floats, value: float, slope: Floats) -> None:
        away = w[:-1] - anchor[:-1]
        ap, step, norm = -value + penalty * float(away @ away), len(rows), np.linalg.norm(slope)
        rows.append(HistoryRow(step, checkpoint.seconds, ap, np.nan, np.nan, float(norm)))
        progress.report("average precision", step, settings.max_iter, ap)

    try:
        record(anchor, *objective(anchor))
    except CooperativeInterrupt:
        return kept
    found = minimise(
        objective, anchor, max_iter=settings.max_iter, tol=settings.tol, each_iteration=record
    )
    message = found.message
    if not (found.converged or found.interrupted):
        message += ": increase max_iter, tol or alpha"
    return found.w, rows, FitResult(found.converged, found.interrupted, message, found.iterations)


def _remembering(objective: Callable[[Floats], tuple[float, Floats]]) -> Objective:
    """Keep the last result: the callback of an iteration asks for it again."""
    last: list[Any] = []

    def remembered(w: Floats) -> tuple[float, Floats]:
        if not last or not np.array_equal(last[0], w):
            last[:] = [w.copy(), *objective(w)]
        return last[1], last[2].copy()

    return remembered


def _check(found: Statistics) -> None:
    if found.least_weight < found.largest_weight * 1e-100:
        raise WeightError(
            f"`sample_weight` ranges from {found.least_weight:g} to {found.largest_weight:g}, too "
            "wide for double precision: use 0 to leave examples out"
        )
    if not 1 / LARGEST_WEIGHT <= found.largest_weight <= LARGEST_WEIGHT:
        raise WeightError(
            f"`sample_weight` has a largest value of {found.largest_weight:g}, whose sums of "
            "products overflow or underflow: divide all weights by their mean"
        )
