r"""Surrogates ℓ of the indicator 𝕀(s_j ≥ s_i), as functions of x = s_j − s_i (paper, eq. 2).

====================  =============================  ==============================
name                  ℓ(x)                           ℓ′(x)
====================  =============================  ==============================
``squared_hinge``     max(0, x + γ)²                 2 max(0, x + γ)
``logistic``          σ(γx) = 1 / (1 + exp(−γx))     γ σ(γx) σ(−γx)
====================  =============================  ==============================

γ is the margin of the first and the slope of the second. Add your own with :func:`register`: it is
evaluated in NumPy, pair by pair, by `surrogate_ap`, `APClassifier`, `APClassifierCV` and
`apmax.torch.APLoss`, and compiled by Numba for `StochasticAPClassifier`. One that Numba cannot
compile raises :class:`apmax.errors.BackendError` there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apmax.errors import ParameterError
from apmax.registry import Registry
from apmax.validation import Floats, check_gamma

PairFunction = Callable[[Floats, float], Floats]
"""(x, γ) → one value per x, in plain NumPy arithmetic that also works for single numbers."""


@dataclass(frozen=True)
class Surrogate:
    """A non-decreasing ℓ(x; γ) ≥ 0 with ℓ(0; γ) > 0, and its derivative in x.

    Parameters
    ----------
    name : str
        Name to register it by.
    value, slope : callable
        Functions of (x, gamma) that return ℓ and ∂ℓ/∂x, one number per x.

    Notes
    -----
    Since ℓ does not decrease, the bounds of Assumption 1 of Wang et al. (2022) are values of ℓ
    itself: C = ℓ(0), and M = ℓ(spread) when no score lies more than `spread` above another.

    Examples
    --------
    >>> import numpy as np
    >>> from apmax import Surrogate, surrogate_ap
    >>> cubed = Surrogate(
    ...     "cubed_hinge",
    ...     value=lambda x, gamma: np.maximum(x + gamma, 0) ** 3,
    ...     slope=lambda x, gamma: 3 * np.maximum(x + gamma, 0) ** 2,
    ... )
    >>> result = surrogate_ap([0.9, 0.8, 0.4, 0.35], [1, 0, 1, 0], surrogate=cubed, gamma=0.1)
    >>> round(result.value, 4)
    0.8171
    """

    name: str
    value: PairFunction
    slope: PairFunction

    def lower_bound(self, gamma: float) -> float:
        """Return C of Assumption 1 of Wang et al. (2022), ℓ(0).

        Parameters
        ----------
        gamma : float
            γ of the surrogate.
        """
        return float(self.value(np.zeros(1), gamma)[0])

    def upper_bound(self, gamma: float, spread: float = 1.0) -> float:
        """Return M of Assumption 1 of Wang et al. (2022), ℓ at the largest score difference.

        Parameters
        ----------
        gamma : float
            γ of the surrogate.
        spread : float, default=1.0
            The largest difference of two scores.
        """
        return float(self.value(np.array([float(spread)]), gamma)[0])


def squared_hinge(x: Floats, gamma: float) -> Floats:
    """Return max(0, x + γ)²."""
    reach = np.maximum(x + gamma, 0.0)
    return reach * reach


def squared_hinge_slope(x: Floats, gamma: float) -> Floats:
    """Return 2 max(0, x + γ)."""
    return 2.0 * np.maximum(x + gamma, 0.0)


def logistic(x: Floats, gamma: float) -> Floats:
    """Return σ(γx), from exp(−|γx|) so that neither end overflows or cancels."""
    tail = np.exp(-np.abs(gamma * x))
    return np.where(x >= 0, 1.0, tail) / (1.0 + tail)


def logistic_slope(x: Floats, gamma: float) -> Floats:
    """Return γ σ(γx) σ(−γx) = γ t / (1 + t)² with t = exp(−|γx|)."""
    tail = np.exp(-np.abs(gamma * x))
    return gamma * tail / (1.0 + tail) ** 2


SURROGATES: Registry[Surrogate] = Registry("surrogate")


def check_surrogate(surrogate: Surrogate, gamma: float) -> None:
    """Check that ℓ and ℓ′ return one number per difference and that 0 < ℓ(0) < ∞."""
    probe = np.array([0.0, 0.5])
    for part in (surrogate.value, surrogate.slope):
        try:
            numbers = np.asarray(part(probe, gamma), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"surrogate {surrogate.name!r} cannot be called with an array and gamma ({error}): "
                "value and slope take (x, gamma) and return an array of the shape of x"
            ) from None
        if numbers.shape != probe.shape:
            raise ParameterError(
                f"surrogate {surrogate.name!r} returns shape {numbers.shape} for x of shape "
                f"{probe.shape}: value and slope return one number per difference"
            )
    if surrogate not in (SQUARED_HINGE, LOGISTIC):
        _check_slope(surrogate, gamma)
    lower = surrogate.lower_bound(gamma)
    if not 0 < lower < np.inf:
        raise ParameterError(
            f"surrogate {surrogate.name!r} has ℓ(0) = {lower} at γ = {gamma:g}: it must be "
            "positive and finite, otherwise precision is undefined for the highest positive"
        )


def _check_slope(surrogate: Surrogate, gamma: float) -> None:
    x, step = np.array([-0.371829, 0.193847, 0.828462]), 1e-6
    rise = surrogate.value(x + step, gamma) - surrogate.value(x - step, gamma)
    numeric, slope = rise / (2 * step), surrogate.slope(x, gamma)
    if not np.allclose(slope, numeric, rtol=1e-3, atol=1e-5 * max(1.0, np.abs(numeric).max())):
        raise ParameterError(
            f"surrogate {surrogate.name!r}: slope is {slope} at x = {x}, but value rises by "
            f"{numeric}: slope must be the derivative of value in x"
        )


def register(surrogate: Surrogate) -> Surrogate:
    """Make `surrogate` available by its name wherever a surrogate can be named.

    Parameters
    ----------
    surrogate : Surrogate
        Its name must be new.

    Returns
    -------
    Surrogate
        The same surrogate.

    Examples
    --------
    >>> import numpy as np
    >>> from apmax import APClassifier, Surrogate
    >>> from apmax.objective import surrogates
    >>> _ = surrogates.register(Surrogate(
    ...     "exponential",
    ...     value=lambda x, gamma: np.exp(gamma * x),
    ...     slope=lambda x, gamma: gamma * np.exp(gamma * x),
    ... ))
    >>> model = APClassifier(surrogate="exponential", gamma=3.0)
    """
    check_surrogate(surrogate, 1.0)
    return SURROGATES.add(surrogate.name, surrogate)


def resolve(surrogate: str | Surrogate) -> Surrogate:
    """Return the surrogate of that name, or the one given."""
    return surrogate if isinstance(surrogate, Surrogate) else SURROGATES.choose(surrogate)


DEFAULT_GAMMA = {"logistic": 20.0, "squared_hinge": 0.1}
"""Defaults for scores in [0, 1], in units of the score."""


def default_gamma(surrogate: str | Surrogate) -> float:
    """Return the default γ; 1 for a surrogate that is not built in."""
    return DEFAULT_GAMMA.get(resolve(surrogate).name, 1.0)


def resolve_with_gamma(surrogate: str | Surrogate, gamma: float | None) -> tuple[Surrogate, float]:
    """Return a validated surrogate and its γ; None is the default γ."""
    chosen = resolve(surrogate)
    gamma = check_gamma(default_gamma(chosen) if gamma is None else gamma)
    check_surrogate(chosen, gamma)
    return chosen, gamma


SQUARED_HINGE = Surrogate("squared_hinge", squared_hinge, squared_hinge_slope)
LOGISTIC = Surrogate("logistic", logistic, logistic_slope)
for _built_in in (SQUARED_HINGE, LOGISTIC):
    register(_built_in)
