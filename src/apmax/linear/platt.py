r"""Platt scaling: the log-odds slope·z + offset of a margin z.

Platt (1999), by Newton's method. Labels are smoothed as Platt proposes, so that separated classes
have a finite fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apmax.linear.curve import fit_curve, weighted_quantiles
from apmax.validation import Floats, Mask, shares

LEAST_SLOPE = float(np.exp(-10))
"""Least slope for margins of standard deviation 1; a positive slope keeps the ranking."""
FENCE = 3.0
"""Interquartile ranges beyond the quartiles at which margins are clipped."""
ITERATIONS, HALVINGS = 100, 30
LEAST_DECREASE = 1e-14
"""Smallest decrease of the log-loss that counts; smaller ones are rounding."""
ROUNDING = 64 * np.finfo(np.float64).eps


class Calibration(NamedTuple):
    """Log-odds slope·z + offset of a margin, and limits beyond which they are extrapolation."""

    slope: float
    offset: float
    low: float
    high: float
    curve: Floats | None = None
    """Log-odds slope·z + offset and calibrated log-odds at some points, shape (2, points); None if
    they are equal."""


def calibrate(
    margins: Floats, positive: Mask, weight: Floats | None, total: float, *, curved: bool = False
) -> Calibration:
    """Fit Platt's slope and offset, and a curve, to margins clipped to the outer fences.

    The fences are three interquartile ranges beyond the quartiles of the classes (Tukey), so that
    a few extreme rows do not set the slope. There are none if most margins of both classes are
    equal. The limits are the fences in log-odds, or the ends of the curve; they include 0, so that
    limiting the log-odds never changes the predicted class. Without `curved` there is no curve.
    """
    share = shares(weight, positive.size)
    quartiles = np.array(
        [
            weighted_quantiles(margins[rows], share[rows], (0.25, 0.75))
            for rows in (positive, ~positive)
        ]
    )
    reach = FENCE * float(np.max(quartiles[:, 1] - quartiles[:, 0])) or np.inf
    low, high = float(quartiles[:, 0].min() - reach), float(quartiles[:, 1].max() + reach)
    clipped = np.clip(margins, low, high)
    slope, offset = platt(clipped, positive, weight, total)
    plus = float(share[positive].sum())
    targets = smoothed_targets(total * plus, total * (1.0 - plus))
    found = None
    if curved:
        found = fit_curve(slope * clipped + offset, positive, share, targets, total)
    if found is not None:
        slope, offset = found.scale * slope, found.scale * offset + found.shift
        curve = np.array([found.knots, found.values])
        return Calibration(slope, offset, float(found.knots[0]), float(found.knots[-1]), curve)
    low, high = min(slope * low + offset, 0.0), max(slope * high + offset, 0.0)
    return Calibration(slope, offset, low, high)


def limited(log_odds: Floats, low: float, high: float, curve: Floats | None = None) -> Floats:
    """Return points on the curve that exceed its limits by less than 1, in the same order."""
    below, above = np.maximum(low - log_odds, 0.0), np.maximum(log_odds - high, 0.0)
    inside = np.clip(log_odds, low, high)
    if curve is not None:
        inside = np.interp(inside, *curve)
    return np.asarray(inside + above / (1.0 + above) - below / (1.0 + below))


def platt(
    margins: Floats, positive: Mask, weight: Floats | None, total: float
) -> tuple[float, float]:
    """Return (slope > 0, offset) of maximum likelihood; `total` is Σ weights."""
    share = shares(weight, positive.size)
    plus = total * float(share[positive].sum())
    minus = total * float(share[~positive].sum())
    targets = smoothed_targets(plus, minus)
    centre, spread = centre_and_spread(margins, share)
    unit = spread or 1.0
    z = (margins - centre) / unit if spread else np.zeros(margins.size)
    prior = float(np.log((plus + 1) / (minus + 1)))
    a, b = _newton(z, positive, share, targets, np.array([1.0, prior]), free=2)
    if a < LEAST_SLOPE:
        a, b = _newton(z, positive, share, targets, np.array([LEAST_SLOPE, prior]), free=1)
    slope = float(a) / unit
    return slope, float(b) - slope * centre


def smoothed_targets(plus: float, minus: float) -> tuple[float, float]:
    """Return Platt's targets of negatives and of positives, by their numbers."""
    return 1 / (minus + 2), (plus + 1) / (plus + 2)


def centre_and_spread(margins: Floats, share: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; a deviation within rounding is 0."""
    if np.ptp(margins) <= ROUNDING * np.abs(margins).max():
        return float(margins[0]), 0.0
    centre = float(np.einsum("i,i", share, margins))  # not BLAS: waking its threads takes longer
    spread = float(np.sqrt(np.einsum("i,i", share, np.square(margins - centre))))
    return centre, spread


def _newton(
    z: Floats, positive: Mask, share: Floats, targets: tuple[float, float], p: Floats, free: int
) -> Floats:
    """Minimise the log-loss of p₀z + p₁ over the last `free` parameters.

    A step is halved until the slope along it no longer points back by more than a tenth of its
    first value; the loss is convex, so its value is not needed.
    """
    from apmax.linear._logloss import smoothed_log_loss_derivatives

    def derivatives(p: Floats) -> tuple[Floats, Floats]:
        g0, g1, h00, h01, h11 = smoothed_log_loss_derivatives(
            z, positive, share, *targets, float(p[0]), float(p[1])
        )
        return np.array([g0, g1]), np.array([[h00, h01], [h01, h11]])

    moving = slice(2 - free, 2)
    gradient, hessian = derivatives(p)
    for _ in range(ITERATIONS):
        step = np.zeros(2)
        curvature = hessian[moving, moving] + 1e-12 * np.eye(free)
        step[moving] = -np.linalg.solve(curvature, gradient[moving])
        decrease = -float(step @ gradient)
        if decrease < LEAST_DECREASE:
            break
        for halving in range(HALVINGS):
            trial = p + step / 2**halving
            found = derivatives(trial)
            if step @ found[0] <= decrease / 10:
                p, (gradient, hessian) = trial, found
                break
        else:
            break  # no step improves: rounding is reached
    return p
