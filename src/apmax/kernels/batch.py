"""One batch of examples with a memory of all positives: what a training loop calls per step.

The same round as in :mod:`apmax.kernels.descent`, for scores that come from elsewhere: it ends
at the gradient in the scores. A row of U keeps the log-decay at which it was last written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apmax.kernels import kernel
from apmax.kernels.pairs import (
    estimate_rows,
    fill_pairs,
    leave_out_self,
    new_side,
    pull_rows,
)

TAKEN, BAD, POOR = 0, 1, 2
"""The batch was taken; it cannot be read; it says nothing of the ranking."""


class Clock(NamedTuple):
    """β₀ of this round, and the cumulative log-decay before and after it, in two doubles."""

    beta0: float
    high: float
    low: float
    next_high: float


class Tracking(NamedTuple):
    """How U moves."""

    remembers: bool
    decays: bool
    top1: float
    bottom2: float
    top2: float
    spread: float  # of the scores, at most


@kernel
def _place(cells, example):
    """The row of an example among the sorted positives, or −1."""
    low, high = 0, cells.size
    while low < high:
        middle = (low + high) >> 1
        if cells[middle] < example:
            low = middle + 1
        else:
            high = middle
    return low if low < cells.size and cells[low] == example else -1


@kernel
def _readable(scores, index, n, spread):
    """Whether scores are finite and near enough, and places within the data, each once."""
    least, most = np.inf, -np.inf
    for k in range(scores.size):
        if not np.isfinite(scores[k]) or index[k] < 0 or index[k] >= n:
            return False
        least, most = min(least, scores[k]), max(most, scores[k])
    if most - least > spread:
        return False
    ordered = np.sort(index)
    for k in range(ordered.size - 1):
        if ordered[k] == ordered[k + 1]:
            return False
    return scores.size > 0


@kernel
def _update_rows(tracking, clock, cells, u, written_at, rows, g1, g2):
    """Rows of U after this round; g1 and g2 become what U is now. False if one is not finite."""
    for i in range(rows.size):
        if not (np.isfinite(g1[i]) and np.isfinite(g2[i])):
            return False
    gain = clock.beta0 * (cells.size / rows.size if tracking.decays else 1.0)
    for i in range(rows.size):
        row, u1, u2 = rows[i], g1[i], g2[i]
        if tracking.remembers and not np.isnan(written_at[row]):
            old1, old2 = np.float64(u[row, 0]), np.float64(u[row, 1])
            if tracking.decays:
                factor = np.exp((clock.high - written_at[row]) + clock.low)
                old1, old2 = old1 * factor, old2 * factor
            old2 = max(old2, tracking.bottom2)
            u1 = (1.0 - clock.beta0) * old1 + gain * u1
            u2 = (1.0 - clock.beta0) * old2 + gain * u2
        g1[i] = min(max(u1, 0.0), tracking.top1)
        g2[i] = min(max(u2, tracking.bottom2), tracking.top2)
        if tracking.remembers:
            u[row, 0], u[row, 1] = g1[i], g2[i]
            written_at[row] = clock.next_high
    return True


@kernel
def track_batch(scores, index, n, cells, u, written_at, rules, tracking, clock, gradient):
    """Take a batch: update U, fill the gradient of −ÂP in the scores.

    Return what became of the batch, and −ÂP as tracked for its positives. Unless it was taken,
    nothing has changed.
    """
    if not _readable(scores, index, n, tracking.spread):
        return BAD, 0.0
    places = np.empty(scores.size, np.int64)
    count = 0
    for k in range(scores.size):
        places[k] = _place(cells, index[k])
        count += places[k] >= 0
    m, rest = cells.size, scores.size - count
    if count < min(m, 2) or rest < 1:
        return POOR, 0.0
    rows, where = np.empty(count, np.int64), np.empty(scores.size, np.int64)
    plus, minus = new_side(count, count), new_side(count, rest)
    i, j = 0, 0
    for k in range(scores.size):
        if places[k] >= 0:
            rows[i], where[i], plus.scores[i] = places[k], k, scores[k]
            i += 1
        else:
            where[count + j], minus.scores[j] = k, scores[k]
            j += 1
    s, v, c = plus.scores, np.ones(count), np.empty(count)
    w_plus, w_minus, g1, g2 = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    fill_pairs(rules.hinge, rules.gamma, s, plus)
    fill_pairs(rules.hinge, rules.gamma, s, minus)
    leave_out_self(rows, rows, plus)
    sizes = (m, n)
    estimate_rows(rules, sizes, v, plus, minus, w_plus, w_minus, g1, g2)
    if not _update_rows(tracking, clock, cells, u, written_at, rows, g1, g2):
        return BAD, 0.0
    pull_rows(rules, sizes, v, g1, g2, plus, minus, w_plus, w_minus, c)
    value = 0.0
    for i in range(count):
        value -= g1[i] / g2[i] / count
        gradient[where[i]] = c[i] + plus.pulls[i]
    for j in range(rest):
        gradient[where[count + j]] = minus.pulls[j]
    return TAKEN, value
