"""The design matrix, dense or CSR, with a scale per feature that is never applied to it.

Solvers work in the space of the scaled features, x·scale, where one step size suits every
coordinate, and read X as it is: no scaled copy, no densified sparse matrix. (SciPy widens the
entries of a sparse float32 X while a product lasts.) What they find is multiplied by the
scale at the end, so that ``coef_`` belongs to the features as given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from apmax.errors import NonFiniteError
from apmax.registry import Registry
from apmax.validation import Floats, shares

BLOCK = 8192
LARGEST, SMALLEST = 1e150, 1e-150
"""Of a feature's largest value: sums of squares are finite and above 0, for any number of rows."""


class Design:
    """X with n rows and d features; parameters are d weights and, last, the intercept.

    Features are read as (x − centre)·scale, without a change of X. One far from 0 would drown the
    intercept in its weight, so features are centred; sparse ones only if they have no zeros.
    """

    def __init__(self, X: Any, scale: Floats | None = None, centre: Floats | None = None) -> None:
        self.X = X if sp.issparse(X) else np.ascontiguousarray(X)
        self.scale = np.ones(X.shape[1]) if scale is None else scale
        self.centre = np.zeros(X.shape[1]) if centre is None else centre

    @property
    def parameters(self) -> int:
        """Length of w: the features and the intercept."""
        return int(self.X.shape[1]) + 1

    def margins(self, w: Floats) -> Floats:
        """z = (X − centre)·scale·w + b."""
        inner = self.scale * w[:-1]
        return np.asarray(product(self.X, inner) + (w[-1] - self.centre @ inner))

    def pull_back(self, slopes: Floats) -> Floats:
        """∂/∂(w, b) of a function of the margins, from its slopes ∂/∂z."""
        total = slopes.sum()
        return np.append((pulled(self.X, slopes) - self.centre * total) * self.scale, total)

    def unscaled(self, w: Floats) -> Floats:
        """The same function of the features as they were given."""
        weights = w[:-1] * self.scale
        return np.append(weights, w[-1] - self.centre @ weights)

    def scaled(self, w: Floats) -> Floats:
        """The inverse of :meth:`unscaled`; weights of constant features are 0."""
        weights = np.divide(w[:-1], self.scale, out=np.zeros(w.size - 1), where=self.scale > 0)
        return np.append(weights, w[-1] + self.centre @ w[:-1])

    def of(self, X: Any) -> Design:
        """Other rows, read in the same way."""
        return Design(X, self.scale, self.centre)


def product(X: Any, w: Floats) -> Floats:
    """X·w. Narrow dense X goes in blocks: NumPy would widen all of it at once."""
    if sp.issparse(X) or X.dtype == np.float64:
        return np.asarray(X @ w, dtype=np.float64)
    out = np.empty(X.shape[0])
    for start in range(0, out.size, BLOCK):
        rows = slice(start, start + BLOCK)
        out[rows] = X[rows] @ w
    return out


def pulled(X: Any, slopes: Floats) -> Floats:
    """Xᵀ·slopes, in blocks as in :func:`product`."""
    if sp.issparse(X) or X.dtype == np.float64:
        return np.asarray(X.T @ slopes, dtype=np.float64)
    out = np.zeros(X.shape[1])
    for start in range(0, X.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        out += slopes[rows] @ X[rows]
    return out


class Place(NamedTuple):
    """Where the values of each feature lie, over the rows of X."""

    lowest: Floats
    highest: Floats
    centre: Floats
    """What is subtracted: the mean, or 0 for the sparse features that are not far from it."""


def make_design(X: Any, how: str, weight: Floats | None) -> Design:
    """X scaled to unit deviation or unit maximum, and centred if it is dense.

    A sparse feature is centred only where that leaves less than half of it, as of a year: it
    has no zeros then.
    """
    lowest, highest = extent(X)
    largest = np.maximum(highest, -lowest)
    _check_that_squares_fit(largest)
    centre = _centre(X, weight, lowest, highest)
    size = SCALES.choose(how)(X, weight, Place(lowest, highest, centre))
    rounding = (1e-6 if X.dtype == np.float32 else 1e-12) * largest
    scale = np.divide(1.0, size, out=np.zeros(size.size), where=size > rounding)
    return Design(X, scale, centre)


def _centre(X: Any, weight: Floats | None, lowest: Floats, highest: Floats) -> Floats:
    """The mean of dense features, and of sparse ones whose values are nearer to it than to 0."""
    if not sp.issparse(X):
        return mean_of(X, weight)
    if not ((lowest > 0) | (highest < 0)).any():
        return np.zeros(X.shape[1])
    mean = mean_of(X, weight)
    away = np.maximum(highest - mean, mean - lowest)
    return np.where(2 * away < np.maximum(highest, -lowest), mean, 0.0)


def _check_that_squares_fit(largest: Floats) -> None:
    if largest.max() > LARGEST:
        feature = int(largest.argmax())
        raise NonFiniteError(
            f"`X` reaches {largest[feature]:g} in feature {feature}, and squares of numbers above "
            f"{LARGEST:g} are infinite in double precision: divide the feature by a constant"
        )
    smallest = np.where(largest > 0, largest, np.inf)
    if smallest.min() < SMALLEST:
        feature = int(smallest.argmin())
        raise NonFiniteError(
            f"`X` reaches only {largest[feature]:g} in feature {feature}, and squares of numbers "
            f"below {SMALLEST:g} are 0 in double precision: multiply the feature by a constant"
        )


def mean_of(X: Any, weight: Floats | None) -> Floats:
    """The weighted mean of each feature."""
    return pulled(X, shares(weight, X.shape[0]))


def deviation(X: Any, weight: Floats | None, place: Place) -> Floats:
    """The standard deviation of each feature; X is not copied."""
    n = X.shape[0]
    share = shares(weight, n)
    mean = mean_of(X, weight) if sp.issparse(X) else place.centre
    variance = np.zeros(X.shape[1])
    filled = np.zeros(X.shape[1])
    for start in range(0, n, BLOCK):  # in blocks: no second X in memory
        rows, of_rows = X[start : start + BLOCK], share[start : start + BLOCK]
        if not sp.issparse(X):
            variance += of_rows @ np.square(rows - mean)
            continue
        of_entries = np.repeat(of_rows, np.diff(rows.indptr))
        squares = of_entries * np.square(rows.data - mean[rows.indices])
        np.add.at(variance, rows.indices, squares)
        np.add.at(filled, rows.indices, of_entries)
    if sp.issparse(X):
        variance += np.maximum(1.0 - filled, 0.0) * mean**2  # the entries that are not stored
    return np.sqrt(variance)


def maximum(X: Any, weight: Floats | None, place: Place) -> Floats:
    """The largest distance of each feature from its centre."""
    return np.maximum(place.highest - place.centre, place.centre - place.lowest)


def extent(X: Any) -> tuple[Floats, Floats]:
    """The least and the largest value of each feature; entries that are not stored are zeros."""
    if not sp.issparse(X):
        return X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    from apmax.linear._columns import extent_of_columns

    lowest, highest = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    stored = np.zeros(X.shape[1], np.int64)
    extent_of_columns(X.indices, X.data, X.shape[0], stored, lowest, highest)
    return lowest, highest


SCALES: Registry[Callable[[Any, Floats | None, Place], Floats]] = Registry(
    "scale", {"deviation": deviation, "maximum": maximum}
)
"""What a feature is divided by. Deviation suits dense features; maximum leaves the zeros and
ones of sparse ones alone."""
