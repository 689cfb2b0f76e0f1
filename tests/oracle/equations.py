r"""Equations (1)-(4) of the paper, pair by pair: the O(mn) oracle of every fast routine.

Weights v (all ones if not given) count how often an example occurs:

    (1)  AP   = Σᵢ vᵢ · r⁺(xᵢ)/r(xᵢ) / Σᵢ vᵢ        over positives i
    (2)  ÂP   = Σᵢ vᵢ · g₁ᵢ/g₂ᵢ / Σᵢ vᵢ
    (3)  gᵢ   = (1/n) Σⱼ vⱼ ℓ(sⱼ − sᵢ) · [𝕀(yⱼ = 1), 1]
    (4)  F    = Σᵢ vᵢ · f(gᵢ) / Σᵢ vᵢ = −ÂP
"""

from __future__ import annotations

import numpy as np

from apmax.objective.omega import Omega
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask


def outer_value(u: Floats) -> Floats:
    """f(u) = −u₁/u₂ for each row of an (…, 2) array."""
    return np.asarray(-u[..., 0] / u[..., 1])


def outer_gradient(u: Floats) -> Floats:
    """∇f(u) = (−1/u₂, u₁/u₂²) for each row of an (…, 2) array."""
    return np.stack([-1.0 / u[..., 1], u[..., 0] / u[..., 1] ** 2], axis=-1)


def project(omega: Omega, u: Floats) -> Floats:
    """Π_Ω[u], row by row: Ω is a box, so the nearest point is a clip."""
    return np.stack(
        [
            np.clip(u[..., 0], omega.bottom1, omega.top1),
            np.clip(u[..., 1], omega.bottom2, omega.top2),
        ],
        axis=-1,
    )


def average_precision(scores: Floats, positive: Mask, weight: Floats | None = None) -> float:
    """Eq. (1), with r and r⁺ counting every example whose score is ≥ the positive's."""
    v = _weights(scores, weight)
    terms = []
    for i in np.flatnonzero(positive & (v > 0)):
        above = scores >= scores[i]
        terms.append(v[i] * v[above & positive].sum() / v[above].sum())
    return float(np.sum(terms) / v[positive].sum())


def inner_values(
    scores: Floats,
    positive: Mask,
    surrogate: Surrogate,
    gamma: float,
    weight: Floats | None = None,
) -> Floats:
    """Eq. (3): g as an (m, 2) array, one row per positive, in the order of the data."""
    v = _weights(scores, weight)
    pairs = surrogate.value(_differences(scores, positive), gamma) * v
    return np.stack([pairs[:, positive].sum(axis=1), pairs.sum(axis=1)], axis=1) / scores.size


def objective(
    scores: Floats,
    positive: Mask,
    surrogate: Surrogate,
    gamma: float,
    weight: Floats | None = None,
) -> float:
    """Eq. (4): F = −ÂP, what is minimised."""
    v = _weights(scores, weight)[positive]
    counted = v > 0  # a positive of weight 0 is not there, and its own g may be 0
    g = inner_values(scores, positive, surrogate, gamma, weight)[counted]
    return float(v[counted] @ outer_value(g) / v.sum())


def objective_gradient(
    scores: Floats,
    positive: Mask,
    surrogate: Surrogate,
    gamma: float,
    weight: Floats | None = None,
) -> Floats:
    """∂F/∂s by the chain rule: each pair pulls s_j by +∇f·ℓ′ and s_i by −∇f·ℓ′."""
    v = _weights(scores, weight)
    g = inner_values(scores, positive, surrogate, gamma, weight)
    share = v[positive] / v[positive].sum()
    counted = share > 0
    pull = np.zeros_like(g)
    pull[counted] = share[counted, None] * outer_gradient(g[counted])
    by_class = np.where(positive, pull[:, :1] + pull[:, 1:], pull[:, 1:])
    slopes = surrogate.slope(_differences(scores, positive), gamma)
    pairs = by_class * slopes * v / scores.size
    gradient = pairs.sum(axis=0)
    gradient[positive] -= pairs.sum(axis=1)
    return np.asarray(gradient)


def _differences(scores: Floats, positive: Mask) -> Floats:
    """x[i, j] = s_j − s_i for positives i and all j."""
    return scores[None, :] - scores[positive, None]


def _weights(scores: Floats, weight: Floats | None) -> Floats:
    return np.ones_like(scores) if weight is None else weight
