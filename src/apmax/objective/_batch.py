"""Kernels for one batch: estimates of the inner values, U after a round, and the gradient.

They serve the linear loop (:mod:`apmax.linear._rounds`) and the torch loss
(:mod:`apmax.torch._fused`). Each class of a batch is weighted by its own sampling rate, and the
pair of a positive with itself is counted once, exactly. With c_i positives k ≠ i in the batch,

    g̃₁ᵢ = (1/n) [ℓᵢᵢ + (m−1)/c_i · Σ_{k ≠ i} ℓₖᵢ],      g̃₂ᵢ = g̃₁ᵢ + (n−m)/(n·b) · Σ_neg ℓₖᵢ,

which is unbiased for g_i (``population``). Otherwise the batch stands for itself, as in SmoothAP:
every pair weighs 1, and the pair of x_i with itself counts as 1.

Loops are spelled out where NumPy has an expression for them: Numba compiles a loop several times
faster than a slice assignment or a reduction, and runs it as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax._compile import inner_kernel, reordering_kernel
from apmax.validation import Floats

MAX_EXPONENT = 600.0
"""Largest γ·(s_k − s_i) for which exp of centred scores, squared, stays finite."""
LOGISTIC, SQUARED_HINGE, CUSTOM = 0, 1, 2
"""Kinds of surrogates."""


class PairRules(NamedTuple):
    """How a pair of a batch counts."""

    kind: int  # LOGISTIC, SQUARED_HINGE or CUSTOM
    gamma: float
    own: float  # ℓ(0)
    population: bool  # unbiased for all data, otherwise the batch stands for itself


class BatchSide(NamedTuple):
    """One class of a batch: k scores and weights, and its pairs with the B positives."""

    scores: Floats  # (k,)
    weights: Floats  # (k,)
    values: Floats  # (B, k): ℓ(s_k − s_i), 0 for the pair of a positive with itself
    slopes: Floats  # (B, k): ℓ′ of the same
    others: NDArray[np.int64]  # (B,): how many of the k are not the positive itself
    pulls: Floats  # (k,): gradient with respect to each score


@inner_kernel
def new_side(batch, size):
    """Allocate a side of `size` examples of weight 1."""
    weights = np.empty(size)
    for k in range(size):
        weights[k] = 1.0
    return BatchSide(
        np.empty(size),
        weights,
        np.empty((batch, size)),
        np.empty((batch, size)),
        np.empty(batch, np.int64),
        np.empty(size),
    )


@inner_kernel
def fill_pairs(kind, gamma, s, side):
    """Fill values and slopes of `side` against the scores `s` of the positives."""
    scores, values, slopes = side.scores, side.values, side.slopes
    if kind == SQUARED_HINGE:
        for i in range(s.size):
            for k in range(scores.size):
                reach = max(scores[k] - s[i] + gamma, 0.0)
                values[i, k] = reach * reach
                slopes[i, k] = 2.0 * reach
        return
    low, high = np.inf, -np.inf
    for i in range(s.size):
        low, high = min(low, s[i]), max(high, s[i])
    for k in range(scores.size):
        low, high = min(low, scores[k]), max(high, scores[k])
    if gamma * (high - low) <= MAX_EXPONENT:
        # σ(γ(s_k − s_i)) = a_k / (a_k + a_i) with a = exp(γ·score): one exp per score.
        middle, a = low + (high - low) / 2, side.pulls
        for k in range(scores.size):
            a[k] = np.exp(gamma * (scores[k] - middle))
        for i in range(s.size):
            own = np.exp(gamma * (s[i] - middle))
            for k in range(scores.size):
                share = 1.0 / (a[k] + own)
                values[i, k] = a[k] * share
                slopes[i, k] = gamma * (a[k] * share) * (own * share)
        return
    for i in range(s.size):
        for k in range(scores.size):
            x = gamma * (scores[k] - s[i])
            tail = np.exp(-abs(x))
            values[i, k] = (1.0 if x >= 0 else tail) / (1.0 + tail)
            slopes[i, k] = gamma * tail / ((1.0 + tail) * (1.0 + tail))


@inner_kernel
def fill_custom_pairs(value, slope, gamma, s, side):
    """Fill values and slopes by calling compiled functions of single numbers."""
    for i in range(s.size):
        for k in range(side.scores.size):
            x = side.scores[k] - s[i]
            side.values[i, k] = value(x, gamma)
            side.slopes[i, k] = slope(x, gamma)


@inner_kernel
def leave_out_self(rows, chosen, side):
    """Remove the pairs of a positive with itself; count the others."""
    for i in range(rows.size):
        others = chosen.size
        for k in range(chosen.size):
            if chosen[k] == rows[i]:
                side.values[i, k] = 0.0
                side.slopes[i, k] = 0.0
                others -= 1
        side.others[i] = others


@reordering_kernel
def _add_values(values, v, weights, totals):
    """Add weights_i Σ_k v_k ℓ_ik to totals_i."""
    for i in range(totals.size):
        total = 0.0
        for k in range(v.size):
            total += values[i, k] * v[k]
        totals[i] += weights[i] * total


@reordering_kernel
def _add_pulls(slopes, v, pulls, factors, own):
    """Set pulls_k = Σ_i factors_i v_k ℓ′_ik, and subtract each row's own sum from own_i."""
    for k in range(pulls.size):
        pulls[k] = 0.0
    for i in range(factors.size):
        total = 0.0
        for k in range(v.size):
            pull = factors[i] * v[k] * slopes[i, k]
            pulls[k] += pull
            total += pull
        own[i] -= total


@inner_kernel
def weigh_pairs(rules, m, n, plus, minus, w_plus, w_minus):
    """Compute the weights of a pair with another positive and with a negative, per row."""
    for i in range(w_plus.size):
        if rules.population:
            w_plus[i] = (m - 1) / (n * max(plus.others[i], 1))
            w_minus[i] = (n - m) / (n * max(minus.scores.size, 1))
        else:
            w_plus[i] = 1.0
            w_minus[i] = 1.0


@inner_kernel
def estimate_rows(rules, m, n, v, plus, minus, w_plus, w_minus, g1, g2):
    """Compute g̃ of every row of the batch, eq. (3), and the weights of its pairs."""
    weigh_pairs(rules, m, n, plus, minus, w_plus, w_minus)
    for i in range(g1.size):
        g1[i] = (rules.own / n if rules.population else 1.0) * v[i]
    _add_values(plus.values, plus.weights, w_plus, g1)
    for i in range(g1.size):
        g2[i] = g1[i]
    _add_values(minus.values, minus.weights, w_minus, g2)


@inner_kernel
def pull_rows(v, u1, u2, plus, minus, w_plus, w_minus, c):
    """Compute ∇g̃ᵀ∇f(U): c with respect to the rows, and the pulls of both sides.

    `w_plus` and `w_minus` are the weights of the pairs and are overwritten.
    """
    for i in range(c.size):
        share = v[i] / c.size
        pull = share * u1[i] / (u2[i] * u2[i])  # ∂f/∂u₂; minus 1/u₂ it is ∂f/∂u₁ + ∂f/∂u₂
        w_plus[i] *= pull - share / u2[i]
        w_minus[i] *= pull
        c[i] = 0.0
    _add_pulls(plus.slopes, plus.weights, plus.pulls, w_plus, c)
    _add_pulls(minus.slopes, minus.weights, minus.pulls, w_minus, c)


@inner_kernel
def move_rows(omega, beta0, gain, normalised, factors, old, g1, g2):
    """Turn estimates into rows of U: Π[(1−β₀) Π[factor · old] + gain · g], or Π[g] if new.

    `factors` are the decay of each row since it was written; NaN for a first visit. If they are
    `normalised`, the row is Π[φ Π[old] + (1 − φ) g] with φ = (1−β₀) · factor.
    """
    for i in range(g1.size):
        u1, u2, factor = g1[i], g2[i], factors[i]
        if not np.isnan(factor):
            keep, shrink = 1.0 - beta0, factor
            if normalised:
                keep, shrink = keep * factor, 1.0
                gain = 1.0 - keep
            old1 = min(max(old[i, 0] * shrink, omega.bottom1), omega.top1)
            old2 = min(max(old[i, 1] * shrink, omega.bottom2), omega.top2)
            u1 = keep * old1 + gain * u1
            u2 = keep * old2 + gain * u2
        g1[i] = min(max(u1, omega.bottom1), omega.top1)
        g2[i] = min(max(u2, omega.bottom2), omega.top2)
