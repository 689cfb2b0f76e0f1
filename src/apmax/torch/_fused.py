"""The step of APLoss on the CPU as one compiled loop.

It is the round of :mod:`apmax.linear._rounds` for scores that come from a network: it ends at the
gradient with respect to the scores. A row of U keeps the log-decay at which it was last written.
"""

from __future__ import annotations

import numpy as np

from apmax._compile import inner_kernel, kernel
from apmax.objective._batch import (
    PairRules,
    estimate_rows,
    fill_pairs,
    leave_out_self,
    move_rows,
    new_side,
    pull_rows,
)
from apmax.objective.omega import Omega

TAKEN, UNREADABLE, UNINFORMATIVE, TOO_LARGE = 0, 1, 2, 3
"""What happened to a batch: used; invalid; without both classes; numbers that U cannot hold."""
NO_LABELS = np.empty(0)
"""Passed if the batch has no labels of its own to compare with."""


SETTINGS = np.dtype(
    [
        ("kind", "i8"),  # of the surrogate
        ("gamma", "f8"),
        ("own", "f8"),  # ℓ(0)
        ("remembers", "?"),
        ("decays", "?"),
        ("normalised", "?"),
        ("omega", "f8", 4),
        ("lowest", "f8"),  # score
        ("highest", "f8"),  # score
        ("spread", "f8"),  # largest difference of two scores
        ("largest", "f8"),  # largest number that U can hold
    ],
    align=True,
)
"""Surrogate and tracker of a loss: one array, because Numba takes longer to read tuples."""


@inner_kernel
def _row_of(cells, example):
    """Return the row of an example among the sorted positives, or −1.

    The binary search has no branches, because none of them could be predicted.
    """
    first, size = 0, cells.size
    while size > 1:
        half = size >> 1
        first += half * (cells[first + half - 1] < example)
        size -= half
    return first if cells[first] == example else -1


@inner_kernel
def _readable(scores, index, n, settings):
    """Return whether scores are finite and within bounds, and indices valid and distinct."""
    least, most = np.inf, -np.inf
    for k in range(scores.size):
        if not np.isfinite(scores[k]) or index[k] < 0 or index[k] >= n:
            return False
        least, most = min(least, scores[k]), max(most, scores[k])
    if most - least > settings.spread or least < settings.lowest or most > settings.highest:
        return False
    slots = 4
    while slots < 2 * index.size:
        slots *= 2
    table = np.empty(slots, np.int64)
    for k in range(slots):
        table[k] = -1
    for k in range(index.size):
        slot = index[k] & (slots - 1)
        while table[slot] != -1:
            if table[slot] == index[k]:
                return False
            slot = (slot + 1) & (slots - 1)
        table[slot] = index[k]
    return scores.size > 0


@inner_kernel
def _find_rows(cells, index, given, places):
    """Fill `places` with rows of U, −1 for negatives; return the number of positives.

    It is −1 if the labels `given` with the batch are others, or not 1, 0 or −1.
    """
    count = 0
    for k in range(index.size):
        places[k] = _row_of(cells, index[k])
        if given.size:
            agree = given[k] == 1.0 if places[k] >= 0 else given[k] == 0.0 or given[k] == -1.0
            if not agree:
                return -1
        if places[k] >= 0:
            count += 1
    return count


@inner_kernel
def _update_rows(settings, tick, u, written_at, rows, g1, g2):
    """Move and store rows of U; g1 and g2 become the new rows. Return whether they fit."""
    beta0, decay, next_decay = tick
    old, factors = np.empty((rows.size, 2)), np.empty(rows.size)
    for i in range(rows.size):
        then = written_at[rows[i]] if settings.remembers else np.nan
        factors[i] = np.nan
        if not np.isnan(then):
            old[i, 0], old[i, 1] = u[rows[i], 0], u[rows[i], 1]
            factors[i] = np.exp(decay - then) if settings.decays else 1.0
    gain = beta0 * (written_at.size / rows.size if settings.decays else 1.0)
    low1, high1, low2, high2 = settings.omega
    omega = Omega(low1, high1, low2, high2)
    move_rows(omega, beta0, gain, settings.normalised, factors, old, g1, g2)
    for i in range(rows.size):
        if not (g1[i] <= settings.largest and g2[i] <= settings.largest):
            return False
    if settings.remembers:
        for i in range(rows.size):
            u[rows[i], 0], u[rows[i], 1] = g1[i], g2[i]
            written_at[rows[i]] = next_decay
    return True


@kernel
def track_batch(
    scores, index, given, n, cells, u, written_at, settings, beta0, decay, next_decay, gradient
):
    """Take a batch: update U and fill the gradient of −ÂP with respect to the scores.

    Return what happened to the batch, and −ÂP as tracked for its positives. Nothing has changed
    unless the batch was taken. `scores`, `given` (or `NO_LABELS`) and `gradient` are contiguous
    float64 arrays, and `settings` holds one record; for `beta0`, `decay` and `next_decay` see
    :class:`~apmax.torch.compositional.Tick`.
    """
    size = scores.size
    places = np.empty(size, np.int64)
    record = settings[0]
    if not _readable(scores, index, n, record):
        return UNREADABLE, 0.0
    count = _find_rows(cells, index, given, places)
    if count < 0:
        return UNREADABLE, 0.0
    m, rest = cells.size, size - count
    if count < min(m, 2) or rest < 1:
        return UNINFORMATIVE, 0.0
    rows, where = np.empty(count, np.int64), np.empty(size, np.int64)
    plus, minus = new_side(count, count), new_side(count, rest)
    i, j = 0, 0
    for k in range(size):
        if places[k] >= 0:
            rows[i], where[i], plus.scores[i] = places[k], k, scores[k]
            i += 1
        else:
            where[count + j], minus.scores[j] = k, scores[k]
            j += 1
    s, v, c = plus.scores, plus.weights, np.empty(count)
    w_plus, w_minus, g1, g2 = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    rules = PairRules(record.kind, record.gamma, record.own, True)
    fill_pairs(rules.kind, rules.gamma, s, plus)
    fill_pairs(rules.kind, rules.gamma, s, minus)
    leave_out_self(rows, rows, plus)
    estimate_rows(rules, m, n, v, plus, minus, w_plus, w_minus, g1, g2)
    if not _update_rows(record, (beta0, decay, next_decay), u, written_at, rows, g1, g2):
        return TOO_LARGE, 0.0
    pull_rows(v, g1, g2, plus, minus, w_plus, w_minus, c)
    value = 0.0
    for i in range(count):
        value -= g1[i] / g2[i] / count
        gradient[where[i]] = c[i] + plus.pulls[i]
    for j in range(rest):
        gradient[where[count + j]] = minus.pulls[j]
    return TAKEN, value
