r"""The box Ω that contains every g_i, on which the tracked rows of U are projected.

Differs from the paper: u and g are means over the n examples where the paper has sums, so that
numbers stay near 1 at any n. f(u) = −u₁/u₂ is unchanged by this, and so is ∇gᵀ∇f. Ω also has
0 ≤ u₁, which holds for every g.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from apmax.objective.surrogates import Surrogate


class Omega(NamedTuple):
    """Ω = {bottom1 ≤ u₁ ≤ top1, bottom2 ≤ u₂ ≤ top2}; infinite edges do not project."""

    bottom1: float = -math.inf
    top1: float = math.inf
    bottom2: float = -math.inf
    top2: float = math.inf

    @classmethod
    def of(
        cls, surrogate: Surrogate, gamma: float, *, m: int, n: int, spread: float = 1.0
    ) -> Omega:
        """Return {0 ≤ u₁ ≤ M·m/n, C/n ≤ u₂ ≤ M} for m positives among n examples."""
        ceiling = surrogate.upper_bound(gamma, spread)
        floor = surrogate.lower_bound(gamma)
        return cls(bottom1=0.0, top1=ceiling * m / n, bottom2=floor / n, top2=ceiling)
