"""Sums of logistic pairs: all of them if they are few, or else by a mesh.

The mesh is where scores lie dense; where they do not, it goes point by point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.objective._pair_sums import ALL_ONES, SKIP_NONE, Examples, RowSums, SortedRows
from apmax.validation import Floats, Mask

NODE_DISTANCE = 1 / 8
"""Between two nodes of the mesh, in units of 1/γ."""
NO_POINTS = np.empty(0, dtype=np.int64)


class FewSigmoidSums:
    """Logistic, pair by pair in a compiled loop: faster than a mesh where pairs are few."""

    MOST_PAIRS, MOST_EXAMPLES = 1 << 18, 1 << 14

    def __init__(self, examples: Examples, gamma: float) -> None:
        self.gamma = gamma
        self.order = np.flatnonzero(examples.positive)
        self.others = np.flatnonzero(~examples.positive)
        middle = examples.low + (examples.high - examples.low) / 2
        powers = np.exp(gamma * (examples.scores - middle))
        weight = np.ones(powers.size) if examples.weight is None else examples.weight
        self.plus = powers[self.order], weight[self.order]
        self.minus = powers[self.others], weight[self.others]

    @classmethod
    def suits(cls, examples: Examples, gamma: float) -> bool:
        """Whether pairs are few, and scores near enough for exp of any of them to be a number."""
        from apmax.objective._batch_pairs import MOST_APART

        with np.errstate(over="ignore"):
            near = gamma * (np.float64(examples.high) - examples.low) <= MOST_APART
        m, n = np.count_nonzero(examples.positive), examples.scores.size
        return bool(near and m * n <= cls.MOST_PAIRS and n <= cls.MOST_EXAMPLES)

    def rows(self) -> RowSums:
        """Sums over the examples, one per row."""
        rows, _ = self.plus
        return RowSums(*self._sums(rows, *self.plus), *self._sums(rows, *self.minus))

    def pull(self, a: Floats, b: Floats) -> Floats:
        """Sums over the rows, one per example."""
        out = np.empty(self.order.size + self.others.size)
        for places, (powers, weight), charge in (
            (self.order, self.plus, a),
            (self.others, self.minus, -b),
        ):
            out[places] = weight * self._sums(powers, self.plus[0], charge)[1]
        return out

    def _sums(self, at: Floats, of: Floats, charge: Floats) -> tuple[Floats, Floats]:
        from apmax.objective._sigmoid import sigmoid_sums_by_pair

        value, slope = sigmoid_sums_by_pair(at, of, charge)
        return value, self.gamma * slope


class SigmoidSums(SortedRows):
    """Logistic, through a mesh where scores lie dense and point by point where they do not.

    The sums over sorted *nodes* take linear time (:mod:`apmax.objective._sigmoid`). The nodes are
    those of a uniform mesh over the densest part of the scores, which stand for all scores
    there (:mod:`apmax.objective._mesh`), and every score outside it.
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
        from apmax.objective._mesh import STENCIL

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
        from apmax._compile import table_over_threads
        from apmax.objective._mesh import STENCIL, charges_of_nodes, moments_of_cells
        from apmax.objective._sigmoid import SLOPE_TERMS, VALUE_TERMS, sigmoid_sums

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
        from apmax._compile import over_threads
        from apmax.objective._mesh import evaluate, polynomials_of_cells

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
