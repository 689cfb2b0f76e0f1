"""What the exact pair-sum routines share, and the routine for any surrogate."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask

NO_WEIGHTS = np.empty(0)
"""Unit weights, as the kernels take them."""
SKIP_NONE = np.empty(0, dtype=bool)
"""An empty mask, as the kernels take it."""

PAIRS_PER_BLOCK = 1 << 20
"""Pairs that the routine for any surrogate has in memory at a time."""

KernelPoints = tuple[NDArray[Any], ...]
"""Scores, weights, a mask of points to skip, and further arrays that a kernel reads per point."""


class Examples(NamedTuple):
    """Validated input: finite scores, the mask of positives, weights or None."""

    scores: Floats
    positive: Mask
    weight: Floats | None
    low: float
    """Lowest score."""
    high: float
    """Highest score."""

    @classmethod
    def of(cls, scores: Floats, positive: Mask, weight: Floats | None) -> Examples:
        """Build from validated arrays."""
        return cls(scores, positive, weight, float(scores.min()), float(scores.max()))


class RowSums(NamedTuple):
    """Per positive: Σ v ℓ and Σ v ℓ′ over positives (`plus`) and over negatives (`minus`)."""

    plus: Floats
    plus_slope: Floats
    minus: Floats
    minus_slope: Floats


class PairSums(Protocol):
    """Sums of ℓ and ℓ′ over all pairs x_ij = s_j − s_i of a positive i (a row) and an example j."""

    order: NDArray[np.int64]
    """order[i]: index of the example that row i stands for."""

    def rows(self) -> RowSums:
        """Return Σⱼ vⱼ ℓ(x_ij) and Σⱼ vⱼ ℓ′(x_ij) for every row i."""
        ...

    def vjp(self, a: Floats, b: Floats) -> Floats:
        """Return vⱼ Σᵢ aᵢ ℓ′(x_ij) for positives j and −vⱼ Σᵢ bᵢ ℓ′(x_ij) for negatives j."""
        ...


class SortedRows:
    """The positives in ascending order of their scores."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        self.examples = examples
        self.gamma = gamma
        positives = np.flatnonzero(examples.positive)
        scores = examples.scores[positives]
        ascending = np.argsort(scores)
        self.order = positives[ascending]
        self.row_scores = scores[ascending]
        weight = examples.weight
        self.row_weight = NO_WEIGHTS if weight is None else weight[self.order]
        self.weight = NO_WEIGHTS if weight is None else weight


class DirectSums:
    """Sums of any surrogate in O(mn), in blocks of rows that fit the cache."""

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
