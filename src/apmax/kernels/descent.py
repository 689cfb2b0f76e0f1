"""Rounds of every stochastic method for a linear model, fused into one loop.

One call runs a chunk of rounds of :mod:`apmax.method.loop` for the scores σ(x·w + b), on
dense or CSR rows, and leaves its state where it was given. What a row of the table means is
read from numbers (:class:`Rules`), so a new row needs no new loop.

Rows not in a batch decay lazily, as in :class:`apmax.method.trackers.RandomizedCoordinate`.
There each row keeps the cumulative log-decay at which it was last written; here it keeps the
*round*, and the log-decay of every round is a table, in two doubles. That is 24 bytes per
positive: two doubles of U and one integer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.kernels import kernel
from apmax.validation import Floats

NEVER = -1
"""The round of a row of U that has not been seen."""


class Features(NamedTuple):
    """X as the loop reads it: dense rows, or CSR (the other is empty), times a scale."""

    dense: NDArray[Any]
    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    scale: Floats
    centre: Floats  # subtracted before the scale; zeros if X is sparse


class Rules(NamedTuple):
    """A row of the table of methods, and its problem, in numbers."""

    hinge: bool  # surrogate: squared hinge, or else logistic
    gamma: float
    population: bool  # pairs: unbiased for all data, or else the batch stands for itself
    tracker: int  # 0 none, 1 moving average, 2 randomized coordinate
    projected: bool
    top1: float
    bottom2: float
    top2: float
    momentum: bool
    average: int  # second moment: 0 none, 1 moving, 2 running mean
    used: int  # of it: 0 as it is, 1 never smaller, 2 clipped
    lower_v: float
    upper_v: float
    beta2: float
    delta: float
    penalty: float
    intercept: bool


class Draws(NamedTuple):
    """A chunk of draws, one row per round; see :class:`apmax.method.sampling.Draw`."""

    shared: bool
    rows: NDArray[np.int64]
    value_positives: NDArray[np.int64]
    value_negatives: NDArray[np.int64]
    slope_positives: NDArray[np.int64]
    slope_negatives: NDArray[np.int64]


class Steps(NamedTuple):
    """η, β₀, β₁ of every round of the chunk, and the log-decay of every round so far."""

    first: int  # t − 1 of the first round of the chunk
    eta: Floats
    beta0: Floats
    beta1: Floats
    log_decay: Floats  # (rounds + 1, 2): Σ log(1 − β₀) up to each round, as two doubles


class Memory(NamedTuple):
    """What a run carries from round to round; parameters end with the intercept."""

    w: Floats
    anchor: Floats
    m: Floats
    average: Floats
    v: Floats
    u: Floats
    written_at: NDArray[np.int64]


@kernel
def _dot(features, row, w):
    total = 0.0
    if features.indptr.size:
        for p in range(features.indptr[row], features.indptr[row + 1]):
            k = features.indices[p]
            total += features.data[p] * features.scale[k] * w[k]
    else:
        for k in range(features.dense.shape[1]):
            total += features.dense[row, k] * features.scale[k] * w[k]
    return total


@kernel
def _add_row(features, row, factor, total):
    """total += factor · x."""
    if features.indptr.size:
        for p in range(features.indptr[row], features.indptr[row + 1]):
            k = features.indices[p]
            total[k] += factor * features.data[p] * features.scale[k]
    else:
        for k in range(features.dense.shape[1]):
            total[k] += factor * features.dense[row, k] * features.scale[k]


@kernel
def _score(features, examples, chosen, w, scores):
    """σ((x − centre)·scale·w + b) of the chosen examples."""
    offset = w[-1]
    for k in range(features.centre.size):
        offset -= features.centre[k] * features.scale[k] * w[k]
    for k in range(chosen.size):
        z = _dot(features, examples[chosen[k]], w) + offset
        tail = np.exp(-abs(z))
        scores[k] = (1.0 if z >= 0 else tail) / (1.0 + tail)


@kernel
def _pair_value(rules, x):
    if rules.hinge:
        reach = max(x + rules.gamma, 0.0)
        return reach * reach
    tail = np.exp(-abs(rules.gamma * x))
    return (1.0 if x >= 0 else tail) / (1.0 + tail)


@kernel
def _pair_slope(rules, x):
    if rules.hinge:
        return 2.0 * max(x + rules.gamma, 0.0)
    tail = np.exp(-abs(rules.gamma * x))
    return rules.gamma * tail / (1.0 + tail) ** 2


@kernel
def _pair_weights(rules, others, m, n, negatives):
    """Weights of a pair with another positive and of a pair with a negative."""
    if not rules.population:
        return 1.0, 1.0
    return (m - 1) / (n * max(others, 1)), (n - m) / (n * max(negatives, 1))


@kernel
def _update_row(rules, memory, row, g1, g2, beta0, t, decay, batch):
    """Row of U after round t, projected and stored."""
    u1, u2 = g1, g2
    then = memory.written_at[row]
    if rules.tracker and then >= 0:
        old1, old2 = memory.u[row, 0], memory.u[row, 1]
        gain = beta0
        if rules.tracker == 2:
            log_factor = (decay[t - 1, 0] - decay[then, 0]) + (decay[t - 1, 1] - decay[then, 1])
            factor = np.exp(log_factor)
            old1, old2 = old1 * factor, old2 * factor
            if rules.projected:
                old2 = max(old2, rules.bottom2)
            gain *= memory.written_at.size / batch
        u1 = (1.0 - beta0) * old1 + gain * g1
        u2 = (1.0 - beta0) * old2 + gain * g2
    if rules.projected:
        u1 = min(max(u1, 0.0), rules.top1)
        u2 = min(max(u2, rules.bottom2), rules.top2)
    memory.u[row, 0] = u1
    memory.u[row, 1] = u2
    memory.written_at[row] = t
    return u1, u2


@kernel
def _take_step(rules, memory, gradient, eta, beta1, t):
    """The direction of eq. (ada) and the step along it."""
    w, m, average, v = memory.w, memory.m, memory.average, memory.v
    for k in range(w.size - (0 if rules.intercept else 1)):
        g = gradient[k]
        step = g
        if rules.momentum:
            m[k] = (1.0 - beta1) * m[k] + beta1 * g
            step = m[k]
        if rules.average:
            if rules.average == 1:
                average[k] = (1.0 - rules.beta2) * average[k] + rules.beta2 * (g * g)
            else:
                average[k] = (t * average[k] + g * g) / (t + 1)
            if rules.used == 0:
                v[k] = average[k]
            elif rules.used == 1:
                v[k] = max(v[k], average[k])
            else:
                v[k] = min(max(average[k], rules.lower_v), rules.upper_v)
            step /= np.sqrt(v[k]) + rules.delta
        w[k] -= eta * step


@kernel
def _inner(rules, row, s, v, group, scores, others_scores, sizes):
    """g̃ of one row: (g₁, g₂) from the first batch of the draw."""
    m, n = sizes
    plus, minus, others = 0.0, 0.0, 0
    positives, negatives = group
    v_plus, v_minus = v
    for k in range(positives.size):
        if positives[k] != row:
            plus += _pair_value(rules, scores[k] - s) * (v_plus[positives[k]] if v_plus.size else 1)
            others += 1
    for k in range(negatives.size):
        value = _pair_value(rules, others_scores[k] - s)
        minus += value * (v_minus[negatives[k]] if v_minus.size else 1)
    w_plus, w_minus = _pair_weights(rules, others, m, n, negatives.size)
    own = _pair_value(rules, 0.0) / n if rules.population else 1.0
    g1 = own * (v_plus[row] if v_plus.size else 1) + w_plus * plus
    return g1, g1 + w_minus * minus


@kernel
def _spread_pull(rules, row, s, v, pulls, group, scores, others_scores, sizes, coefficients):
    """Give each pair of one row its share of ∇g̃ᵀ∇f; return what falls to the row itself."""
    m, n = sizes
    positives, negatives = group
    v_plus, v_minus = v
    c_plus, c_minus = coefficients
    others = 0
    for k in range(positives.size):
        others += positives[k] != row
    w_plus, w_minus = _pair_weights(rules, others, m, n, negatives.size)
    total = 0.0
    for k in range(positives.size):
        if positives[k] != row:
            c = pulls[0] * w_plus * _pair_slope(rules, scores[k] - s)
            c *= v_plus[positives[k]] if v_plus.size else 1
            c_plus[k] += c
            total += c
    for k in range(negatives.size):
        c = pulls[1] * w_minus * _pair_slope(rules, others_scores[k] - s)
        c *= v_minus[negatives[k]] if v_minus.size else 1
        c_minus[k] += c
        total += c
    return -total


@kernel
def run_rounds(features, positives, negatives, weights, draws, steps, rules, memory):
    """Run one round per row of the draws; return ‖∇̃‖ of the last.

    `weights` are those of the positives and of the negatives, empty for all ones; their mean
    over the positives is 1.
    """
    rounds, batch = draws.rows.shape
    sizes = (positives.size, positives.size + negatives.size)
    s_rows = np.empty(batch)
    s_vp, s_vn = np.empty(draws.value_positives.shape[1]), np.empty(draws.value_negatives.shape[1])
    s_sp, s_sn = np.empty(draws.slope_positives.shape[1]), np.empty(draws.slope_negatives.shape[1])
    if draws.shared:
        s_vp = s_sp = s_rows
        s_sn = s_vn
    c_rows, c_sp, c_sn = np.empty(s_rows.size), np.empty(s_sp.size), np.empty(s_sn.size)
    gradient = np.zeros(memory.w.size)
    for r in range(rounds):
        t = steps.first + r + 1
        rows = draws.rows[r]
        values = (draws.value_positives[r], draws.value_negatives[r])
        slopes = (draws.slope_positives[r], draws.slope_negatives[r])
        _score(features, positives, rows, memory.w, s_rows)
        _score(features, negatives, values[1], memory.w, s_vn)
        if not draws.shared:
            _score(features, positives, values[0], memory.w, s_vp)
            _score(features, positives, slopes[0], memory.w, s_sp)
            _score(features, negatives, slopes[1], memory.w, s_sn)
        c_sp[:] = 0.0
        c_sn[:] = 0.0
        for i in range(batch):
            row, s = rows[i], s_rows[i]
            g1, g2 = _inner(rules, row, s, weights, values, s_vp, s_vn, sizes)
            u1, u2 = _update_row(
                rules, memory, row, g1, g2, steps.beta0[r], t, steps.log_decay, batch
            )
            share = (weights[0][row] if weights[0].size else 1.0) / batch
            pull = share * u1 / (u2 * u2)
            pulls = (pull - share / u2, pull)
            c_rows[i] = _spread_pull(
                rules, row, s, weights, pulls, slopes, s_sp, s_sn, sizes, (c_sp, c_sn)
            )
        for k in range(gradient.size - 1):
            gradient[k] = 2.0 * rules.penalty * (memory.w[k] - memory.anchor[k])
        gradient[-1] = 0.0
        _pull_back(features, positives, rows, s_rows, c_rows, gradient)
        _pull_back(features, positives, slopes[0], s_sp, c_sp, gradient)
        _pull_back(features, negatives, slopes[1], s_sn, c_sn, gradient)
        _take_step(rules, memory, gradient, steps.eta[r], steps.beta1[r], t)
    return np.sqrt((gradient * gradient).sum())


@kernel
def _pull_back(features, examples, chosen, scores, coefficients, gradient):
    """Add Σ c · ∂σ(x·w + b)/∂(w, b) of the chosen examples."""
    total = 0.0
    for k in range(chosen.size):
        factor = coefficients[k] * scores[k] * (1.0 - scores[k])
        if factor != 0.0:
            _add_row(features, examples[chosen[k]], factor, gradient)
            total += factor
    for k in range(features.centre.size):
        gradient[k] -= total * features.centre[k] * features.scale[k]
    gradient[-1] += total


@kernel
def draw_distinct(uniform, population, out):
    """Fill each row of `out` with distinct numbers below `population`, all sets alike likely.

    Floyd's algorithm, fed with uniform numbers in [0, 1): compiling a Generator takes 15 s.
    What has been drawn is looked up in a table of the size of the batch.
    """
    rounds, size = out.shape
    slots = 4
    while slots < 2 * size:
        slots *= 2
    table = np.full(slots, -1)
    for r in range(rounds):
        for k in range(size):
            last = population - size + k
            x = np.int64(uniform[r, k] * (last + 1))
            slot = x & (slots - 1)
            while table[slot] != -1 and table[slot] != x:
                slot = (slot + 1) & (slots - 1)
            if table[slot] == x:
                x = last
                slot = x & (slots - 1)
                while table[slot] != -1:
                    slot = (slot + 1) & (slots - 1)
            table[slot] = x
            out[r, k] = x
        table[:] = -1
