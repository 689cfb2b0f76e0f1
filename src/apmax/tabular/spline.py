"""Smooth functions of one number, as tables over a grid of quantiles.

A function is linear between the grid points and constant outside them, so that evaluating it is an
interpolation, and outliers have the effect of the outermost grid point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.special import ndtri

from apmax.linear.curve import quantile_places
from apmax.validation import Floats

GRID = 256
"""Largest number of grid points."""
KNOTS = 8
"""Quantiles at which the cubic pieces of a function meet."""
RIDGE = 0.1
"""Penalty on the size of spline coefficients, relative to that on their second differences."""
DEGREE = 3
TAIL = 1e-3
"""Ranks are clipped to [TAIL, 1 − TAIL] before they are mapped to the normal scale."""


class Interpolation(NamedTuple):
    """Position of values on a grid: the interval, and the share of its right end."""

    left: NDArray[np.intp]
    share: Floats

    @classmethod
    def of(cls, x: Floats, grid: Floats) -> Interpolation:
        """Locate x on the grid; values outside are moved to its ends."""
        left = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, grid.size - 2)
        share = (x - grid[left]) / (grid[left + 1] - grid[left])
        return cls(left, np.clip(share, 0.0, 1.0))

    def __call__(self, table: Floats) -> Floats:
        """Return the values of functions given at the grid points, one per column of `table`."""
        share = self.share[:, None]
        return (1.0 - share) * table[self.left] + share * table[self.left + 1]


class SplineBasis(NamedTuple):
    """Basis functions of a numeric column: a linear one of normal scores of ranks, and splines."""

    grid: Floats
    """Ascending values of the column, shape (g,)."""
    table: Floats
    """Basis functions at the grid points, shape (g, k); their means over the data are 0."""

    @classmethod
    def fit(cls, x: Floats, weight: Floats | None, *, linear: bool = False) -> SplineBasis | None:
        """Place the basis on the values of x without missing ones; None if all are equal.

        With `linear`, or for two distinct values, there are no splines.
        """
        values, share = distinct_values(x, weight)
        if values.size < 2:
            return None
        below = np.cumsum(share)
        z = ndtri(np.clip(below - share / 2, TAIL, 1 - TAIL))
        table = z[:, None]
        if not linear and values.size > 2:
            splines = _splines(z, z[_at_quantiles(share, KNOTS)])
            table = np.column_stack([z, splines @ _smoothing(splines.shape[1])])
        kept = np.arange(values.size) if values.size <= GRID else _at_quantiles(share, GRID)
        grid, table = values[kept], table[kept]
        return cls(grid, table - share @ Interpolation.of(values, grid)(table))

    def __call__(self, x: Floats) -> Floats:
        """Return the basis functions at x, shape (n, k); 0 where x is missing."""
        present = ~np.isnan(x)
        out = np.zeros((x.size, self.table.shape[1]))
        out[present] = Interpolation.of(x[present], self.grid)(self.table)
        return out


def distinct_values(x: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """Return the distinct values in ascending order and their shares of the weight."""
    if weight is None:
        values, count = np.unique(x, return_counts=True)
        return values, count / max(x.size, 1)
    values, place = np.unique(x, return_inverse=True)
    total = np.bincount(place, weights=weight, minlength=values.size)
    values, total = values[total > 0], total[total > 0]
    return values, total / total.sum()


def _at_quantiles(share: Floats, count: int) -> NDArray[np.intp]:
    """Return positions of about `count` quantiles, without repetition.

    A frequent value, such as the zero of an amount, counts no more than half the distance of two
    quantiles, so that the others are placed among the rest.
    """
    below = np.cumsum(np.minimum(share, 0.5 / count))
    places = quantile_places(below, np.linspace(0.0, 1.0, count))
    # Sums of very small shares may not reach the ends, which are always included.
    return np.unique([0, *places, below.size - 1])


def _splines(z: Floats, knots: Floats) -> Floats:
    """Return cubic B-splines with these knots at z, or hats if z has few distinct values."""
    few = z.size <= KNOTS + 2
    inner, degree = (z, 1) if few else (knots, DEGREE)
    inner = np.unique(inner)  # ranks in the tails are equal
    ends = [inner[0]] * degree, [inner[-1]] * degree
    basis = BSpline.design_matrix(z, np.concatenate([ends[0], inner, ends[1]]), degree).toarray()
    return np.asarray(basis)


def _smoothing(count: int) -> Floats:
    """Return combinations of B-splines for which the size of coefficients measures roughness.

    With them, a ridge penalty on the coefficients is the penalty of P-splines (Eilers and Marx,
    1996) on the second differences of the coefficients of the B-splines, plus RIDGE times their
    squares.
    """
    differences = np.diff(np.eye(count), n=2 if count > 3 else 1, axis=0)
    roughness, directions = np.linalg.eigh(differences.T @ differences)
    return np.asarray(directions / np.sqrt(np.maximum(roughness, 0.0) + RIDGE))
