"""Exact logistic pair sums: pair by pair if there are few, otherwise through a mesh.

The mesh covers the densest part of the scores; scores outside it are handled point by point.
Cost: O(n), or O(n log n) when many scores lie outside the mesh.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax._compile import over_threads, table_over_threads
from apmax.objective._pair_sums import NO_WEIGHTS, SKIP_NONE, Examples, RowSums, SortedRows
from apmax.objective._sigmoid import (
    SLOPE_TERMS,
    STENCIL,
    VALUE_TERMS,
    charges_of_nodes,
    evaluate_cells,
    moments_of_cells,
    polynomials_of_cells,
    sigmoid_sums,
    sigmoid_sums_by_pair,
)
from apmax.validation import Floats, Mask

NODE_DISTANCE = 1 / 8
"""Distance between two mesh nodes, in units of 1/γ."""
NO_POINTS = np.empty(0, dtype=np.int64)
MOST_PAIRS, MOST_EXAMPLES = 1 << 18, 1 << 14
"""Up to these sizes, summing pair by pair is faster than the mesh."""
MAX_EXPONENT = 600.0
"""Largest γ·(s_j − s_i) for which exp of centred scores, squared, stays finite."""


class FewSigmoidSums:
    """Logistic sums pair by pair, with one exp per score."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        self.gamma = gamma
        self.order = np.flatnonzero(examples.positive)
        self.others = np.flatnonzero(~examples.positive)
        middle = examples.low + (examples.high - examples.low) / 2
        powers = np.exp(gamma * (examples.scores - middle))
        weight = np.ones(powers.size) if examples.weight is None else examples.weight
        self.plus = powers[self.order], weight[self.order]
        self.minus = powers[self.others], weight[self.others]

    @staticmethod
    def suits(examples: Examples, gamma: float) -> bool:
        """Return whether there are few pairs and exp of every centred score is finite."""
        with np.errstate(over="ignore"):
            near = gamma * (np.float64(examples.high) - examples.low) <= MAX_EXPONENT
        m, n = np.count_nonzero(examples.positive), examples.scores.size
        return bool(near and m * n <= MOST_PAIRS and n <= MOST_EXAMPLES)

    def rows(self) -> RowSums:
        """Return the sums over the examples, one per row."""
        rows, _ = self.plus
        return RowSums(*self._sums(rows, *self.plus), *self._sums(rows, *self.minus))

    def vjp(self, a: Floats, b: Floats) -> Floats:
        """Return the sums over the rows, one per example."""
        out = np.empty(self.order.size + self.others.size)
        for places, (powers, weight), charge in (
            (self.order, self.plus, a),
            (self.others, self.minus, -b),
        ):
            out[places] = weight * self._sums(powers, self.plus[0], charge)[1]
        return out

    def _sums(self, at: Floats, of: Floats, charge: Floats) -> tuple[Floats, Floats]:
        value, slope = sigmoid_sums_by_pair(at, of, charge)
        return value, self.gamma * slope


class SigmoidSums(SortedRows):
    """Logistic sums over sorted nodes in linear time.

    The nodes are those of a uniform mesh over the densest part of the scores, which represent
    all scores there (:mod:`apmax.objective._sigmoid`), and every score outside the mesh.
    """

    EXAMPLES_PER_CELL = 32
    """Least number of examples per mesh cell."""
    SAMPLE = 4096
    """Number of scores sampled to find the densest part."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        super().__init__(examples, gamma)
        self.cells_per_unit = gamma / NODE_DISTANCE
        self.low, high = self._densest(examples, gamma) or (np.inf, -np.inf)
        self.cells = int((high - self.low) * self.cells_per_unit) + 1 if high >= self.low else 0
        weight = NO_WEIGHTS if examples.weight is None else examples.weight
        self.plus = self._split(self.row_scores, self.row_weight, None, high)
        self.minus = self._split(examples.scores, weight, examples.positive, high)
        self.unweighted_rows = self.plus._replace(weight=NO_WEIGHTS)
        # Pairs of positives need no node for a negative.
        self.line = self._line(self.plus, self.minus)
        self.line_of_rows = self._line(self.plus) if self.minus.outside.size else self.line

    @classmethod
    def _densest(cls, examples: Examples, gamma: float) -> tuple[float, float] | None:
        """Return the window of the widest mesh allowed that holds most of a sample of scores."""
        n = examples.scores.size
        width = (n // cls.EXAMPLES_PER_CELL) * NODE_DISTANCE / gamma
        if examples.high - examples.low <= width:
            return examples.low, examples.high
        sample = np.sort(examples.scores[:: max(1, n // cls.SAMPLE)])
        inside = np.searchsorted(sample, sample + width, side="right") - np.arange(sample.size)
        start = int(np.argmax(inside))
        if 4 * inside[start] < sample.size:  # too sparse everywhere: no mesh
            return None
        first, last = float(sample[start]), float(sample[start + inside[start] - 1])
        margin = min((last - first) / 8, width - (last - first))  # for unsampled scores
        return max(first - margin / 2, examples.low), min(last + margin / 2, examples.high)

    def _split(
        self, scores: Floats, weight: Floats, skip: Mask | None, high: float
    ) -> _SplitPoints:
        """Split the points of one class into those inside and outside the mesh."""
        if self.low <= self.examples.low and high >= self.examples.high:
            return _SplitPoints(scores, weight, SKIP_NONE if skip is None else skip, NO_POINTS)
        outside = (
            (scores < self.low) | (scores > high) if self.cells else np.ones(scores.size, bool)
        )
        if skip is None:
            return _SplitPoints(scores, weight, outside, np.flatnonzero(outside))
        return _SplitPoints(scores, weight, outside | skip, np.flatnonzero(outside & ~skip))

    def _line(self, *classes: _SplitPoints) -> _NodeLine:
        """Sort the mesh nodes and the points outside the mesh, and compute their decays."""
        points = np.concatenate([one.scores[one.outside] for one in classes])
        mesh = np.arange(self.cells + STENCIL - 1 if self.cells else 0) - (STENCIL / 2 - 1)
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite distance decays to 0
            if self.cells:
                place = np.concatenate([mesh * NODE_DISTANCE, (points - self.low) * self.gamma])
                ascending = np.argsort(place)
                distance = np.diff(place[ascending], prepend=0.0)
                # The difference of two points has all its digits; that of their places has not.
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
        return _NodeLine(decay, rank[: mesh.size], rank[mesh.size : plus_end], rank[plus_end:])

    def rows(self) -> RowSums:
        """Return the sums over the examples, one per row."""
        sums = []
        for line, points, nodes in (
            (self.line_of_rows, self.plus, self.line_of_rows.plus),
            (self.line, self.minus, self.line.minus),
        ):
            for field in self._field(line, points, nodes):
                sums.append(self._evaluate(line, field, self.unweighted_rows, line.plus))
        return RowSums(*sums)

    def vjp(self, a: Floats, b: Floats) -> Floats:
        """Return the sums over the rows, one per example."""
        fields = []
        for coefficient, line, points, nodes in (
            (-b, self.line, self.minus, self.line.minus),
            (a, self.line_of_rows, self.plus, self.line_of_rows.plus),
        ):
            slope = self._field(line, self.plus._replace(weight=coefficient), line.plus)[1]
            fields.append(self._evaluate(line, slope, points, nodes))
        out, on_rows = fields
        out[self.order] = on_rows
        return out

    def _field(
        self, line: _NodeLine, points: _SplitPoints, nodes: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Return Σ w ℓ and Σ w ℓ′ of the points at the nodes."""
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
        self, line: _NodeLine, field: Floats, points: _SplitPoints, nodes: NDArray[np.int64]
    ) -> Floats:
        """Return the field, given at the nodes, at the points, times their weights."""
        out = np.empty_like(points.scores)
        if self.cells:
            polynomials = polynomials_of_cells(field[line.mesh])
            over_threads(
                evaluate_cells,
                out.size,
                *points[:3],
                self.low,
                self.cells_per_unit,
                polynomials,
                out,
            )
        weight = points.weight[points.outside] if points.weight.size else 1.0
        out[points.outside] = field[nodes]
        out[points.outside] *= weight
        return out


class _SplitPoints(NamedTuple):
    """Points of one class; those outside the mesh are nodes of their own."""

    scores: Floats
    weight: Floats
    skip: Mask
    """True for points that the mesh does not represent."""
    outside: NDArray[np.int64]
    """Indices of the points of this class that are not in the mesh."""


class _NodeLine(NamedTuple):
    """Nodes in ascending order: their decays, and the positions of each kind of node."""

    decay: Floats
    mesh: NDArray[np.int64]
    plus: NDArray[np.int64]
    minus: NDArray[np.int64]
