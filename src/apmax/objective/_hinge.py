"""Sums of squared hinges over all pairs, by one sweep over the sorted positives.

Positives are rows, p₀ ≤ p₁ ≤ …, with weights v. Row i sees example j if its reach
x = sⱼ − pᵢ + γ is positive, so an example is seen by the rows up to its *top row*. The sums

    Σ wⱼ,   Σ wⱼ x,   Σ wⱼ x²

over what a row sees follow from those of the row above by x → x + (pᵢ₊₁ − pᵢ), plus the
examples whose top row this is. Every term is positive, so nothing cancels: the error does
not grow with the range of the scores, as it would with prefix sums of s and s².
"""

from __future__ import annotations

import numpy as np

from apmax._compile import kernel


@kernel
def correct_top_rows(begin, end, scores, rows, gamma, rows_below):
    """Count the rows with a positive reach where rounding s + γ has miscounted by a few.

    Scores far from 0 beside γ lose digits in s + γ; s − p + γ does not, and it is the reach.
    """
    for j in range(begin, end):
        below = np.int64(rows_below[j])
        too_few = below < rows.size and scores[j] - rows[below] + gamma > 0.0
        too_many = below > 0 and scores[j] - rows[below - 1] + gamma <= 0.0
        if too_few or too_many:  # search again: many rows may be tied
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
    """Σ w, Σ w·x, Σ w·x² of the examples that are not skipped, gathered at their top row.

    begin … end are rows: a thread reads all examples and writes its own part of the table,
    which keeps that part in its cache and every sum in the order of the examples.
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
    """Σ w·x and Σ w·x² over all that each row sees, from the moments at the top rows."""
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
def pull_of_rows(rows, pull):
    """Table of pᵢ, Σ pullₗ and Σ pullₗ·(pᵢ − pₗ) over the rows l ≤ i."""
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
def pull_on_examples(begin, end, scores, weight, skip, rows_below, table, gamma, out):
    """out[j] = wⱼ · Σᵢ pullᵢ·max(0, sⱼ − pᵢ + γ) for the examples not skipped."""
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
