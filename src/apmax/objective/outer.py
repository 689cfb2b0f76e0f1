r"""The outer function f(u) = −u₁/u₂, its gradient, and the box Ω that keeps it Lipschitz.

A row of U is (u₁, u₂): the tracked ranks of one positive among the positives and among all.

Differs from the paper: u and g are means over the n examples where the paper has sums, so
that numbers stay near 1 at any n. f is homogeneous of degree 0 and its value unchanged;
∇f and ∇g scale by n and 1/n, and their product is unchanged too. Ω also has 0 ≤ u₁, which
holds for every g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats


def outer_value(u: Floats) -> Floats:
    """f(u) = −u₁/u₂ for each row of an (…, 2) array."""
    return np.asarray(-u[..., 0] / u[..., 1])


def outer_gradient(u: Floats) -> Floats:
    """∇f(u) = (−1/u₂, u₁/u₂²) for each row of an (…, 2) array."""
    inverse = 1.0 / u[..., 1]
    return np.stack([-inverse, u[..., 0] * inverse * inverse], axis=-1)


@dataclass(frozen=True)
class Box:
    """Ω = {0 ≤ u₁ ≤ top₁, bottom₂ ≤ u₂ ≤ top₂}, in which every g_i(w) lies."""

    top1: float
    bottom2: float
    top2: float

    @classmethod
    def of(cls, surrogate: Surrogate, gamma: float, *, m: int, n: int, spread: float = 1.0) -> Box:
        """Ω = {0 ≤ u₁ ≤ M·m/n, C/n ≤ u₂ ≤ M} for m positives among n examples."""
        ceiling = surrogate.upper_bound(gamma, spread)
        floor = surrogate.lower_bound(gamma)
        return cls(top1=ceiling * m / n, bottom2=floor / n, top2=ceiling)

    def project(self, u: Floats) -> Floats:
        """Π_Ω[u], row by row: Ω is a box, so the nearest point is a clip."""
        clipped = np.empty_like(u)
        np.clip(u[..., 0], 0.0, self.top1, out=clipped[..., 0])
        np.clip(u[..., 1], self.bottom2, self.top2, out=clipped[..., 1])
        return clipped

    def contains(self, u: Floats) -> bool:
        """Whether every row of `u` lies in Ω."""
        return bool(np.array_equal(self.project(u), u))
