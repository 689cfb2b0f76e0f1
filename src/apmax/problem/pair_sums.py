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
NO_POINTS = np.empty(0, dtype=np.int64)


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

    EXACT_BELOW = 1e4
    """|s|/γ up to which s + γ keeps the twelve digits that ranking by it needs."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        super().__init__(examples, gamma)
        weight = ALL_ONES if examples.weight is None else examples.weight
        below = self._rows_below(self.row_scores), self._rows_below(examples.scores)
        self.plus = (self.row_scores, self.row_weight, SKIP_NONE, below[0])
        self.minus = (examples.scores, weight, examples.positive, below[1])

    def _rows_below(self, scores: Floats) -> NDArray[np.int32]:
        """How many rows each score reaches."""
        from apmax.kernels import over_threads
        from apmax.kernels.hinge import correct_top_rows
        from apmax.kernels.ranks import count_at_most, make_thresholds

        below = count_at_most(make_thresholds(self.row_scores), scores, self.gamma)
        if max(self.examples.high, -self.examples.low) > self.EXACT_BELOW * self.gamma:
            over_threads(correct_top_rows, scores.size, scores, self.row_scores, self.gamma, below)
        return below

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


class SigmoidSums(_SortedRows):
    """Logistic, through a mesh where scores lie dense and point by point where they do not.

    The sums over sorted *nodes* take linear time (:mod:`apmax.kernels.sigmoid`). The nodes are
    those of a uniform mesh over the densest part of the scores, which stand for all scores
    there (:mod:`apmax.kernels.mesh`), and every score outside it.
    """

    EXAMPLES_PER_CELL = 32
    """The mesh has at most one cell for so many examples."""
    SAMPLE = 4096
    """Scores that are looked at to find the densest part."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        super().__init__(examples, gamma)
        self.cells_per_unit = gamma / NODE_DISTANCE
        self.low, high = self._densest(examples, gamma) or (np.inf, -np.inf)
        self.cells = int((high - self.low) * self.cells_per_unit) + 1 if high >= self.low else 0
        weight = ALL_ONES if examples.weight is None else examples.weight
        self.plus = self._parted(self.row_scores, self.row_weight, None, high)
        self.minus = self._parted(examples.scores, weight, examples.positive, high)
        self.unweighted_rows = self.plus._replace(weight=ALL_ONES)
        # Positives among themselves need no node for a negative.
        self.line = self._line(self.plus, self.minus)
        self.line_of_rows = self._line(self.plus) if self.minus.outside.size else self.line

    @classmethod
    def _densest(cls, examples: Examples, gamma: float) -> tuple[float, float] | None:
        """The window of the widest mesh allowed that holds most of a sample of the scores."""
        n = examples.scores.size
        width = (n // cls.EXAMPLES_PER_CELL) * NODE_DISTANCE / gamma
        if examples.high - examples.low <= width:
            return examples.low, examples.high
        sample = np.sort(examples.scores[:: max(1, n // cls.SAMPLE)])
        inside = np.searchsorted(sample, sample + width, side="right") - np.arange(sample.size)
        start = int(np.argmax(inside))
        if 4 * inside[start] < sample.size:  # too thin everywhere: no mesh at all
            return None
        first, last = float(sample[start]), float(sample[start + inside[start] - 1])
        margin = min((last - first) / 8, width - (last - first))  # for what the sample missed
        return max(first - margin / 2, examples.low), min(last + margin / 2, examples.high)

    def _parted(self, scores: Floats, weight: Floats, skip: Mask | None, high: float) -> _Parted:
        """Which points are outside the mesh, and the mask that keeps the others."""
        if self.low <= self.examples.low and high >= self.examples.high:
            return _Parted(scores, weight, SKIP_NONE if skip is None else skip, NO_POINTS)
        outside = (
            (scores < self.low) | (scores > high) if self.cells else np.ones(scores.size, bool)
        )
        if skip is None:
            return _Parted(scores, weight, outside, np.flatnonzero(outside))
        return _Parted(scores, weight, outside | skip, np.flatnonzero(outside & ~skip))

    def _line(self, *classes: _Parted) -> _Line:
        """Sort the nodes of the mesh and the points outside it, and find their decays."""
        from apmax.kernels.mesh import STENCIL

        points = np.concatenate([one.scores[one.outside] for one in classes])
        mesh = np.arange(self.cells + STENCIL - 1 if self.cells else 0) - (STENCIL / 2 - 1)
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite distance decays to 0
            if self.cells:
                place = np.concatenate([mesh * NODE_DISTANCE, (points - self.low) * self.gamma])
                ascending = np.argsort(place)
                distance = np.diff(place[ascending], prepend=0.0)
                # Two points: from their own difference, which has all its digits.
                scores = np.concatenate([np.full(mesh.size, np.nan), points])[ascending]
                apart = self.gamma * np.diff(scores, prepend=np.nan)
                np.copyto(distance, apart, where=~np.isnan(apart))
            else:
                ascending = np.argsort(points)
                distance = self.gamma * np.diff(points[ascending], prepend=0.0)
            distance[0] = 0.0
            decay = np.exp(-distance, out=distance)
        rank = np.empty(ascending.size, np.int64)
        rank[ascending] = np.arange(ascending.size)
        plus_end = mesh.size + classes[0].outside.size
        return _Line(decay, rank[: mesh.size], rank[mesh.size : plus_end], rank[plus_end:])

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        sums = []
        for line, points, nodes in (
            (self.line_of_rows, self.plus, self.line_of_rows.plus),
            (self.line, self.minus, self.line.minus),
        ):
            for field in self._field(line, points, nodes):
                sums.append(self._evaluate(line, field, self.unweighted_rows, line.plus))
        return RowSums(*sums)

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        pulls = []
        for coefficient, line, points, nodes in (
            (-b, self.line, self.minus, self.line.minus),
            (a, self.line_of_rows, self.plus, self.line_of_rows.plus),
        ):
            slope = self._field(line, self.plus._replace(weight=coefficient), line.plus)[1]
            pulls.append(self._evaluate(line, slope, points, nodes))
        out, on_rows = pulls
        out[self.order] = on_rows
        return out

    def _field(
        self, line: _Line, points: _Parted, nodes: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Σ w ℓ and Σ w ℓ′ of the points, at the nodes."""
        from apmax.kernels import table_over_threads
        from apmax.kernels.mesh import STENCIL, charges_of_nodes, moments_of_cells
        from apmax.kernels.sigmoid import SLOPE_TERMS, VALUE_TERMS, sigmoid_sums

        charges = np.zeros(line.decay.size)
        charges[nodes] = points.weight[points.outside] if points.weight.size else 1.0
        if self.cells:
            moments = table_over_threads(
                moments_of_cells,
                points.scores.size,
                (self.cells, STENCIL),
                *points[:3],
                self.low,
                self.cells_per_unit,
            )
            charges[line.mesh] = charges_of_nodes(moments)
        value, slope = sigmoid_sums(line.decay, charges, VALUE_TERMS, SLOPE_TERMS)
        slope *= self.gamma
        return value, slope

    def _evaluate(
        self, line: _Line, field: Floats, points: _Parted, nodes: NDArray[np.int64]
    ) -> Floats:
        """The field with these values at the nodes, at the points and times their weights."""
        from apmax.kernels import over_threads
        from apmax.kernels.mesh import evaluate, polynomials_of_cells

        out = np.empty_like(points.scores)
        if self.cells:
            polynomials = polynomials_of_cells(field[line.mesh])
            over_threads(
                evaluate, out.size, *points[:3], self.low, self.cells_per_unit, polynomials, out
            )
        weight = points.weight[points.outside] if points.weight.size else 1.0
        out[points.outside] = field[nodes]
        out[points.outside] *= weight
        return out


class _Parted(NamedTuple):
    """Points of one class, some of them in the mesh and the others nodes of their own."""

    scores: Floats
    weight: Floats
    skip: Mask
    """True for points that the mesh does not carry."""
    outside: NDArray[np.int64]
    """The points of this class that are not in the mesh."""


class _Line(NamedTuple):
    """Nodes in ascending order: their decays, and where those of each kind stand."""

    decay: Floats
    mesh: NDArray[np.int64]
    plus: NDArray[np.int64]
    minus: NDArray[np.int64]


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
