"""Rounds of every stochastic method for a linear model, fused into one compiled loop.

One call runs a chunk of rounds for the scores σ(x·w + b), on dense or CSR rows, and updates the
state it is given. The switches of :class:`apmax.methods.Method` arrive as numbers (:class:`Rules`).

Rows outside a batch decay lazily: each row keeps the round in which it was last written, and the
cumulative log-decay of every round is a table in two doubles. A row takes 24 bytes: two doubles of
U and one integer. Projecting once after a delayed decay equals projecting in every round, because a
decay only lowers u₁ and u₂, 0 is a fixed point of the first, and a u₂ at the bottom of Ω stays
there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax._compile import inner_kernel, kernel
from apmax.objective._batch import (
    CUSTOM,
    estimate_rows,
    fill_custom_pairs,
    fill_pairs,
    leave_out_self,
    move_rows,
    new_side,
    pull_rows,
    weigh_pairs,
)
from apmax.objective.omega import Omega
from apmax.validation import Floats

NEVER = -1
"""Round of a row of U that has not been seen."""


class Features(NamedTuple):
    """X as the loop reads it: dense or CSR (the other is empty), with centre and scale."""

    dense: NDArray[Any]
    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    scale: Floats
    centre: Floats  # subtracted before the scale; empty if all are 0


class Rules(NamedTuple):
    """A method and its problem in numbers."""

    kind: int  # surrogate; see apmax.objective._batch
    gamma: float
    own: float  # ℓ(0)
    population: bool  # pairs: unbiased for all data, otherwise the batch stands for itself
    remembers: bool  # tracker
    decays: bool  # tracker
    normalised: bool  # tracker
    omega: Omega  # infinite if U is not projected
    momentum: bool
    average: int  # second moment: 0 none, 1 moving, 2 running mean
    bound: int  # of the second moment: 0 none, 1 largest so far, 2 clipped
    lower_v: float
    upper_v: float
    beta2: float
    delta: float
    penalty: float
    intercept: bool


class Draws(NamedTuple):
    """A chunk of draws, one row per round: rows of U, and a batch each for g̃ and for ∇g̃."""

    shared: bool
    rows: NDArray[np.int64]
    value_positives: NDArray[np.int64]
    value_negatives: NDArray[np.int64]
    slope_positives: NDArray[np.int64]
    slope_negatives: NDArray[np.int64]


class Steps(NamedTuple):
    """η, β₀, β₁ of every round of the chunk, and the log-decay of all rounds so far."""

    first: int  # t − 1 of the first round of the chunk
    eta: Floats
    beta0: Floats
    beta1: Floats
    log_decay: Floats  # (rounds + 1, 2): Σ log(1 − β₀) up to each round, as two doubles


class Memory(NamedTuple):
    """State carried from round to round; parameters end with the intercept."""

    w: Floats
    m: Floats
    average: Floats
    v: Floats
    u: Floats
    written_at: NDArray[np.int64]


@inner_kernel
def _scale_weights(features, w, scaled):
    """Fill `scaled` and return `offset` such that z = x·scaled + offset."""
    offset = w[-1]
    for k in range(scaled.size):
        scaled[k] = features.scale[k] * w[k]
    for k in range(features.centre.size):
        offset -= features.centre[k] * scaled[k]
    return offset


@inner_kernel
def _read_ahead(features, examples, chosen, touched):
    """Touch every example once, so that the memory loads overlap.

    Examples are far apart; waiting for one load after the other would take most of a round.
    """
    for k in range(chosen.size):
        row = examples[chosen[k]]
        if features.indptr.size:
            first = features.indptr[row]
            if first < features.data.size:  # otherwise all rows from here on are empty
                touched[k] = features.data[first] + features.indices[first]
        else:
            touched[k] = features.dense[row, 0]


@inner_kernel
def _score(features, examples, chosen, scaled, offset, scores):
    """Compute σ(z) of the chosen examples."""
    for k in range(chosen.size):
        z, row = offset, examples[chosen[k]]
        if features.indptr.size:
            for p in range(features.indptr[row], features.indptr[row + 1]):
                z += features.data[p] * scaled[features.indices[p]]
        else:
            x = features.dense[row]
            for d in range(x.size):
                z += x[d] * scaled[d]
        tail = np.exp(-abs(z))
        scores[k] = (1.0 if z >= 0 else tail) / (1.0 + tail)


@inner_kernel
def _add_vjp(features, examples, chosen, scores, pulls, pulled):
    """Add Σ pull · σ′ · x of the chosen examples to `pulled`, and Σ pull · σ′ to its last entry."""
    for k in range(chosen.size):
        factor = pulls[k] * scores[k] * (1.0 - scores[k])
        if factor == 0.0:
            continue
        row = examples[chosen[k]]
        if features.indptr.size:
            for p in range(features.indptr[row], features.indptr[row + 1]):
                pulled[features.indices[p]] += factor * features.data[p]
        else:
            x = features.dense[row]
            for d in range(x.size):
                pulled[d] += factor * x[d]
        pulled[-1] += factor


@inner_kernel
def _fill_gradient(features, rules, memory, pulled, gradient):
    """Compute ∇̃ in (w, b): apply scale and centre, and add the gradient of the penalty."""
    total = pulled[-1]
    gradient[-1] = total
    for k in range(gradient.size - 1):
        gradient[k] = pulled[k] * features.scale[k]
    for k in range(features.centre.size):
        gradient[k] -= total * features.centre[k] * features.scale[k]
    for k in range(gradient.size - 1):
        gradient[k] += 2.0 * rules.penalty * memory.w[k]


@inner_kernel
def _update_rows(rules, memory, rows, g1, g2, beta0, t, decay, old, factors):
    """Move and store rows of U in round t; g1 and g2 become the new rows."""
    u, written_at = memory.u, memory.written_at
    gain = beta0 * written_at.size / rows.size if rules.decays else beta0
    for i in range(rows.size):
        row, then = rows[i], written_at[rows[i]]
        factors[i] = np.nan
        if rules.remembers and then >= 0:
            factors[i] = 1.0
            old[i, 0], old[i, 1] = u[row, 0], u[row, 1]
            if rules.decays:
                high, low = decay[t - 1, 0] - decay[then, 0], decay[t - 1, 1] - decay[then, 1]
                factors[i] = np.exp(high + low)
    move_rows(rules.omega, beta0, gain, rules.normalised, factors, old, g1, g2)
    for i in range(rows.size):
        u[rows[i], 0], u[rows[i], 1] = g1[i], g2[i]
        written_at[rows[i]] = t


@inner_kernel
def _take_step(rules, memory, gradient, eta, beta1, t):
    """Take the step of Algorithm 3; separate plain loops vectorise."""
    w, m, average, v = memory.w, memory.m, memory.average, memory.v
    size = w.size - (0 if rules.intercept else 1)
    first = beta1 if rules.momentum else 1.0
    for k in range(size):
        m[k] = (1.0 - first) * m[k] + first * gradient[k]
    if not rules.average:
        for k in range(size):
            w[k] -= eta * m[k]
        return
    new = rules.beta2 if rules.average == 1 else 1.0 / (t + 1)
    for k in range(size):
        average[k] = (1.0 - new) * average[k] + new * (gradient[k] * gradient[k])
    if rules.bound == 0:
        for k in range(size):
            v[k] = average[k]
    elif rules.bound == 1:
        for k in range(size):
            v[k] = max(v[k], average[k])
    else:
        for k in range(size):
            v[k] = min(max(average[k], rules.lower_v), rules.upper_v)
    for k in range(size):
        w[k] -= eta * m[k] / (np.sqrt(v[k]) + rules.delta)


@inner_kernel
def _weigh(weights, chosen, out):
    """Copy the weights of the chosen examples; without weights, `out` holds ones already."""
    if weights.size:
        for k in range(chosen.size):
            out[k] = weights[chosen[k]]


@inner_kernel
def _set_all(array, number):
    """Assign `number` to every entry."""
    for k in range(array.size):
        array[k] = number


@inner_kernel
def _fill_side(rules, value, slope, s, side):
    """Fill the pairs of one side by the method's surrogate."""
    if rules.kind == CUSTOM:
        fill_custom_pairs(value, slope, rules.gamma, s, side)
    else:
        fill_pairs(rules.kind, rules.gamma, s, side)


@kernel
def run_rounds(features, positives, negatives, weights, draws, steps, rules, value, slope, memory):
    """Run one round per row of the draws; return ∇̃ of the last.

    `weights` are those of the positives and of the negatives, empty if all are 1; their mean over
    the positives is 1. `value` and `slope` are ℓ and ℓ′ of a surrogate of kind CUSTOM, as compiled
    functions of two numbers.
    """
    (rounds, batch), size = draws.rows.shape, memory.w.size
    m, n = positives.size, positives.size + negatives.size
    s, v, c = np.empty(batch), np.empty(batch), np.empty(batch)  # scores, weights, pulls of rows
    _set_all(v, 1.0)
    w_plus, w_minus, g1, g2 = np.empty(batch), np.empty(batch), np.empty(batch), np.empty(batch)
    values_plus = slopes_plus = new_side(batch, draws.value_positives.shape[1])
    values_minus = slopes_minus = new_side(batch, draws.value_negatives.shape[1])
    if not draws.shared:
        slopes_plus = new_side(batch, draws.slope_positives.shape[1])
        slopes_minus = new_side(batch, draws.slope_negatives.shape[1])
    old, factors = np.empty((batch, 2)), np.empty(batch)
    scaled, pulled, gradient = np.empty(size - 1), np.empty(size), np.empty(size)
    for r in range(rounds):
        t = steps.first + r + 1
        rows = draws.rows[r]
        _read_ahead(features, positives, rows, s)
        for i in range(batch):
            c[i] = memory.u[rows[i], 0] + memory.written_at[rows[i]]  # as far apart
        offset = _scale_weights(features, memory.w, scaled)
        _score(features, positives, rows, scaled, offset, s)
        _weigh(weights[0], rows, v)
        for second in range(1 if draws.shared else 2):
            plus, minus = (slopes_plus, slopes_minus) if second else (values_plus, values_minus)
            i_plus = draws.slope_positives[r] if second else draws.value_positives[r]
            i_minus = draws.slope_negatives[r] if second else draws.value_negatives[r]
            if draws.shared:
                for i in range(batch):
                    plus.scores[i] = s[i]
            else:
                _score(features, positives, i_plus, scaled, offset, plus.scores)
            _read_ahead(features, negatives, i_minus, minus.scores)
            _score(features, negatives, i_minus, scaled, offset, minus.scores)
            _weigh(weights[0], i_plus, plus.weights)
            _weigh(weights[1], i_minus, minus.weights)
            _fill_side(rules, value, slope, s, plus)
            _fill_side(rules, value, slope, s, minus)
            leave_out_self(rows, i_plus, plus)
        estimate_rows(rules, m, n, v, values_plus, values_minus, w_plus, w_minus, g1, g2)
        _update_rows(rules, memory, rows, g1, g2, steps.beta0[r], t, steps.log_decay, old, factors)
        if not draws.shared:  # the weights of the second draw's pairs
            weigh_pairs(rules, m, n, slopes_plus, slopes_minus, w_plus, w_minus)
        pull_rows(v, g1, g2, slopes_plus, slopes_minus, w_plus, w_minus, c)
        _set_all(pulled, 0.0)
        i_plus, i_minus = draws.slope_positives[r], draws.slope_negatives[r]
        if draws.shared:
            for i in range(batch):
                c[i] += slopes_plus.pulls[i]
        else:
            _add_vjp(features, positives, i_plus, slopes_plus.scores, slopes_plus.pulls, pulled)
        _add_vjp(features, positives, rows, s, c, pulled)
        _add_vjp(features, negatives, i_minus, slopes_minus.scores, slopes_minus.pulls, pulled)
        _fill_gradient(features, rules, memory, pulled, gradient)
        _take_step(rules, memory, gradient, steps.eta[r], steps.beta1[r], t)
    return gradient


@kernel
def draw_distinct(uniform, population, out):
    """Fill each row of `out` with distinct numbers below `population`, uniformly.

    Floyd's algorithm on uniform numbers in [0, 1), since compiling a Generator takes 15 s. Drawn
    numbers are looked up in a hash table.
    """
    rounds, size = out.shape
    slots = 4
    while slots < 2 * size:
        slots *= 2
    table = np.empty(slots, np.int64)
    for k in range(slots):
        table[k] = -1
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
        for k in range(slots):
            table[k] = -1
