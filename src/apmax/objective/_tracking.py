"""Rows of U after a round, for every tracker of the table."""

from __future__ import annotations

import math
from typing import NamedTuple

from apmax._compile import kernel


class Edges(NamedTuple):
    """Ω = {0 ≤ u₁ ≤ top₁, bottom₂ ≤ u₂ ≤ top₂}; infinite edges do not project."""

    bottom1: float
    top1: float
    bottom2: float
    top2: float


NO_EDGES = Edges(-math.inf, math.inf, -math.inf, math.inf)


@kernel
def move_rows(edges, beta0, gain, factors, old, g1, g2):
    """g1 and g2 become rows of U: Π[(1−β₀) Π[factor · old] + gain · g], or Π[g] if not seen.

    `factors` are what decay has left of each row since it was written; NaN for a first visit.
    """
    for i in range(g1.size):
        u1, u2, factor = g1[i], g2[i], factors[i]
        if factor == factor:  # noqa: PLR0124 - not NaN
            old1 = min(max(old[i, 0] * factor, edges.bottom1), edges.top1)
            old2 = min(max(old[i, 1] * factor, edges.bottom2), edges.top2)
            u1 = (1.0 - beta0) * old1 + gain * u1
            u2 = (1.0 - beta0) * old2 + gain * u2
        g1[i] = min(max(u1, edges.bottom1), edges.top1)
        g2[i] = min(max(u2, edges.bottom2), edges.top2)
