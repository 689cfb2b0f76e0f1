r"""Sum sigmoids and their slopes over all pairs of points on a line, in linear time.

With y = exp(−|x|), both kernels are y times a polynomial in y up to a bounded error:

    σ(−|x|) = y/(1 + y)  ≈ y·P(y),      σ′(x) = y/(1 + y)²  ≈ y·Q(y)

P and Q are Chebyshev interpolants of degree 15 on [0, 1]. The pole at y = −1 makes them
converge like (3 + √8)⁻ᵏ: relative errors are 1.1e-12 and 2.7e-11. A sum over sorted points
of a polynomial in exp(−distance) is sixteen decaying sums, carried once up and once down.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from apmax._compile import kernel, reordering_kernel
from apmax.validation import Floats

TERMS = 16


def _powers_of_decay(function: str) -> Floats:
    exact = {"value": lambda y: 1 / (1 + y), "slope": lambda y: 1 / (1 + y) ** 2}[function]
    fit = Chebyshev.interpolate(exact, TERMS - 1, domain=[0, 1])
    plain = fit.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])
    return np.asarray(plain.coef, dtype=np.float64)


VALUE_TERMS = _powers_of_decay("value")
SLOPE_TERMS = _powers_of_decay("slope")


@kernel
def _decay_all(sums, decay, powers):
    """Multiply sums[k] by decay^(k + 1); powers by doubling, to avoid a long dependency chain."""
    square = decay * decay
    powers[0] = decay
    powers[1] = square
    powers[2] = square * decay
    powers[3] = square * square
    for block in (4, 8):
        factor = powers[block - 1]
        for k in range(block):
            powers[block + k] = powers[k] * factor
    for k in range(TERMS):
        sums[k] *= powers[k]


@kernel
def sigmoid_sums(decay, charge, value_terms, slope_terms):
    """Return Σ_b q_b σ(x_b − x_a) and Σ_b q_b σ′(x_b − x_a) at every sorted point a.

    decay[a] is exp(−(x_a − x_{a−1})); decay[0] is not read.
    """
    size = charge.size
    value = np.empty(size)
    slope = np.empty(size)
    sums = np.zeros(TERMS)
    powers = np.empty(TERMS)
    for a in range(size):  # points below: σ(−|x|)
        if a > 0:
            _decay_all(sums, decay[a], powers)
        lower, steep = 0.0, 0.0
        for k in range(TERMS):
            lower += value_terms[k] * sums[k]
            steep += slope_terms[k] * sums[k]
            sums[k] += charge[a]
        value[a] = lower
        slope[a] = steep
    for k in range(TERMS):
        sums[k] = 0.0
    above = 0.0
    for a in range(size - 1, -1, -1):  # points above: σ(|x|) = 1 − σ(−|x|); itself: σ(0)
        if a < size - 1:
            _decay_all(sums, decay[a + 1], powers)
        lower, steep = 0.0, 0.0
        for k in range(TERMS):
            lower += value_terms[k] * sums[k]
            steep += slope_terms[k] * sums[k]
            sums[k] += charge[a]
        value[a] += above - lower + 0.5 * charge[a]
        slope[a] += steep + 0.25 * charge[a]
        above += charge[a]
    return value, slope


@reordering_kernel
def sigmoid_sums_by_pair(at, of, charge):
    """Return Σ_k q_k σ(x_k − x_i) and Σ_k q_k σ′(x_k − x_i) at every i, pair by pair.

    Points are given as a = exp(x): σ(x_k − x_i) = a_k / (a_k + a_i).
    """
    value, slope = np.empty(at.size), np.empty(at.size)
    for i in range(at.size):
        own, total, steep = at[i], 0.0, 0.0
        for k in range(of.size):
            share = 1.0 / (of[k] + own)
            charged = charge[k] * (of[k] * share)
            total += charged
            steep += charged * (own * share)
        value[i] = total
        slope[i] = steep
    return value, slope
