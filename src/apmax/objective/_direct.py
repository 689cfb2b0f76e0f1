"""Pair sums of any surrogate, pair by pair in NumPy, in blocks of rows that fit the cache."""

from __future__ import annotations

import numpy as np

from apmax.objective._examples import Examples, RowSums
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats

PAIRS_PER_BLOCK = 1 << 20


class DirectSums:
    """O(mn) sums for a surrogate without a fast routine."""

    def __init__(self, examples: Examples, gamma: float, surrogate: Surrogate) -> None:
        self.examples = examples
        self.gamma = gamma
        self.surrogate = surrogate
        self.order = np.flatnonzero(examples.positive)

    def rows(self) -> RowSums:
        """Return the sums over the examples, one per row."""
        scores, positive, weight = self.examples[:3]
        v = np.ones_like(scores) if weight is None else weight
        by_class = np.stack([np.where(positive, v, 0.0), np.where(positive, 0.0, v)], axis=1)
        values, slopes = np.empty((2, self.order.size, 2))
        for block in self._blocks():
            x = scores - scores[self.order[block], None]
            values[block] = self.surrogate.value(x, self.gamma) @ by_class
            slopes[block] = self.surrogate.slope(x, self.gamma) @ by_class
        return RowSums(values[:, 0], slopes[:, 0], values[:, 1], slopes[:, 1])

    def vjp(self, a: Floats, b: Floats) -> Floats:
        """Return the sums over the rows, one per example."""
        scores, positive, weight = self.examples[:3]
        out = np.zeros_like(scores)
        for block in self._blocks():
            slope = self.surrogate.slope(scores - scores[self.order[block], None], self.gamma)
            out += np.where(positive, a[block] @ slope, -b[block] @ slope)
        return out if weight is None else out * weight

    def _blocks(self) -> list[slice]:
        height = max(1, PAIRS_PER_BLOCK // self.examples.scores.size)
        return [slice(i, i + height) for i in range(0, self.order.size, height)]
