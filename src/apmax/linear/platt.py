r"""Platt scaling: the log-odds slope·z + offset of a margin z.

Platt (1999), with the Newton steps of Lin, Lin and Weng (2007). Labels are smoothed as Platt
proposes, so that separated classes have a finite fit.
"""

from __future__ import annotations

import numpy as np

from apmax.validation import Floats, Mask, shares

LEAST_SLOPE = float(np.exp(-10))
"""Least slope for margins of unit deviation; a positive slope keeps the ranking."""
ITERATIONS, HALVINGS, OVERSHOOT = 100, 30, 0.1
SAMPLE = 2048
"""Examples per class used for the first Newton steps on large data."""
ROUNDING = 64 * np.finfo(np.float64).eps
LEAST_DECREASE = 1e-14
"""Smallest decrease of the log-loss that counts; smaller ones are rounding."""


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
    prior = np.log((plus + 1) / (minus + 1))
    start = np.array([1.0, prior])
    if z.size > 4 * SAMPLE:
        start = _newton(*_sample(z, positive, share), targets, start, free=2)
    a, b = _newton(z, positive, share, targets, start, free=2)
    if a < LEAST_SLOPE:
        start = np.array([LEAST_SLOPE, prior])
        a, b = _newton(z, positive, share, targets, start, free=1)
    slope = float(a) / unit
    return slope, float(b) - slope * centre


def centre_and_spread(margins: Floats, share: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; a deviation within rounding is 0."""
    if np.ptp(margins) <= ROUNDING * np.abs(margins).max():
        return float(margins[0]), 0.0
    centre = float(np.einsum("i,i", share, margins))  # not BLAS: waking its threads takes longer
    spread = float(np.sqrt(np.einsum("i,i", share, np.square(margins - centre))))
    return centre, spread


def _sample(z: Floats, positive: Mask, share: Floats) -> tuple[Floats, Mask, Floats]:
    """Return evenly spaced examples of each class, reweighted to the class total."""
    rows = [np.flatnonzero(of_class) for of_class in (positive, ~positive)]
    some = [row[:: max(1, row.size // SAMPLE)] for row in rows]
    shares = [
        share[few] * (share[all_of].sum() / (share[few].sum() or 1.0))
        for few, all_of in zip(some, rows, strict=True)
    ]
    chosen = np.concatenate(some)
    return z[chosen], positive[chosen], np.concatenate(shares)


def _newton(
    z: Floats, positive: Mask, share: Floats, targets: tuple[float, float], p: Floats, free: int
) -> Floats:
    """Minimise the log-loss of p₀z + p₁ over the last `free` parameters, from p.

    A step is halved until the slope along it has not turned up by more than OVERSHOOT of its
    first value. The loss is convex, so its value (a logarithm per example) is not needed.
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
        g = gradient[moving]
        curvature = hessian[moving, moving] + 1e-12 * np.eye(free)
        step = -np.linalg.solve(curvature, g)
        decrease = float(step @ g)
        if -decrease < LEAST_DECREASE:
            break
        for halving in range(HALVINGS):
            trial = p.copy()
            trial[moving] += step / 2**halving
            found = derivatives(trial)
            if step @ found[0][moving] <= -OVERSHOOT * decrease:
                p, (gradient, hessian) = trial, found
                break
        else:
            break  # no step improves: rounding is reached
    return p
