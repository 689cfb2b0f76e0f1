r"""Sum sigmoids and their slopes over all pairs of points on a line, in linear time.

With y = exp(−|x|), both kernels are y times a polynomial in y up to a bounded error:

    σ(−|x|) = y/(1 + y)  ≈ y·P(y),      σ′(x) = y/(1 + y)²  ≈ y·Q(y)

P and Q are Chebyshev interpolants of degree 15 on [0, 1]. The pole at y = −1 makes them
converge like (3 + √8)⁻ᵏ: relative errors are below 1.2e-12 and 2.8e-11. A sum over sorted points
of a polynomial in exp(−distance) is sixteen decaying sums, carried once up and once down.

Dense points are first transferred to a uniform mesh, by polynomials of degree 7 in each cell: the
points of a cell act on the eight nodes around it through their first eight moments, and a value
between nodes is the Lagrange polynomial through those eight. σ has its nearest pole at distance π,
so with nodes h = 1/8 apart the error of one step is below 4.5e-3·h⁸ = 3e-10.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from apmax._compile import kernel, reordering_kernel
from apmax.validation import Floats

TERMS = 16
STENCIL = 8


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


def _lagrange_basis() -> Floats:
    """basis[a, k]: coefficient of tᵏ in the polynomial that is 1 at node a, 0 at the others."""
    nodes = np.arange(STENCIL) - (STENCIL - 1) / 2
    basis = np.empty((STENCIL, STENCIL))
    for a, node in enumerate(nodes):
        others = np.delete(nodes, a)
        basis[a] = (Polynomial.fromroots(others) / np.prod(node - others)).coef
    return basis


BASIS = _lagrange_basis()


def charges_of_nodes(moments: Floats) -> Floats:
    """Return the node charges that act like the points with these cell moments."""
    cells = moments.shape[0]
    shares = moments @ BASIS.T
    nodes = np.zeros(cells + STENCIL - 1)
    for a in range(STENCIL):
        nodes[a : a + cells] += shares[:, a]
    return nodes


def polynomials_of_cells(nodes: Floats) -> Floats:
    """Return the interpolating polynomial of each cell from the values at the nodes."""
    cells = nodes.size - STENCIL + 1
    # Same as sliding_window_view, whose checks take longer than the work for few cells.
    around = np.ndarray((cells, STENCIL), np.float64, np.ascontiguousarray(nodes), strides=(8, 8))
    return np.ascontiguousarray(around @ BASIS)


@kernel
def _place(point, low, cells_per_unit):
    """Return the cell of a point and its position in [−½, ½] within the cell."""
    place = (point - low) * cells_per_unit
    cell = np.int64(place)
    return cell, place - cell - 0.5


@kernel
def moments_of_cells(begin, end, points, weight, skip, low, cells_per_unit, moments):
    """Add Σ w tᵏ for k < 8 to each cell, t ∈ [−½, ½] being the position in the cell."""
    for j in range(begin, end):
        if skip.size and skip[j]:
            continue
        cell, t = _place(points[j], low, cells_per_unit)
        term = weight[j] if weight.size else 1.0
        for k in range(STENCIL):
            moments[cell, k] += term
            term *= t


@kernel
def evaluate_cells(begin, end, points, weight, skip, low, cells_per_unit, polynomials, out):
    """Set out[j] = wⱼ · (polynomial of the point's cell) for the points that are not skipped."""
    for j in range(begin, end):
        if skip.size and skip[j]:
            continue
        cell, t = _place(points[j], low, cells_per_unit)
        total = polynomials[cell, STENCIL - 1]
        for k in range(STENCIL - 2, -1, -1):
            total = total * t + polynomials[cell, k]
        out[j] = (weight[j] if weight.size else 1.0) * total
