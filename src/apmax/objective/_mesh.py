r"""Transfer points to a uniform mesh and back, by polynomials of degree 7 inside each cell.

A smooth sum over many points is needed at the mesh nodes only: the points of a cell act on the
eight nodes around it through their first eight moments, and a value between nodes is the
Lagrange polynomial through those eight. σ has its nearest pole at distance π,
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
