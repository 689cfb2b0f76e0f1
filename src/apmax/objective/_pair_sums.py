r"""Sums of ℓ and ℓ′ over all pairs (positive i, example j), one class per algorithm.

Positives are *rows*. A class answers two questions about x_ij = s_j − s_i:

- :meth:`PairSums.rows`: Σⱼ vⱼ ℓ(x_ij) and Σⱼ vⱼ ℓ′(x_ij) for every row i, over the positives
  and over the negatives;
- :meth:`PairSums.pull`: vⱼ Σᵢ aᵢ ℓ′(x_ij) for every positive j and −vⱼ Σᵢ bᵢ ℓ′(x_ij) for
  every negative j.

================  ===================================  ==========================
class             for                                  cost
================  ===================================  ==========================
HingeSums         squared hinge                        O(n + m log m) typically
SigmoidSums       logistic                             O(n), O(n log n) at the worst
FewSigmoidSums    logistic, few pairs, scores near     O(mn), a division per pair
DirectSums        any surrogate                        O(mn), in blocks
================  ===================================  ==========================
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask

ALL_ONES = np.empty(0)
"""No weights, as kernels take them."""
SKIP_NONE = np.empty(0, dtype=bool)
"""No mask, as kernels take it."""


Points = tuple[NDArray[Any], ...]
"""Scores, weights, a mask of those to skip, and what else a kernel reads per point."""


class Examples(NamedTuple):
    """Checked input: finite scores, the mask of positives, weights or None."""

    scores: Floats
    positive: Mask
    weight: Floats | None
    low: float
    """The lowest score."""
    high: float
    """The highest score."""

    @classmethod
    def of(cls, scores: Floats, positive: Mask, weight: Floats | None) -> Examples:
        """With the range of the scores found in passing."""
        return cls(scores, positive, weight, float(scores.min()), float(scores.max()))


class RowSums(NamedTuple):
    """Per row: Σ v ℓ and Σ v ℓ′ over positives (`plus`) and over negatives (`minus`)."""

    plus: Floats
    plus_slope: Floats
    minus: Floats
    minus_slope: Floats


class PairSums(Protocol):
    """What the exact objective needs to know about all pairs."""

    order: NDArray[np.int64]
    """order[i]: the example that row i stands for."""

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        ...

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example, with a for positives and −b for negatives."""
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
        self.row_weight = ALL_ONES if weight is None else weight[self.order]


class HingeSums(SortedRows):
    """Squared hinge by a sweep over the sorted positives; see :mod:`apmax.objective._hinge`."""

    EXACT_BELOW = 1e4
    """|s|/γ up to which s + γ keeps the twelve digits that ranking by it needs."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        from apmax._ranks import make_thresholds

        super().__init__(examples, gamma)
        weight = ALL_ONES if examples.weight is None else examples.weight
        thresholds = make_thresholds(self.row_scores)
        below = [self._rows_below(thresholds, s) for s in (self.row_scores, examples.scores)]
        self.plus = (self.row_scores, self.row_weight, SKIP_NONE, below[0])
        self.minus = (examples.scores, weight, examples.positive, below[1])

    def _rows_below(self, thresholds: Any, scores: Floats) -> NDArray[np.int32]:
        """How many rows each score reaches."""
        from apmax._compile import over_threads
        from apmax.objective._hinge import correct_top_rows
        from apmax._ranks import count_at_most

        below = count_at_most(thresholds, scores, self.gamma)
        if max(self.examples.high, -self.examples.low) > self.EXACT_BELOW * self.gamma:
            over_threads(correct_top_rows, scores.size, scores, self.row_scores, self.gamma, below)
        return below

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        from apmax._compile import over_threads
        from apmax.objective._hinge import moments_by_top_row, sums_of_rows

        rows = self.row_scores
        sums = []
        for points in (self.plus, self.minus):
            moments = np.zeros((rows.size, 3))
            over_threads(
                moments_by_top_row,
                rows.size,
                *points,
                rows,
                self.gamma,
                moments,
                work=points[0].size,
            )
            reach, square = sums_of_rows(rows, moments)
            sums += [square, 2.0 * reach]
        return RowSums(*sums)

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        out = self._pull_on(self.minus, -2.0 * b)
        out[self.order] = self._pull_on(self.plus, 2.0 * a)
        return out

    def _pull_on(self, points: Points, pull: Floats) -> Floats:
        from apmax._compile import over_threads
        from apmax.objective._hinge import pull_of_rows, pull_on_examples

        out = np.empty_like(points[0])
        table = pull_of_rows(self.row_scores, pull)
        over_threads(pull_on_examples, out.size, *points, table, self.gamma, out)
        return out


class DirectSums:
    """Any surrogate, pair by pair, in blocks of rows that fit the cache."""

    PAIRS_PER_BLOCK = 1 << 20

    def __init__(self, examples: Examples, gamma: float, surrogate: Surrogate) -> None:
        self.examples = examples
        self.gamma = gamma
        self.surrogate = surrogate
        self.order = np.flatnonzero(examples.positive)

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        scores, positive, weight = self.examples[:3]
        v = np.ones_like(scores) if weight is None else weight
        by_class = np.stack([np.where(positive, v, 0.0), np.where(positive, 0.0, v)], axis=1)
        values, slopes = np.empty((2, self.order.size, 2))
        for block in self._blocks():
            x = scores - scores[self.order[block], None]
            values[block] = self.surrogate.value(x, self.gamma) @ by_class
            slopes[block] = self.surrogate.slope(x, self.gamma) @ by_class
        return RowSums(values[:, 0], slopes[:, 0], values[:, 1], slopes[:, 1])

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        scores, positive, weight = self.examples[:3]
        out = np.zeros_like(scores)
        for block in self._blocks():
            slope = self.surrogate.slope(scores - scores[self.order[block], None], self.gamma)
            out += np.where(positive, a[block] @ slope, -b[block] @ slope)
        return out if weight is None else out * weight

    def _blocks(self) -> list[slice]:
        height = max(1, self.PAIRS_PER_BLOCK // self.examples.scores.size)
        return [slice(i, i + height) for i in range(0, self.order.size, height)]
