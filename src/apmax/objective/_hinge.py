"""Exact squared-hinge pair sums by one sweep over the sorted positives.

Positives are rows, p₀ ≤ p₁ ≤ …, with weights v. Row i sees example j if its reach
x = sⱼ − pᵢ + γ is positive, so an example is seen by all rows up to its *top row*. The sums

    Σ wⱼ,   Σ wⱼ x,   Σ wⱼ x²

over the examples that a row sees follow from those of the row above by x → x + (pᵢ₊₁ − pᵢ), plus
the examples whose top row this is. Every term is positive, so nothing cancels: unlike prefix
sums of s and s², the error does not grow with the range of the scores.

Cost: O(n + m log m) for evenly spread positives, O(n log m) in the worst case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax._compile import kernel, over_threads
from apmax._ranks import count_at_most, make_thresholds
from apmax.objective._pair_sums import SKIP_NONE, Examples, KernelPoints, RowSums, SortedRows
from apmax.validation import Floats

EXACT_BELOW = 1e4
"""|s|/γ up to which s + γ keeps the twelve digits that ranking by it needs."""


class HingeSums(SortedRows):
    """Squared-hinge sums of one set of scores."""

    def __init__(self, examples: Examples, gamma: float) -> None:
        super().__init__(examples, gamma)
        thresholds = make_thresholds(self.row_scores)
        below = [self._rows_below(thresholds, s) for s in (self.row_scores, examples.scores)]
        self.plus = (self.row_scores, self.row_weight, SKIP_NONE, below[0])
        self.minus = (examples.scores, self.weight, examples.positive, below[1])

    def _rows_below(self, thresholds: Any, scores: Floats) -> NDArray[np.int32]:
        """Count the rows that each score reaches."""
        below = count_at_most(thresholds, scores, self.gamma)
        if max(self.examples.high, -self.examples.low) > EXACT_BELOW * self.gamma:
            over_threads(correct_top_rows, scores.size, scores, self.row_scores, self.gamma, below)
        return below

    def rows(self) -> RowSums:
        """Return the sums over the examples, one per row."""
        rows = self.row_scores
        sums = []
        for points in (self.plus, self.minus):
            moments = np.zeros((rows.size, 3))
            arguments = (*points, rows, self.gamma, moments)
            over_threads(moments_by_top_row, rows.size, *arguments, work=points[0].size)
            reach, square = sums_of_rows(rows, moments)
            sums += [square, 2.0 * reach]
        return RowSums(*sums)

    def vjp(self, a: Floats, b: Floats) -> Floats:
        """Return the sums over the rows, one per example."""
        out = self._vjp_at(self.minus, -2.0 * b)
        out[self.order] = self._vjp_at(self.plus, 2.0 * a)
        return out

    def _vjp_at(self, points: KernelPoints, coefficient: Floats) -> Floats:
        out = np.empty_like(points[0])
        table = cumulative_pulls(self.row_scores, coefficient)
        over_threads(pulls_at_examples, out.size, *points, table, self.gamma, out)
        return out


@kernel
def correct_top_rows(begin, end, scores, rows, gamma, rows_below):
    """Recount rows with a positive reach where rounding of s + γ has miscounted.

    Scores far from 0 relative to γ lose digits in s + γ; s − p + γ does not.
    """
    for j in range(begin, end):
        below = np.int64(rows_below[j])
        too_few = below < rows.size and scores[j] - rows[below] + gamma > 0.0
        too_many = below > 0 and scores[j] - rows[below - 1] + gamma <= 0.0
        if too_few or too_many:  # binary search: many rows may be tied
            low, high = 0, rows.size
            while low < high:
                middle = (low + high) >> 1
                if scores[j] - rows[middle] + gamma > 0.0:
                    low = middle + 1
                else:
                    high = middle
            rows_below[j] = low


@kernel
def moments_by_top_row(begin, end, scores, weight, skip, rows_below, rows, gamma, moments):
    """Add Σ w, Σ w·x, Σ w·x² of the examples that are not skipped to their top row.

    begin … end are rows: each thread reads all examples and writes its own part of the table,
    so every sum keeps the order of the examples.
    """
    for j in range(scores.size):
        top = np.int64(rows_below[j]) - 1
        if top < begin or top >= end or (skip.size and skip[j]):
            continue
        w = weight[j] if weight.size else 1.0
        x = max(scores[j] - rows[top] + gamma, 0.0)
        moments[top, 0] += w
        moments[top, 1] += w * x
        moments[top, 2] += w * x * x


@kernel
def sums_of_rows(rows, moments):
    """Return Σ w·x and Σ w·x² over the examples that each row sees."""
    reach = np.empty(rows.size)
    square = np.empty(rows.size)
    a0, a1, a2 = 0.0, 0.0, 0.0
    for i in range(rows.size - 1, -1, -1):
        if i < rows.size - 1:
            d = rows[i + 1] - rows[i]
            a2 += d * (2.0 * a1 + d * a0)
            a1 += d * a0
        a0 += moments[i, 0]
        a1 += moments[i, 1]
        a2 += moments[i, 2]
        reach[i] = a1
        square[i] = a2
    return reach, square


@kernel
def cumulative_pulls(rows, pull):
    """Return a table of pᵢ, Σ pullₗ and Σ pullₗ·(pᵢ − pₗ) over the rows l ≤ i."""
    table = np.empty((rows.size, 3))
    q0, q1 = 0.0, 0.0
    for i in range(rows.size):
        if i > 0:
            q1 += q0 * (rows[i] - rows[i - 1])
        q0 += pull[i]
        table[i, 0] = rows[i]
        table[i, 1] = q0
        table[i, 2] = q1
    return table


@kernel
def pulls_at_examples(begin, end, scores, weight, skip, rows_below, table, gamma, out):
    """Set out[j] = wⱼ · Σᵢ pullᵢ·max(0, sⱼ − pᵢ + γ) for the examples that are not skipped."""
    for j in range(begin, end):
        if skip.size and skip[j]:
            continue
        top = np.int64(rows_below[j]) - 1
        if top < 0:
            out[j] = 0.0
            continue
        w = weight[j] if weight.size else 1.0
        if w == 0.0:
            out[j] = 0.0
            continue
        x = max(scores[j] - table[top, 0] + gamma, 0.0)
        out[j] = w * (table[top, 2] + table[top, 1] * x)
