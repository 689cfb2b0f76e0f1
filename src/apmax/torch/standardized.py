"""Inputs of a layer as a design matrix: standardized on the fly, in blocks, without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.validation import Floats

BLOCK_ENTRIES = 1 << 16
"""Entries that are converted to doubles at a time, so that they stay in the cache."""


class Standardized(NamedTuple):
    """Values (n, d), read as (x − centre)·scale; parameters are d weights and the intercept."""

    values: NDArray[Any]
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, values: NDArray[Any]) -> Standardized:
        """Scale every column to mean 0 and deviation 1; constant columns to 0."""
        n, d = values.shape
        centre, variance = np.zeros(d), np.zeros(d)
        for rows in _blocks(values):
            centre += values[rows].sum(axis=0, dtype=np.float64) / n
        for rows in _blocks(values):
            variance += np.square(values[rows] - centre).sum(axis=0) / n
        deviation = np.sqrt(variance)
        varies = deviation > 1e-6 * np.abs(centre)
        return cls(values, centre, np.divide(1.0, deviation, out=np.zeros(d), where=varies))

    def rows(self, which: NDArray[np.intp]) -> Standardized:
        """Return some of the rows in the same scale."""
        return self._replace(values=self.values[which])

    def margins(self, w: Floats) -> Floats:
        """Return z = (x − centre)·scale·w + b of every row."""
        inner = w[:-1] * self.scale
        out = np.empty(self.values.shape[0])
        for rows in _blocks(self.values):
            out[rows] = self.values[rows] @ inner
        out += w[-1] - self.centre @ inner
        return out

    def vjp(self, slopes: Floats) -> Floats:
        """Return the gradient in (w, b) of a function of the margins with slopes ∂/∂z."""
        inner, total = np.zeros(self.centre.size), slopes.sum()
        for rows in _blocks(self.values):
            inner += slopes[rows] @ self.values[rows]
        return np.append((inner - self.centre * total) * self.scale, total)

    def scaled(self, w: Floats) -> Floats:
        """Return weights of the standardized columns; those of constant columns are 0."""
        inner = np.divide(w[:-1], self.scale, out=np.zeros(w.size - 1), where=self.scale > 0)
        return np.append(inner, w[-1] + self.centre @ w[:-1])

    def unscaled(self, w: Floats, before: Floats) -> Floats:
        """Return weights of the columns as given; constant columns keep those of `before`."""
        inner = np.where(self.scale > 0, w[:-1] * self.scale, before[:-1])
        return np.append(inner, w[-1] - self.centre @ inner)


def _blocks(values: NDArray[Any]) -> Iterator[slice]:
    size = max(1, BLOCK_ENTRIES // max(1, values.shape[1]))
    for start in range(0, values.shape[0], size):
        yield slice(start, start + size)
