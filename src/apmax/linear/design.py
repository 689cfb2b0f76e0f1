"""The design matrix, dense or CSR, with a centre and a scale per feature applied on the fly.

Solvers work in the space of the scaled features, where one step size suits every coordinate, but
read X as it is: there is no scaled copy and no densified sparse matrix. The result is transformed
back, so that ``coef_`` refers to the features as given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import min_max_axis

from apmax.errors import NonFiniteError
from apmax.registry import Registry
from apmax.validation import Floats, shares

BLOCK, BLOCK_ENTRIES = 8192, 1 << 16
"""Most rows of a block, and most entries of a block of float32 that is converted."""
LARGEST, SMALLEST = 1e150, 1e-150
"""Limits of a feature's largest absolute value, within which sums of squares are representable."""


class Design:
    """X with n rows and d features; parameters are d weights and, last, the intercept.

    Features are read as (x − centre)·scale. Dense features are centred; sparse features only if
    they have no zeros.
    """

    def __init__(self, X: Any, scale: Floats | None = None, centre: Floats | None = None) -> None:
        self.X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        self.scale = np.ones(X.shape[1]) if scale is None else scale
        self.centre = np.zeros(X.shape[1]) if centre is None else centre

    @property
    def parameters(self) -> int:
        """Return the length of w: the features and the intercept."""
        return int(self.X.shape[1]) + 1

    def margins(self, w: Floats) -> Floats:
        """Return z = (X − centre)·scale·w + b."""
        inner = self.scale * w[:-1]
        return np.asarray(product(self.X, inner) + (w[-1] - self.centre @ inner))

    def vjp(self, slopes: Floats) -> Floats:
        """Return the gradient in (w, b) of a function of the margins with slopes ∂/∂z."""
        total = slopes.sum()
        centred = transposed_product(self.X, slopes) - self.centre * total
        return np.append(centred * self.scale, total)

    def unscaled(self, w: Floats) -> Floats:
        """Return the same function as weights of the features as given."""
        weights = w[:-1] * self.scale
        return np.append(weights, w[-1] - self.centre @ weights)

    def scaled(self, w: Floats) -> Floats:
        """Invert :meth:`unscaled`; weights of constant features are 0."""
        weights = np.divide(w[:-1], self.scale, out=np.zeros(w.size - 1), where=self.scale > 0)
        return np.append(weights, w[-1] + self.centre @ w[:-1])

    def of(self, X: Any) -> Design:
        """Return a design of other rows with the same centre and scale."""
        return Design(X, self.scale, self.centre)


def product(X: Any, w: Floats) -> Floats:
    """Return X·w; a float32 X is converted block by block, not as a whole."""
    if sp.issparse(X) or X.dtype == np.float64:
        return np.asarray(X @ w, dtype=np.float64)
    out = np.empty(X.shape[0])
    for rows in _cached_blocks(X):
        out[rows] = X[rows] @ w
    return out


def transposed_product(X: Any, slopes: Floats) -> Floats:
    """Return Xᵀ·slopes, in blocks as in :func:`product`."""
    if sp.issparse(X) or X.dtype == np.float64:
        return np.asarray(X.T @ slopes, dtype=np.float64)
    out = np.zeros(X.shape[1])
    for rows in _cached_blocks(X):
        out += slopes[rows] @ X[rows]
    return out


def _cached_blocks(X: Any) -> Iterator[slice]:
    """Yield blocks of rows whose copies as doubles stay in the cache: twice as fast."""
    size = max(1, min(BLOCK, BLOCK_ENTRIES // max(1, X.shape[1])))
    for start in range(0, X.shape[0], size):
        yield slice(start, start + size)


class FeatureRange(NamedTuple):
    """Range and centre of each feature."""

    lowest: Floats
    highest: Floats
    centre: Floats
    """Subtracted from the feature: its mean, or 0 for most sparse features."""


def make_design(X: Any, how: str, weight: Floats | None) -> Design:
    """Scale X to standard deviation 1 or largest absolute value 1; centre it if it is dense.

    A sparse feature is centred only if that at least halves its largest value (for example a
    year); such a feature has no zeros.
    """
    lowest, highest = extent(X)
    largest = np.maximum(highest, -lowest)
    check_that_squares_fit(largest)
    centre = _centre(X, weight, lowest, highest)
    size = SCALES.choose(how)(X, weight, FeatureRange(lowest, highest, centre))
    rounding = (1e-6 if X.dtype == np.float32 else 1e-12) * largest
    scale = np.divide(1.0, size, out=np.zeros(size.size), where=size > rounding)
    return Design(X, scale, centre)


def _centre(X: Any, weight: Floats | None, lowest: Floats, highest: Floats) -> Floats:
    """Return the mean of dense features, and of sparse ones that are far from 0."""
    if not sp.issparse(X):
        return mean_of(X, weight)
    if not ((lowest > 0) | (highest < 0)).any():
        return np.zeros(X.shape[1])
    mean = mean_of(X, weight)
    away = np.maximum(highest - mean, mean - lowest)
    return np.where(2 * away < np.maximum(highest, -lowest), mean, 0.0)


def check_that_squares_fit(largest: Floats) -> None:
    """Refuse features whose squares overflow or underflow."""
    for bad, remedy in (
        (largest > LARGEST, "overflows: divide"),
        ((largest > 0) & (largest < SMALLEST), "underflows: multiply"),
    ):
        if bad.any():
            feature = int(np.argmax(bad))
            raise NonFiniteError(
                f"`X` has a largest value of {largest[feature]:g} in feature {feature}, whose "
                f"square {remedy} the feature by a constant"
            )


def mean_of(X: Any, weight: Floats | None) -> Floats:
    """Return the weighted mean of each feature."""
    return transposed_product(X, shares(weight, X.shape[0]))


def deviation(X: Any, weight: Floats | None, place: FeatureRange) -> Floats:
    """Return the standard deviation of each feature without copying X."""
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
        stored = np.bincount(X.indices, minlength=X.shape[1])
        empty = np.maximum(1.0 - filled, 0.0)  # share of the entries that are not stored
        variance += np.where(stored < n, empty, 0.0) * mean**2
    return np.sqrt(variance)


def maximum(X: Any, weight: Floats | None, place: FeatureRange) -> Floats:
    """Return the largest distance of each feature from its centre."""
    return np.maximum(place.highest - place.centre, place.centre - place.lowest)


def extent(X: Any) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of each feature."""
    if not sp.issparse(X):
        return X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    lowest, highest = min_max_axis(X, axis=0)
    return lowest.astype(np.float64), highest.astype(np.float64)


def given(X: Any, weight: Floats | None, place: FeatureRange) -> Floats:
    """Return 1 for each feature."""
    return np.ones(X.shape[1])


SCALES: Registry[Callable[[Any, Floats | None, FeatureRange], Floats]] = Registry(
    "scale", {"deviation": deviation, "maximum": maximum, "given": given}
)
"""Divisors of a feature. Deviation suits dense features; maximum keeps zeros and ones."""
