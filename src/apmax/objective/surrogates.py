r"""Surrogates ℓ of the indicator 𝕀(s_j ≥ s_i), as functions of x = s_j − s_i (paper, eq. 2).

====================  =============================  ==============================
name                  ℓ(x)                           ℓ′(x)
====================  =============================  ==============================
``squared_hinge``     max(0, x + γ)²                 2 max(0, x + γ)
``logistic``          σ(γx) = 1 / (1 + exp(−γx))     γ σ(γx) σ(−γx)
====================  =============================  ==============================

γ is a margin for the first and a slope for the second. Another surrogate is one call of
:func:`register`: nothing else in apmax knows the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apmax.errors import ParameterError
from apmax.registry import Registry
from apmax.validation import Floats

PairFunction = Callable[[Floats, float], Floats]
"""(x, γ) → one value per x. Plain NumPy arithmetic, so that Numba can compile it too."""


@dataclass(frozen=True)
class Surrogate:
    """A non-decreasing ℓ(x; γ) ≥ 0 with ℓ(0; γ) > 0, and its derivative in x.

    Since ℓ does not decrease, the bounds of Assumption 1 are values of ℓ itself:
    C = ℓ(0) for the pair of an example with itself, and M = ℓ(spread) when no score lies
    more than `spread` above another.
    """

    name: str
    value: PairFunction
    slope: PairFunction

    def lower_bound(self, gamma: float) -> float:
        """C of Assumption 1: ℓ(x_i, x_i) = ℓ(0)."""
        return float(self.value(np.zeros(1), gamma)[0])

    def upper_bound(self, gamma: float, spread: float = 1.0) -> float:
        """M of Assumption 1: ℓ at the largest difference of scores; 1 for σ(w·x) scores."""
        return float(self.value(np.array([float(spread)]), gamma)[0])


def squared_hinge(x: Floats, gamma: float) -> Floats:
    """max(0, x + γ)²."""
    reach = np.maximum(x + gamma, 0.0)
    return reach * reach


def squared_hinge_slope(x: Floats, gamma: float) -> Floats:
    """2 max(0, x + γ)."""
    return 2.0 * np.maximum(x + gamma, 0.0)


def logistic(x: Floats, gamma: float) -> Floats:
    """σ(γx), from exp(−|γx|) so that neither end overflows or cancels."""
    tail = np.exp(-np.abs(gamma * x))
    return np.where(x >= 0, 1.0, tail) / (1.0 + tail)


def logistic_slope(x: Floats, gamma: float) -> Floats:
    """γ σ(γx) σ(−γx) = γ t / (1 + t)² with t = exp(−|γx|)."""
    tail = np.exp(-np.abs(gamma * x))
    return gamma * tail / (1.0 + tail) ** 2


SURROGATES: Registry[Surrogate] = Registry("surrogate")


def check_lower_bound(surrogate: Surrogate, gamma: float) -> None:
    """ℓ(0) > 0 and finite, and one number per difference: else f(u) = −u₁/u₂ is undefined."""
    probe = np.array([0.0, 0.5])
    for part in (surrogate.value, surrogate.slope):
        try:
            numbers = np.asarray(part(probe, gamma), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"the surrogate {surrogate.name!r} cannot be called with an array and γ ({error}): "
                "value and slope take (x, gamma) and return an array of the shape of x"
            ) from None
        if numbers.shape != probe.shape:
            raise ParameterError(
                f"the surrogate {surrogate.name!r} returns shape {numbers.shape} for x of shape "
                f"{probe.shape}: value and slope return one number per difference"
            )
    lower = surrogate.lower_bound(gamma)
    if not 0 < lower < np.inf:
        raise ParameterError(
            f"the surrogate {surrogate.name!r} has ℓ(0) = {lower} at γ = {gamma:g}: it must be "
            "> 0, or f(u) = −u₁/u₂ is undefined for the highest positive"
        )


def register(surrogate: Surrogate) -> Surrogate:
    """Make `surrogate` known by its name everywhere a surrogate can be named."""
    check_lower_bound(surrogate, 1.0)
    return SURROGATES.add(surrogate.name, surrogate)


def resolve(surrogate: str | Surrogate) -> Surrogate:
    """The surrogate of that name, or the one given."""
    return surrogate if isinstance(surrogate, Surrogate) else SURROGATES.choose(surrogate)


DEFAULT_GAMMA = {"logistic": 20.0, "squared_hinge": 0.1}
"""Good first values for scores in [0, 1], in units of the score."""


def default_gamma(surrogate: str | Surrogate) -> float:
    """γ where a user gives none; 1 for a surrogate of their own."""
    return DEFAULT_GAMMA.get(resolve(surrogate).name, 1.0)


SQUARED_HINGE = register(Surrogate("squared_hinge", squared_hinge, squared_hinge_slope))
LOGISTIC = register(Surrogate("logistic", logistic, logistic_slope))
