r"""Points to a uniform mesh and back, by polynomials of degree 7 inside each cell.

A smooth sum over many points needs to be known at the mesh nodes only: the points of a cell
act on the eight nodes around it through their first eight moments, and a value between
nodes is the Lagrange polynomial through those eight. σ has its nearest pole at distance π,
so with nodes h = 1/8 apart the error of one step is below 4.5e-3·h⁸ = 3e-10.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from apmax._compile import kernel
from apmax.validation import Floats

STENCIL = 8


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
    """The charges on the nodes that act like the points whose cell moments are given."""
    cells = moments.shape[0]
    shares = moments @ BASIS.T
    nodes = np.zeros(cells + STENCIL - 1)
    for a in range(STENCIL):
        nodes[a : a + cells] += shares[:, a]
    return nodes


def polynomials_of_cells(nodes: Floats) -> Floats:
    """The interpolating polynomial of each cell, from the values at the nodes."""
    cells = nodes.size - STENCIL + 1
    # sliding_window_view, without its checks, which for few cells take longer than the work
    around = np.ndarray((cells, STENCIL), np.float64, np.ascontiguousarray(nodes), strides=(8, 8))
    return np.ascontiguousarray(around @ BASIS)


@kernel
def _place(point, low, cells_per_unit):
    """The cell of a point, and where in [−½, ½] it lies in it."""
    place = (point - low) * cells_per_unit
    cell = np.int64(place)
    return cell, place - cell - 0.5


@kernel
def moments_of_cells(begin, end, points, weight, skip, low, cells_per_unit, moments):
    """Σ w tᵏ for k < 8 in each cell, t ∈ [−½, ½] being the place in the cell."""
    for j in range(begin, end):
        if skip.size and skip[j]:
            continue
        cell, t = _place(points[j], low, cells_per_unit)
        term = weight[j] if weight.size else 1.0
        for k in range(STENCIL):
            moments[cell, k] += term
            term *= t


@kernel
def evaluate(begin, end, points, weight, skip, low, cells_per_unit, polynomials, out):
    """out[j] = wⱼ · (the polynomial of the point's cell) for the points not skipped."""
    for j in range(begin, end):
        if skip.size and skip[j]:
            continue
        cell, t = _place(points[j], low, cells_per_unit)
        total = polynomials[cell, STENCIL - 1]
        for k in range(STENCIL - 2, -1, -1):
            total = total * t + polynomials[cell, k]
        out[j] = (weight[j] if weight.size else 1.0) * total
