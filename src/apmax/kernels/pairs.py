"""ℓ and ℓ′ of every positive of a batch against one class of it, a table at a time.

Each loop does one thing to a whole table, so that it fills vector registers and is called
once per round: a call per positive would spend more on counting references than on numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.kernels import kernel, reordering_kernel
from apmax.validation import Floats


class Side(NamedTuple):
    """One class of a batch: k scores and weights, and its pairs with the B positives."""

    scores: Floats  # (k,)
    weights: Floats  # (k,)
    values: Floats  # (B, k): ℓ(s_k − s_i), 0 for a pair of a positive with itself
    slopes: Floats  # (B, k): ℓ′ of the same
    others: NDArray[np.int64]  # (B,): how many of the k are not the positive itself
    pulls: Floats  # (k,): what the objective pulls at each score


@kernel
def new_side(batch, size):
    """A side of `size` examples, all of weight 1."""
    table = (batch, size)
    return Side(
        np.empty(size),
        np.ones(size),
        np.empty(table),
        np.empty(table),
        np.empty(batch, np.int64),
        np.empty(size),
    )


@kernel
def fill_pairs(hinge, gamma, s, side):
    """Fill values and slopes of `side` against the scores `s` of the positives."""
    scores, values, slopes = side.scores, side.values, side.slopes
    for i in range(s.size):
        if hinge:
            for k in range(scores.size):
                reach = max(scores[k] - s[i] + gamma, 0.0)
                values[i, k] = reach * reach
                slopes[i, k] = 2.0 * reach
        else:
            for k in range(scores.size):
                x = gamma * (scores[k] - s[i])
                tail = np.exp(-abs(x))
                values[i, k] = (1.0 if x >= 0 else tail) / (1.0 + tail)
                slopes[i, k] = gamma * tail / ((1.0 + tail) * (1.0 + tail))
        side.others[i] = scores.size


@kernel
def leave_out_self(rows, chosen, side):
    """Take the pairs of a positive with itself out of the table."""
    for i in range(rows.size):
        for k in range(chosen.size):
            if chosen[k] == rows[i]:
                side.values[i, k] = side.slopes[i, k] = 0.0
                side.others[i] -= 1


@reordering_kernel
def add_values(side, weights, totals):
    """totals_i += weights_i Σ_k v_k ℓ_ik."""
    values, v = side.values, side.weights
    for i in range(totals.size):
        total = 0.0
        for k in range(v.size):
            total += values[i, k] * v[k]
        totals[i] += weights[i] * total


@reordering_kernel
def add_pulls(side, factors, own):
    """pulls_k = Σ_i factors_i v_k ℓ′_ik, and own_i loses what its pairs pull at the others."""
    slopes, v, pulls = side.slopes, side.weights, side.pulls
    pulls[:] = 0.0
    for i in range(factors.size):
        total = 0.0
        for k in range(v.size):
            pull = factors[i] * v[k] * slopes[i, k]
            pulls[k] += pull
            total += pull
        own[i] -= total
