r"""Surrogate AP with the logistic surrogate in O(n), from Chebyshev moments of the scores.

The range of the scores is cut into cells of width 1/γ. Each class keeps `TERMS` moments per
cell, M[c, k] = Σ_{i ∈ c} vᵢ T_k(t_i), where t ∈ [−1, 1] is the position within the cell. The
moments give signed weights on `TERMS` Chebyshev nodes per cell which act on every function that
is smooth on a cell as the examples do. All sums over pairs are taken between nodes:

.. math:: G_1(u) = \sum_{u'} W_1(u') \sigma(u' - u), \quad p = G_1 / (G_1 + G_0), \quad
          \widehat{AP} = \tfrac1m \sum_u W_1(u)\, p(u)

The gradient with respect to a score is one piecewise polynomial per class. Errors are relative
and do not depend on n: below 1e-13 for the value, and 1e-11 of the largest entry for the gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

TERMS = 16
"""Moments per cell and class."""
REACH = 64
"""Cells beyond which σ(x) is 0 or 1: e⁻⁶⁴ is 2e-28."""
MAX_CELLS = 1 << 12
"""Largest number of cells, γ · (largest score − smallest score)."""
CHUNK = 1 << 18
"""Examples whose polynomials are in memory at a time."""


def summary_ap(
    scores: Tensor, positive: Tensor, gamma: float, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """ÂP and its gradient with respect to the scores.

    `scores` are doubles with a range of at most ``MAX_CELLS / gamma``; `positive` is the mask of
    the positives, with both classes in it. Weights are positive.
    """
    if weight is not None:
        weight = (
            weight.to(scores) / weight.max()
        )  # only ratios matter, and squares must not overflow
    low, high = torch.aminmax(scores)
    cells = max(1, math.ceil(float((high - low) * gamma)))
    nodes = torch.cos(
        (torch.arange(TERMS, device=scores.device).to(scores) + 0.5) * (math.pi / TERMS)
    )
    transform = _polynomials(nodes).T * (2.0 / TERMS)  # (k, node)
    transform[0] /= 2.0

    def parts(chunk: slice) -> tuple[Tensor, Tensor]:
        """Row of the tables, class · cells + cell, and T_k(t), for some of the examples."""
        x = (scores[chunk] - low) * gamma
        cell = x.long().clamp_(max=cells - 1)
        return cell + cells * positive[chunk], _polynomials(2.0 * (x - cell) - 1.0)

    chunks = [slice(start, start + CHUNK) for start in range(0, scores.numel(), CHUNK)]
    moments = scores.new_zeros(2 * cells, TERMS)
    for chunk in chunks:
        row, polynomials = parts(chunk)
        if weight is not None:
            polynomials *= weight[chunk, None]
        moments.index_add_(0, row, polynomials)
    value, slopes = _node_gradient(moments.view(2, cells, TERMS), nodes, transform)
    coefficients = (slopes @ transform.T).view(2 * cells, TERMS)
    gradient = torch.empty_like(scores)
    for chunk in chunks:
        row, polynomials = parts(chunk)
        gradient[chunk] = (coefficients[row] * polynomials).sum(1)
    if weight is not None:
        gradient *= weight
    return value, gradient.mul_(gamma)


def _node_gradient(moments: Tensor, nodes: Tensor, transform: Tensor) -> tuple[Tensor, Tensor]:
    """ÂP, and its derivative at every node for a negative and a positive there: (2, C, P)."""
    cells = moments.shape[1]
    reach = min(cells - 1, REACH)
    weights = moments @ transform  # (2, C, P)
    count = moments[:, :, 0]
    # x[d, p, q] = u_q − u_p for a node q that lies d − reach cells above node p
    steps = torch.arange(-reach, reach + 1, device=nodes.device).to(nodes)
    x = steps[:, None, None] + (nodes[None, :] - nodes[:, None]) / 2.0
    value_kernel = torch.sigmoid(x)
    slope_kernel = value_kernel * torch.sigmoid(-x)

    def sums(kernel: Tensor, of: Tensor) -> Tensor:
        """Σ_q K(u_q − u_p) · of(q) at every node p, over the cells within reach."""
        return conv1d(of.mT, kernel.permute(1, 2, 0), padding=reach).mT

    far_above = pad(count.flip(1).cumsum(1).flip(1), (0, reach + 1))[:, reach + 1 :]
    minus, plus = sums(value_kernel, weights) + far_above[:, :, None]
    minus_slope, plus_slope = sums(slope_kernel, weights)
    occupied = (count[1] > 0)[:, None]  # elsewhere W₁ = 0, and both sums may be 0
    total = torch.where(occupied, plus + minus, 1.0)
    m = count[1].sum()
    precision = plus / total
    a, b = minus / total.square() / m, precision / total / m
    pulls = torch.stack([b * weights[1], a * weights[1]])
    from_below = sums(slope_kernel.mT.flip(0), pulls)
    gradient_minus = -from_below[0]
    gradient_plus = from_below[1] - a * plus_slope + b * minus_slope
    value = (weights[1] * precision).sum() / m
    return value, torch.stack([gradient_minus, gradient_plus])


def _polynomials(t: Tensor) -> Tensor:
    """T_0(t), …, T_{TERMS−1}(t) along a new last dimension."""
    rows = [torch.ones_like(t), t]
    for _ in range(TERMS - 2):
        rows.append(2.0 * t * rows[-1] - rows[-2])
    return torch.stack(rows, dim=-1)
