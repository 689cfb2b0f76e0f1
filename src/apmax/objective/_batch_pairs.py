"""ℓ and ℓ′ of every positive of a batch against one class of it, a table at a time.

Each loop does one thing to a whole table, so that it fills vector registers and is called
once per round: a call per positive would spend more on counting references than on numbers.
`rules` is any tuple with `hinge`, `gamma` and `population`; see :class:`PairRules`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax._compile import kernel, reordering_kernel
from apmax.validation import Floats

MOST_APART = 600.0
"""Of γ times two scores: the square of exp(300) is a number yet."""


class PairRules(NamedTuple):
    """What a pair is worth."""

    hinge: bool  # surrogate: squared hinge, or else logistic
    gamma: float
    population: bool  # unbiased for all data, or else the batch stands for itself


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
    side.others[:] = scores.size
    if not hinge:
        _fill_logistic(gamma, s, side)
        return
    for i in range(s.size):
        for k in range(scores.size):
            reach = max(scores[k] - s[i] + gamma, 0.0)
            values[i, k] = reach * reach
            slopes[i, k] = 2.0 * reach


@kernel
def _fill_logistic(gamma, s, side):
    """σ(γ(s_k − s_i)) = a_k / (a_k + a_i), with a = exp(γ·score): an exp per score, not per pair.

    Scores too far apart for that, whose exp would overflow, take one per pair.
    """
    scores, values, slopes, a = side.scores, side.values, side.slopes, side.pulls
    if not scores.size:
        return
    low = min(s.min(), scores.min())
    high = max(s.max(), scores.max())
    if not gamma * (high - low) <= MOST_APART:
        _fill_logistic_far_apart(gamma, s, side)
        return
    middle = low + (high - low) / 2
    for k in range(scores.size):
        a[k] = np.exp(gamma * (scores[k] - middle))
    for i in range(s.size):
        own = np.exp(gamma * (s[i] - middle))
        for k in range(scores.size):
            share = 1.0 / (a[k] + own)
            values[i, k] = a[k] * share
            slopes[i, k] = gamma * (a[k] * share) * (own * share)


@kernel
def _fill_logistic_far_apart(gamma, s, side):
    scores, values, slopes = side.scores, side.values, side.slopes
    for i in range(s.size):
        for k in range(scores.size):
            x = gamma * (scores[k] - s[i])
            tail = np.exp(-abs(x))
            values[i, k] = (1.0 if x >= 0 else tail) / (1.0 + tail)
            slopes[i, k] = gamma * tail / ((1.0 + tail) * (1.0 + tail))


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


@kernel
def _pair_weights(rules, sizes, plus, minus, w_plus, w_minus):
    """Weights of a pair with another positive and of a pair with a negative, for each row."""
    m, n = sizes
    for i in range(w_plus.size):
        if rules.population:
            w_plus[i] = (m - 1) / (n * max(plus.others[i], 1))
            w_minus[i] = (n - m) / (n * max(minus.scores.size, 1))
        else:
            w_plus[i] = w_minus[i] = 1.0


@kernel
def estimate_rows(rules, sizes, v, plus, minus, w_plus, w_minus, g1, g2):
    """g̃ of every row of the batch, eq. (3) from its first draw."""
    ell_of_zero = rules.gamma * rules.gamma if rules.hinge else 0.5
    own = ell_of_zero / sizes[1] if rules.population else 1.0
    for i in range(g1.size):
        g1[i] = own * v[i]
    _pair_weights(rules, sizes, plus, minus, w_plus, w_minus)
    add_values(plus, w_plus, g1)
    g2[:] = g1
    add_values(minus, w_minus, g2)


@kernel
def pull_rows(rules, sizes, v, u1, u2, plus, minus, w_plus, w_minus, c):
    """∇g̃ᵀ∇f as a pull at every score: c at the rows, and the pulls of both sides."""
    _pair_weights(rules, sizes, plus, minus, w_plus, w_minus)
    for i in range(c.size):
        share = v[i] / c.size
        pull = share * u1[i] / (u2[i] * u2[i])  # ∂f/∂u₂; less 1/u₂ it is ∂f/∂u₁ + ∂f/∂u₂
        w_plus[i] *= pull - share / u2[i]
        w_minus[i] *= pull
        c[i] = 0.0
    add_pulls(plus, w_plus, c)
    add_pulls(minus, w_minus, c)
