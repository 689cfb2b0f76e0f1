r"""Surrogate AP of scores σ(z) with the logistic surrogate, in two passes over the margins z.

The interval [0, 1] is cut into ⌈γ⌉ cells. Each class keeps `TERMS` moments per cell,
M[c, k] = Σ_{i ∈ c} vᵢ tᵢᵏ, where t ∈ [−1, 1] is the position within the cell. The moments give
signed weights W on `TERMS` Chebyshev nodes per cell that act on every polynomial of a cell as the
examples do. All sums over pairs are taken between nodes, whose positions never change:

.. math:: G_1(u) = \sum_{u'} W_1(u')\, \sigma(\gamma(u' - u)), \quad p = G_1 / (G_1 + G_0), \quad
          \widehat{AP} = \sum_u W_1(u)\, p(u) / \sum_u W_1(u)

The gradient with respect to a score is one piecewise polynomial per class. Errors are relative
and do not depend on n: below 1e-9 for the value and 1e-8 of the largest entry for the gradient.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from apmax._compile import kernel
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.validation import Floats, Mask

TERMS = 10
MAX_GAMMA = 80.0
"""Largest γ for which the tables of sums between nodes are small."""


class LogisticSummary:
    """ÂP as a function of margins, for one γ ≤ `MAX_GAMMA`."""

    def __init__(self, gamma: float) -> None:
        self.cells = int(np.ceil(gamma))
        nodes = np.cos((np.arange(TERMS) + 0.5) * np.pi / TERMS)
        powers = np.vander(nodes, increasing=True).T  # powers[k, node]
        self.moments_to_weights = np.linalg.inv(powers).T  # (k, node)
        self.values_to_powers = np.linalg.inv(powers.T).T  # (node, k)
        place = (np.arange(self.cells)[:, None] + (nodes + 1) / 2).ravel() / self.cells
        above = gamma * (place[None, :] - place[:, None])
        self.value_table = 1.0 / (1.0 + np.exp(-above))
        self.slope_table = gamma * self.value_table * self.value_table.T

    def evaluate(
        self, margins: Floats, positive: Mask, weight: Floats | None
    ) -> tuple[float, Floats]:
        """Return ÂP and its derivative in each margin."""
        v = NO_WEIGHTS if weight is None else weight
        scores, moments = np.empty(margins.size), np.zeros((2, self.cells, TERMS))
        moments_of_scores(margins, positive, v, scores, moments)
        weights = (moments @ self.moments_to_weights).reshape(2, -1)
        total = moments[1, :, 0].sum()
        minus, plus = weights @ self.value_table.T
        minus_slope, plus_slope = weights @ self.slope_table.T
        precision = plus / (plus + minus)
        a = (1.0 - precision) / (plus + minus) / total
        b = precision / (plus + minus) / total
        from_rows = np.stack([-b, a]) * weights[1] @ self.slope_table
        from_rows[1] += b * minus_slope - a * plus_slope
        polynomials = from_rows.reshape(2, self.cells, TERMS) @ self.values_to_powers
        slopes_of_scores(scores, positive, v, polynomials)
        return min(float(weights[1] @ precision / total), 1.0), scores


summary_for = lru_cache(maxsize=8)(LogisticSummary)
"""The tables of one γ, shared by all fits."""


@kernel
def moments_of_scores(margins, positive, weight, scores, moments):
    """Fill `scores` with σ(z) and add the moments of each class and cell."""
    cells = moments.shape[1]
    for j in range(margins.size):
        tail = np.exp(-abs(margins[j]))
        score = (1.0 if margins[j] >= 0 else tail) / (1.0 + tail)
        scores[j] = score
        cell = min(int(score * cells), cells - 1)
        t = 2.0 * (score * cells - cell) - 1.0
        term = weight[j] if weight.size else 1.0
        of_cell = moments[1 if positive[j] else 0, cell]
        for k in range(TERMS):
            of_cell[k] += term
            term *= t


@kernel
def slopes_of_scores(scores, positive, weight, polynomials):
    """Replace each score s by v · s(1 − s) · (polynomial of its class and cell)."""
    cells = polynomials.shape[1]
    for j in range(scores.size):
        score = scores[j]
        cell = min(int(score * cells), cells - 1)
        t = 2.0 * (score * cells - cell) - 1.0
        of_cell = polynomials[1 if positive[j] else 0, cell]
        slope = of_cell[TERMS - 1]
        for k in range(TERMS - 2, -1, -1):
            slope = slope * t + of_cell[k]
        scores[j] = (weight[j] if weight.size else 1.0) * score * (1.0 - score) * slope
