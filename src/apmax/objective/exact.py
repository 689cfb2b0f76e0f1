r"""The full-batch surrogate average precision and its gradient, in O(n log n).

    ÂP = Σᵢ vᵢ · g₁ᵢ/g₂ᵢ / Σᵢ vᵢ,     g₁ᵢ = Σ_{j: yⱼ=1} vⱼ ℓ(sⱼ − sᵢ),   g₂ᵢ = Σⱼ vⱼ ℓ(sⱼ − sᵢ)

With g₂ = g₁ + g₀ (g₀ over negatives), the derivative of a row's precision p = g₁/g₂ is
∂p = (g₀/g₂²)·∂g₁ − (g₁/g₂²)·∂g₀: two coefficients per positive, a and b, and the gradient
is a sum of ℓ′ over the pairs with these coefficients. :mod:`apmax.objective._pair_sums` does
the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apmax.errors import NonFiniteError
from apmax.objective._pair_sums import (
    DirectSums,
    Examples,
    HingeSums,
    PairSums,
)
from apmax.objective._sigmoid_sums import FewSigmoidSums, SigmoidSums
from apmax.objective.surrogates import (
    LOGISTIC,
    SQUARED_HINGE,
    Surrogate,
    check_lower_bound,
    default_gamma,
    resolve,
)
from apmax.validation import (
    Floats,
    check_gamma,
    check_labels,
    check_same_length,
    check_scores,
    check_weights,
)


@dataclass(frozen=True, eq=False)
class SurrogateAP:
    """The surrogate AP of one set of scores, and how it changes with each of them."""

    value: float
    """ÂP of eq. (2), between 0 and 1; larger is better."""
    gradient: Floats = field(repr=False)
    """∂ÂP/∂s: one number per example. Add a multiple of it to the scores to raise ÂP."""


def surrogate_ap(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    surrogate: str | Surrogate = "squared_hinge",
    gamma: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> SurrogateAP:
    r"""Exact surrogate average precision over all pairs, and its gradient, in O(n log n).

    .. math:: \widehat{AP} = \frac1m \sum_{y_i=1}
              \frac{\sum_j \ell(s_j - s_i)\,\mathbb 1(y_j=1)}{\sum_j \ell(s_j - s_i)}

    Parameters
    ----------
    scores : array of n finite numbers, larger meaning more likely positive.
    y : n labels: bool, {0, 1}, {-1, 1}, or any two values with `pos_label`.
    surrogate : "squared_hinge", "logistic", or a registered or given `Surrogate`.
    gamma : margin of the squared hinge, slope of the logistic; > 0. It is in units of the
        scores; None is 0.1 and 20, good first values for scores in [0, 1].
    sample_weight : n weights ≥ 0; a weight of 2 is the same as the example twice.
    pos_label : the positive class, where labels do not say it themselves.

    Returns
    -------
    SurrogateAP with `.value` and `.gradient`.

    Notes
    -----
    The value is near average precision only if the surrogate is steep; with a wide margin
    or a gentle slope it is a smoother thing with the same direction.

    Agrees with the pairwise definition to 1e-12 for the squared hinge and 1e-8 for the
    logistic surrogate, relative to the largest entry of the gradient; where the terms of the
    gradient cancel to nothing, the rounding of the terms is left. A surrogate of your
    own is summed pair by pair, in O(mn).

    Examples
    --------
    >>> from apmax import surrogate_ap
    >>> result = surrogate_ap([0.9, 0.8, 0.4, 0.35], [1, 0, 1, 0])
    >>> round(result.value, 4)
    0.7972
    >>> result.gradient.round(3).tolist()
    [0.391, -0.477, 0.134, -0.048]
    """
    chosen = resolve(surrogate)
    gamma = check_gamma(default_gamma(chosen) if gamma is None else gamma)
    check_lower_bound(chosen, gamma)
    s = check_scores(scores)
    positive = check_labels(y, pos_label=pos_label)
    check_same_length(scores=s, y=positive)
    weight = check_weights(sample_weight, positive)
    sums = _choose_sums(Examples.of(s, positive, weight), chosen, gamma)

    rows = sums.rows()
    v = np.ones(rows.plus.size) if weight is None else weight[sums.order]
    counted = v > 0  # a positive of weight 0 is not there, and may see nothing
    share = v / v.sum()
    total = np.where(counted, rows.plus + rows.minus, 1.0)
    precision = rows.plus / total
    a = share * (rows.minus / total) / total
    b = share * precision / total
    gradient = sums.pull(a, b)
    gradient[sums.order] += b * rows.minus_slope - a * rows.plus_slope
    return SurrogateAP(value=min(float(v @ precision / v.sum()), 1.0), gradient=gradient)


def _choose_sums(examples: Examples, surrogate: Surrogate, gamma: float) -> PairSums:
    if surrogate == SQUARED_HINGE:
        _check_that_squares_fit(examples, gamma)
        return HingeSums(examples, gamma)
    if surrogate == LOGISTIC:
        few = FewSigmoidSums.suits(examples, gamma)
        return FewSigmoidSums(examples, gamma) if few else SigmoidSums(examples, gamma)
    return DirectSums(examples, gamma, surrogate)


def _check_that_squares_fit(examples: Examples, gamma: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        spread = np.float64(examples.high) - examples.low
        largest = examples.scores.size * np.square(spread + gamma)
        least = 1.0 if examples.weight is None else examples.weight[examples.weight > 0].min()
        smallest = least * np.square(np.float64(gamma))
    limits = np.finfo(np.float64)
    if largest > limits.max or smallest < limits.tiny:
        raise NonFiniteError(
            f"`scores` from {examples.low:g} to {examples.high:g} with gamma = {gamma:g} have "
            "squares that double precision cannot hold: divide both by a common factor"
        )
