r"""Surrogate AP with the logistic surrogate as a function of a few moments of the scores.

The interval [0, 1] is cut into cells of width ≤ H/γ. Each class keeps P moments per cell,
M[c, k] = Σ_{i ∈ c} vᵢ tᵢᵏ, where t ∈ [−1, 1] is the position within the cell. Moments of parts of
the data add up. They give signed weights W on P Chebyshev nodes per cell that act on every
polynomial of a cell as the examples do. All sums over pairs are taken between nodes:

.. math:: G_1(u) = \sum_{u'} W_1(u')\, \sigma(\gamma(u' - u)), \quad p = G_1 / (G_1 + G_0), \quad
          \widehat{AP} = \sum_u W_1(u)\, p(u) / \sum_u W_1(u)

The gradient with respect to a score is one piecewise polynomial per class.

Error bound
-----------
In units of x = γs, σ and σ′ are analytic in |Im x| < π, and for real x, δ

    |σ(x + δ + iy)| ≤ e^|δ| σ(x) / cos(y/2),       |σ′(x + δ + iy)| ≤ e^|δ| σ′(x) / cos²(y/2),
    Re σ(x + iy) ≥ cos(y) σ(x)                     for |y| < π/2,

so that G₁ + G₀ has no zero in |Im x| < π/2. On the ellipse around a cell with axes
a, b = h(ρ ± 1/ρ)/2, h = H/2, let a function be at most K times its value anywhere in the cell. Then
it is interpolated with a relative error of 4Kρ^(1−P)/(ρ − 1). K is

- e^(a+h) / cos²(b/2) for what a negative enters: σ and σ′ of its distance to a node;
- e^(2(a+h)) / (cos(b/2) cos b) for p, and e^(4(a+h)) / (cos³(b/2) cos² b) for the products of p,
  1/G and σ′ in the gradient, which only positives enter.

Negatives therefore need fewer moments than positives, and there are many more of them.

These errors combine as follows. Let ε be the bound for σ and σ′ with the moments of negatives;
positives have at least as many, so that it holds for them, too. L = 1 + (2/π) log P bounds the sum
of the absolute weights W of a cell relative to the weight of its examples.

- G₀ and G₁ at a node are wrong by a factor of 1 ± ε each, so p by 1 ± 2ε. A sum over the nodes of
  positives multiplies this by L, and by e^(2H), how much p varies within a cell: 2 L e^(2H) ε.
- b = G₁/(G₁ + G₀)² and a = G₀/(G₁ + G₀)² are wrong by 3ε, and so is their product with σ′ or with
  a sum of σ′ by 4ε: one more for σ′, as a polynomial of the score or as a sum over nodes. These
  products vary by e^(4H) within a cell: 4 L e^(4H) ε for each term of the gradient.
- L is that of the nodes of positives. The second bound is therefore taken as 6 L e^(4H) ε with the
  L of negatives, which is larger. The first needs no change: if positives have more moments, their
  share of 2ε is smaller than L grows.

The bounds for p and for the products are added. :func:`certified_terms` returns the least P of each
class for which the sum is below 1e-9 of the value and 1e-8 of the terms of the gradient. Both are
relative and independent of the number of examples.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from apmax.validation import Floats

VALUE_ERROR, GRADIENT_ERROR = 1e-9, 1e-8
"""Relative errors that :func:`certified_terms` guarantees."""
NEGATIVES_SHARE = 0.8
"""Share of the error that negatives may cause: they are many, so their moments cost time."""
MOST_TERMS = 40


class NodeTables:
    """Sums between the nodes of both classes, for one γ, number of cells and order per class.

    Parameters
    ----------
    gamma : float
        Slope of the surrogate.
    cells : int
        Cells of equal width in [0, 1].
    terms : tuple of int
        Moments per cell of negatives and of positives.
    """

    def __init__(self, gamma: float, cells: int, terms: tuple[int, int]) -> None:
        self.cells, self.terms = cells, terms
        minus, plus = (_chebyshev_nodes(count) for count in terms)
        self._to_weights = [np.linalg.inv(np.vander(u, increasing=True)) for u in (minus, plus)]
        start = np.arange(cells)[:, None]
        of_minus, of_plus = (((start + (u + 1) / 2) / cells).ravel() for u in (minus, plus))
        # Row: node of a positive; column: node of any example.
        above = [gamma * (u - of_plus[:, None]) for u in (of_minus, of_plus)]
        self._value = [_sigmoid(x) for x in above]
        self._slope = [gamma * _sigmoid(x) * _sigmoid(-x) for x in above]

    def evaluate(self, minus: Floats, plus: Floats) -> tuple[float, Floats, Floats]:
        """Return ÂP and its derivative in a score, as polynomials of t per cell and class.

        Parameters
        ----------
        minus, plus : ndarray of shape (cells, terms of the class)
            Moments of negatives and of positives.

        Returns
        -------
        value : float
            ÂP.
        of_minus, of_plus : ndarray of shape (cells, terms of the class)
            ∂ÂP/∂s of an example of weight 1 is Σ_k coefficient[cell, k] tᵏ.
        """
        w0 = (minus @ self._to_weights[0]).ravel()
        w1 = (plus @ self._to_weights[1]).ravel()
        total = plus[:, 0].sum()
        g0, g1 = self._value[0] @ w0, self._value[1] @ w1
        precision = g1 / (g0 + g1)
        a = (g0 / (g0 + g1)) / (g0 + g1) / total
        b = precision / (g0 + g1) / total
        at_minus = -(b * w1) @ self._slope[0]
        at_plus = (a * w1) @ self._slope[1]
        at_plus += b * (self._slope[0] @ w0) - a * (self._slope[1] @ w1)
        polynomials = [
            at.reshape(self.cells, -1) @ inverse.T
            for at, inverse in zip((at_minus, at_plus), self._to_weights, strict=True)
        ]
        return min(float(w1 @ precision / total), 1.0), polynomials[0], polynomials[1]


@lru_cache(maxsize=4)
def certified_tables(gamma: float) -> NodeTables:
    """Return tables whose error is proven; cells are wider for large γ, to bound their number."""
    cells = int(np.ceil(gamma / (0.25 if gamma <= 32 else 0.5)))
    return NodeTables(gamma, cells, certified_terms(gamma / cells))


@lru_cache
def certified_terms(width: float) -> tuple[int, int]:
    """Return the least orders (negatives, positives) that meet the error bounds.

    Parameters
    ----------
    width : float
        H, the width of a cell in units of 1/γ.
    """

    def norm(terms: int) -> float:
        return 1.0 + 2.0 / math.pi * math.log(terms)

    def of_negatives(terms: int) -> float:
        """Return the largest ratio of a bound to what is allowed."""
        error = norm(terms) * _interpolation_error(width, terms, 1, 2, 0)
        # 6 instead of 4, because the norm is that of the nodes of positives.
        value, gradient = 2.0 * math.exp(2 * width), 6.0 * math.exp(4 * width)
        return error * max(value / VALUE_ERROR, gradient / GRADIENT_ERROR)

    def of_positives(terms: int) -> float:
        value = _interpolation_error(width, terms, 2, 1, 1)
        gradient = _interpolation_error(width, terms, 4, 3, 2)
        return max(value / VALUE_ERROR, gradient / GRADIENT_ERROR)

    minus, plus = (
        next(terms for terms in range(3, MOST_TERMS) if ratio(terms) <= share)
        for ratio, share in ((of_negatives, NEGATIVES_SHARE), (of_positives, 1 - NEGATIVES_SHARE))
    )
    return minus, max(minus, plus)


def _interpolation_error(width: float, terms: int, growth: int, half: int, full: int) -> float:
    """Return min_ρ 4Mρ^(1−P)/(ρ − 1), M = e^(growth(a + h)) / (cos^half(b/2) cos^full(b))."""
    h = width / 2
    strip = np.pi / 2 if full else np.pi
    b = np.linspace(0.0, strip, 2001)[1:-1]
    rho = b / h + np.sqrt(1.0 + np.square(b / h))
    a = h * (rho + 1.0 / rho) / 2
    bound = np.exp(growth * (a + h)) / (np.cos(b / 2) ** half * np.cos(b) ** full)
    return float(np.min(4.0 * bound * rho ** (1.0 - terms) / (rho - 1.0)))


def _chebyshev_nodes(count: int) -> Floats:
    return np.cos((np.arange(count) + 0.5) * np.pi / count)


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-x))
