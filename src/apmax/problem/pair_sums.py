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
MeshSums          logistic, scores dense in γ-units    O(n)
SweepSums         logistic, any range                  O(n log n), one full sort
DirectSums        any surrogate                        O(mn), in blocks
================  ===================================  ==========================
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apmax.problem.surrogates import Surrogate
from apmax.validation import Floats, Mask

ALL_ONES = np.empty(0)
"""No weights, as kernels take them."""
NODE_DISTANCE = 1 / 8
"""Between two nodes of the mesh, in units of 1/γ."""
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


class _SortedRows:
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


class HingeSums(_SortedRows):
    """Squared hinge by a sweep over the sorted positives; see :mod:`apmax.kernels.hinge`."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        from apmax.kernels.ranks import count_at_most, make_thresholds

        super().__init__(examples, gamma)
        thresholds = make_thresholds(self.row_scores)
        weight = ALL_ONES if examples.weight is None else examples.weight
        self.plus = (
            self.row_scores,
            self.row_weight,
            SKIP_NONE,
            count_at_most(thresholds, self.row_scores, gamma),
        )
        self.minus = (
            examples.scores,
            weight,
            examples.positive,
            count_at_most(thresholds, examples.scores, gamma),
        )

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        from apmax.kernels import table_over_threads
        from apmax.kernels.hinge import moments_by_top_row, sums_of_rows

        rows = self.row_scores
        sums = []
        for points in (self.plus, self.minus):
            moments = table_over_threads(
                moments_by_top_row, points[0].size, (rows.size, 3), *points, rows, self.gamma
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
        from apmax.kernels import over_threads
        from apmax.kernels.hinge import pull_of_rows, pull_on_examples

        out = np.empty_like(points[0])
        table = pull_of_rows(self.row_scores, pull)
        over_threads(pull_on_examples, out.size, *points, table, self.gamma, out)
        return out


class MeshSums(_SortedRows):
    """Logistic through a uniform mesh; see :mod:`apmax.kernels.mesh`."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        super().__init__(examples, gamma)
        self.cells_per_unit = gamma / NODE_DISTANCE
        self.cells = int(self.cells_over(examples, gamma))
        weight = ALL_ONES if examples.weight is None else examples.weight
        self.plus = (self.row_scores, self.row_weight, SKIP_NONE)
        self.minus = (examples.scores, weight, examples.positive)

    @staticmethod
    def cells_over(examples: Examples, gamma: float) -> float:
        """How many cells the range of the scores takes; may be infinite."""
        return (examples.high - examples.low) * (gamma / NODE_DISTANCE) // 1 + 1

    @classmethod
    def fits(cls, examples: Examples, gamma: float) -> bool:
        """Whether the mesh is small beside the data: at most one cell for eight examples."""
        return 8 * cls.cells_over(examples, gamma) <= examples.scores.size

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        sums = []
        for points in (self.plus, self.minus):
            value, slope = self._field(points)
            unweighted = (self.row_scores, ALL_ONES, SKIP_NONE)
            sums.append(self._evaluate(value, unweighted))
            sums.append(self._evaluate(self.gamma * slope, unweighted))
        return RowSums(*sums)

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        pulls = []
        for coefficient, points in ((-b, self.minus), (a, self.plus)):
            _, slope = self._field((self.row_scores, coefficient, SKIP_NONE))
            pulls.append(self._evaluate(self.gamma * slope, points))
        out, on_rows = pulls
        out[self.order] = on_rows
        return out

    def _field(self, points: Points) -> tuple[Floats, Floats]:
        """Σ w σ and Σ w σ′ of the points, at the nodes."""
        from apmax.kernels import table_over_threads
        from apmax.kernels.mesh import STENCIL, charges_of_nodes, moments_of_cells
        from apmax.kernels.sigmoid import SLOPE_TERMS, VALUE_TERMS, sigmoid_sums

        moments = table_over_threads(
            moments_of_cells,
            points[0].size,
            (self.cells, STENCIL),
            *points,
            self.examples.low,
            self.cells_per_unit,
        )
        charges = charges_of_nodes(moments)
        decay = np.full(charges.size, np.exp(-NODE_DISTANCE))
        value, slope = sigmoid_sums(decay, charges, VALUE_TERMS, SLOPE_TERMS)
        return value, slope

    def _evaluate(self, nodes: Floats, points: Points) -> Floats:
        """The field with these values at the nodes, at the points and times their weights."""
        from apmax.kernels import over_threads
        from apmax.kernels.mesh import evaluate, polynomials_of_cells

        out = np.empty_like(points[0])
        polynomials = polynomials_of_cells(nodes)
        over_threads(
            evaluate, out.size, *points, self.examples.low, self.cells_per_unit, polynomials, out
        )
        return out


class SweepSums:
    """Logistic over the sorted examples themselves; see :mod:`apmax.kernels.sigmoid`."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        scores, positive, weight = examples[:3]
        self.gamma = gamma
        self.by_score = np.argsort(scores)
        ascending = scores[self.by_score]
        with np.errstate(over="ignore"):  # an infinite distance decays to 0, as it should
            self.decay = np.exp(-gamma * np.diff(ascending, prepend=ascending[0]))
        self.is_row = positive[self.by_score]
        self.weight = np.ones_like(scores) if weight is None else weight[self.by_score]
        self.order = self.by_score[self.is_row]

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        plus, plus_slope = self._sums(np.where(self.is_row, self.weight, 0.0))
        minus, minus_slope = self._sums(np.where(self.is_row, 0.0, self.weight))
        at = self.is_row
        return RowSums(
            plus[at], self.gamma * plus_slope[at], minus[at], self.gamma * minus_slope[at]
        )

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        pulls = []
        for coefficient in (a, -b):
            charge = np.zeros_like(self.weight)
            charge[self.is_row] = self.gamma * coefficient
            pulls.append(self._sums(charge)[1])
        out = np.empty_like(self.weight)
        out[self.by_score] = self.weight * np.where(self.is_row, *pulls)
        return out

    def _sums(self, charge: Floats) -> tuple[Floats, Floats]:
        from apmax.kernels.sigmoid import SLOPE_TERMS, VALUE_TERMS, sigmoid_sums

        value, slope = sigmoid_sums(self.decay, charge, VALUE_TERMS, SLOPE_TERMS)
        return value, slope


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
