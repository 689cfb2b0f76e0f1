"""The design matrix, dense or CSR, with a scale per feature that is never applied to it.

Solvers work in the space of the scaled features, x·scale, where one step size suits every
coordinate, and read X as it is: no scaled copy, no densified sparse matrix. (A product of
float32 X with float64 weights is widened by NumPy and SciPy while it lasts.) What they find
is multiplied by the scale at the end, so that ``coef_`` belongs to the features as given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from apmax.errors import NonFiniteError
from apmax.registry import Registry
from apmax.validation import Floats

BLOCK = 8192
LARGEST, SMALLEST = 1e150, 1e-150
"""Of a feature's largest value: sums of squares are finite and above 0, for any number of rows."""


class Design:
    """X with n rows and d features; parameters are d weights and, last, the intercept.

    Features are read as (x − centre)·scale. Sparse features have no centre: their zeros stay
    zeros. Dense ones are centred, or one far from 0 would drown the intercept in its weight.
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
        return np.asarray(self.X @ inner + (w[-1] - self.centre @ inner), dtype=np.float64)

    def pull_back(self, slopes: Floats) -> Floats:
        """∂/∂(w, b) of a function of the margins, from its slopes ∂/∂z."""
        total = slopes.sum()
        return np.append((np.asarray(self.X.T @ slopes) - self.centre * total) * self.scale, total)

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


def make_design(X: Any, how: str, weight: Floats | None) -> Design:
    """X scaled to unit deviation or unit maximum, and centred if it is dense."""
    largest = largest_size(X)
    _check_that_squares_fit(largest)
    mean = mean_of(X, weight)
    size = SCALES.choose(how)(X, weight, mean)
    rounding = (1e-6 if X.dtype == np.float32 else 1e-10) * largest
    scale = np.divide(1.0, size, out=np.zeros(size.size), where=size > rounding)
    return Design(X, scale, None if sp.issparse(X) else mean)


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
    n = X.shape[0]
    share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    return np.asarray(X.T @ share, dtype=np.float64)


def deviation(X: Any, weight: Floats | None, mean: Floats) -> Floats:
    """The standard deviation of each feature; X is not copied."""
    n = X.shape[0]
    share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
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


def maximum(X: Any, weight: Floats | None, mean: Floats) -> Floats:
    """The largest distance of each feature from its centre, which for sparse X is 0."""
    if sp.issparse(X):
        return largest_size(X)
    return np.asarray(np.maximum(X.max(axis=0) - mean, mean - X.min(axis=0)))


def largest_size(X: Any) -> Floats:
    """max |x| of each feature, without a matrix of absolute values."""
    if not sp.issparse(X):
        return np.asarray(np.maximum(X.max(axis=0), -X.min(axis=0)), dtype=np.float64)
    largest = np.zeros(X.shape[1])
    for start in range(0, X.nnz, 64 * BLOCK):
        entries = slice(start, start + 64 * BLOCK)
        np.maximum.at(largest, X.indices[entries], np.abs(X.data[entries]))
    return largest


SCALES: Registry[Callable[[Any, Floats | None, Floats], Floats]] = Registry(
    "scale", {"deviation": deviation, "maximum": maximum}
)
"""What a feature is divided by. Deviation suits dense features; maximum leaves the zeros and
ones of sparse ones alone."""
