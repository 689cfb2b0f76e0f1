"""A monotone curve from log-odds to calibrated log-odds.

Scores that are trained for average precision are often not linear in the log-odds: the top of the
ranking is steeper than the rest. The curve is piecewise linear and increasing, fitted by penalised
likelihood, and used if it is better than Platt's line by more than its parameters are worth (AIC).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from apmax.validation import Floats, Mask

OF_POSITIVES, OF_ALL = np.linspace(0, 1, 8)[1:-1], np.array([0.25, 0.5, 0.75])
"""Quantiles of the log-odds of positives, and of all, at which the curve may bend."""
BINS = 1000
"""Steps to which log-odds are rounded while the curve is fitted, for each class."""
BEND = 0.3
"""Penalty on squared differences of neighbouring slopes, relative to Platt's."""
LEAST_SLOPE, MOST_SLOPE = 1e-3, 1e3
"""Limits of slopes relative to Platt's; an increasing curve keeps the ranking."""
ROUNDING = 1e-9
"""Relative rounding of cumulative weights."""
LEAST_WIDTH = 1e-3
"""Least distance of neighbouring knots, as a share of the range."""


class Curve(NamedTuple):
    """A line of Platt's log-odds x, and the curve over it."""

    scale: float
    shift: float
    knots: Floats
    """Ascending values of scale·x + shift; 0 is in their range."""
    values: Floats
    """Calibrated log-odds at the knots, ascending, and of the same sign."""


def fit_curve(
    x: Floats, positive: Mask, share: Floats, targets: tuple[float, float], total: float
) -> Curve | None:
    """Fit a curve to Platt's log-odds x, or return None if it is no better than they are.

    `targets` are the smoothed labels of negatives and positives, and `total` is Σ weights. A line
    cannot follow the curve, but has the same sign: it is the best line through the point where the
    curve is 0, or through its end that is nearest to 0.
    """
    plus, minus, mean = _binned(x, positive, share)
    weight = targets[1] * plus + targets[0] * minus
    points = _Points(mean, total * (plus + minus), total * weight)
    places = np.concatenate(
        [
            weighted_quantiles(x[positive], share[positive], OF_POSITIVES),
            weighted_quantiles(x, share, OF_ALL),
        ]
    )
    found = _increasing(points, places)
    if found is None:
        return None
    knots, values = found
    scale, shift = _line_through_half(points, knots, values)
    knots = scale * knots + shift
    if values[-1] < 0:
        knots, values = np.append(knots, 0.0), np.append(values, 0.0)
    if values[0] > 0:
        knots, values = np.append(0.0, knots), np.append(0.0, values)
    return Curve(scale, shift, knots, values)


class _Points(NamedTuple):
    """Platt's log-odds of some bins, their weights, and the weights of positives in them."""

    x: Floats
    weight: Floats
    positive: Floats

    def loss(self, log_odds: Floats) -> float:
        """Return the log-loss of all examples."""
        return float(self.weight @ np.logaddexp(0.0, log_odds) - self.positive @ log_odds)

    def slopes(self, log_odds: Floats) -> Floats:
        """Return its derivatives."""
        return np.asarray(self.weight * expit(log_odds) - self.positive)


def _increasing(points: _Points, places: Floats) -> tuple[Floats, Floats] | None:
    """Return knots and values of the best increasing curve, or None if a line is as good.

    The parameters are the value at the first knot and the slope of each segment.
    """
    first, last = float(points.x.min()), float(points.x.max())
    knots = _apart(np.sort(np.clip(places, first, last)), first, last)
    widths = np.diff(knots)
    if widths.size < 2:
        return None
    lengths = np.clip(points.x[:, None] - knots[:-1], 0.0, widths)
    total = float(points.weight.sum())

    def objective(parameters: Floats) -> tuple[float, Floats]:
        bends = np.diff(parameters[1:])
        log_odds = parameters[0] + lengths @ parameters[1:]
        slopes = points.slopes(log_odds)
        gradient = np.append(slopes.sum(), slopes @ lengths)
        gradient[1:-1] -= 2.0 * BEND * bends
        gradient[2:] += 2.0 * BEND * bends
        value = points.loss(log_odds) + BEND * float(bends @ bends)
        return value / total, gradient / total

    line = np.append(first, np.ones(widths.size))
    bounds = [(None, None)] + [(LEAST_SLOPE, None)] * widths.size
    options = {"ftol": 1e-12, "gtol": 1e-9, "maxiter": 500}
    found = minimize(objective, line, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if total * (objective(line)[0] - float(found.fun)) <= widths.size - 1:
        return None
    start, slopes = found.x[0], found.x[1:]
    return knots, start + np.append(0.0, np.cumsum(slopes * widths))


def _apart(places: Floats, first: float, last: float) -> Floats:
    """Return the ends and those places between them that are not too close to another."""
    least = LEAST_WIDTH * (last - first)
    kept = [first]
    for place in places:
        if place - kept[-1] > least and last - place > least:
            kept.append(float(place))
    return np.array([*kept, last] if last > first else kept)


def _line_through_half(points: _Points, knots: Floats, values: Floats) -> tuple[float, float]:
    """Return scale and shift of the best line with the sign of the curve."""
    zero = float(np.clip(0.0, values[0], values[-1]))
    at = float(np.interp(zero, values, knots))

    def loss(scale: float) -> float:
        return points.loss(zero + scale * (points.x - at))

    scale = float(minimize_scalar(loss, bounds=(LEAST_SLOPE, MOST_SLOPE), method="bounded").x)
    return scale, zero - scale * at


def _binned(margins: Floats, positive: Mask, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the shares of positives and of negatives in bins of margins, and mean margins."""
    levels = np.linspace(0, 1, BINS + 1)
    edges = np.unique(
        np.concatenate(
            [
                weighted_quantiles(margins[rows], share[rows], levels)
                for rows in (positive, ~positive)
            ]
        )
    )
    place = np.searchsorted(edges, margins)
    plus, minus, sums = (
        np.asarray(np.bincount(place, share * factor, minlength=edges.size + 1), float)
        for factor in (positive, ~positive, margins)
    )
    filled = plus + minus > 0
    return plus[filled], minus[filled], sums[filled] / (plus + minus)[filled]


def weighted_quantiles(values: Floats, share: Floats, which: ArrayLike) -> Floats:
    """Return weighted quantiles, for which a weight of 2 is the value twice."""
    order = np.argsort(values)
    return np.asarray(values[order][quantile_places(np.cumsum(share[order]), which)])


def quantile_places(below: Floats, which: ArrayLike) -> NDArray[np.intp]:
    """Return the first positions at which a cumulative weight reaches shares of its total.

    A sum that misses a share by rounding only reaches it.
    """
    wanted = (np.asarray(which) - ROUNDING) * below[-1]
    return np.asarray(np.minimum(np.searchsorted(below, wanted), below.size - 1))
