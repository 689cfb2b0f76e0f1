r"""Platt scaling: the log-odds slope·z + offset of a margin z.

Platt (1999), by Newton's method. Labels are smoothed as Platt proposes, so that separated classes
have a finite fit.
"""

from __future__ import annotations

import numpy as np

from apmax.validation import Floats, Mask, shares

LEAST_SLOPE = float(np.exp(-10))
"""Least slope for margins of unit deviation; a positive slope keeps the ranking."""
ITERATIONS, HALVINGS = 100, 30
LEAST_DECREASE = 1e-14
"""Smallest decrease of the log-loss that counts; smaller ones are rounding."""
ROUNDING = 64 * np.finfo(np.float64).eps


def platt(
    margins: Floats, positive: Mask, weight: Floats | None, total: float
) -> tuple[float, float]:
    """Return (slope > 0, offset) of maximum likelihood; `total` is Σ weights."""
    share = shares(weight, positive.size)
    plus = total * float(share[positive].sum())
    minus = total * float(share[~positive].sum())
    targets = 1 / (minus + 2), (plus + 1) / (plus + 2)
    centre, spread = centre_and_spread(margins, share)
    unit = spread or 1.0
    z = (margins - centre) / unit if spread else np.zeros(margins.size)
    prior = float(np.log((plus + 1) / (minus + 1)))
    a, b = _newton(z, positive, share, targets, np.array([1.0, prior]), free=2)
    if a < LEAST_SLOPE:
        a, b = _newton(z, positive, share, targets, np.array([LEAST_SLOPE, prior]), free=1)
    slope = float(a) / unit
    return slope, float(b) - slope * centre


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
