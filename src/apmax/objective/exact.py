r"""Full-batch surrogate average precision and its gradient, in O(n log n).

    ÂP = Σᵢ vᵢ · g₁ᵢ/g₂ᵢ / Σᵢ vᵢ,     g₁ᵢ = Σ_{j: yⱼ=1} vⱼ ℓ(sⱼ − sᵢ),   g₂ᵢ = Σⱼ vⱼ ℓ(sⱼ − sᵢ)

With g₂ = g₁ + g₀ (g₀ over negatives), the derivative of a positive's precision p = g₁/g₂ is
∂p = (g₀/g₂²)·∂g₁ − (g₁/g₂²)·∂g₀: two coefficients per positive, a and b. The gradient is a sum of
ℓ′ over all pairs with these coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from apmax.errors import NonFiniteError
from apmax.objective._pair_sums import DirectSums, Examples, PairSums
from apmax.objective.surrogates import (
    LOGISTIC,
    SQUARED_HINGE,
    Surrogate,
    resolve_with_gamma,
)
from apmax.validation import (
    Floats,
    Mask,
    check_labels,
    check_same_length,
    check_scores,
    check_weights,
)


@dataclass(frozen=True, eq=False)
class SurrogateAP:
    """Surrogate average precision of one set of scores, and its gradient.

    :func:`surrogate_ap` returns it.
    """

    value: float
    """ÂP of equation (2) of Wang et al. (2022), between 0 and 1; larger is better."""
    gradient: Floats = field(repr=False)
    """∂ÂP/∂s, one number per example; a small step along it raises ÂP."""


def surrogate_ap(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    surrogate: str | Surrogate = "squared_hinge",
    gamma: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> SurrogateAP:
    r"""Compute the surrogate average precision over all pairs, and its gradient.

    .. math:: \widehat{AP} = \frac1m \sum_{y_i=1}
              \frac{\sum_j \ell(s_j - s_i)\,\mathbb 1(y_j=1)}{\sum_j \ell(s_j - s_i)}

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores; larger means more likely positive.
    y : array-like of shape (n,)
        Labels: bool, {0, 1}, {-1, 1}, or any two values with `pos_label`.
    surrogate : str or Surrogate, default="squared_hinge"
        "squared_hinge", "logistic", or a surrogate of your own.
    gamma : float, optional
        Margin of the squared hinge or slope of the logistic surrogate, in units of the scores.
        The default is 0.1 and 20, respectively, which suits scores in [0, 1].
    sample_weight : array-like of shape (n,), optional
        Non-negative weights; a weight of 2 equals the example twice.
    pos_label : optional
        The positive class, needed unless labels are bool, {0, 1} or {-1, 1}.

    Returns
    -------
    SurrogateAP
        With attributes `value` and `gradient`.

    Notes
    -----
    The value approximates average precision only if the surrogate is steep.

    The tests allow relative errors of 1e-10 (squared hinge) and 1e-7 (logistic) for γ from 1e-3 to
    1e3; those of the gradient are relative to its largest entry. Your own surrogates are summed
    pair by pair, in O(mn).

    Examples
    --------
    >>> from apmax import surrogate_ap
    >>> result = surrogate_ap([0.9, 0.8, 0.4, 0.35], [1, 0, 1, 0])
    >>> round(result.value, 4)
    0.7972
    >>> result.gradient.round(3).tolist()
    [0.391, -0.477, 0.134, -0.048]
    """
    chosen, gamma = resolve_with_gamma(surrogate, gamma)
    s = check_scores(scores)
    positive = check_labels(y, pos_label=pos_label)
    check_same_length(scores=s, y=positive)
    weight = check_weights(sample_weight, positive)
    if chosen == SQUARED_HINGE:
        _check_squares(s, weight, gamma)
    return SurrogateAP(*evaluate(s, positive, weight, chosen, gamma))


def evaluate(
    scores: Floats, positive: Mask, weight: Floats | None, surrogate: Surrogate, gamma: float
) -> tuple[float, Floats]:
    """Compute ÂP and its gradient from validated input; the inner loop of the solvers."""
    sums = _pair_sums(Examples.of(scores, positive, weight), surrogate, gamma)
    rows = sums.rows()
    v = np.ones(rows.plus.size) if weight is None else weight[sums.order]
    share = v / v.sum()
    # A positive of weight 0 is ignored; its own sums may be 0.
    total = np.where(v > 0, rows.plus + rows.minus, 1.0)
    precision = rows.plus / total
    a = share * (rows.minus / total) / total
    b = share * precision / total
    gradient = sums.vjp(a, b)
    gradient[sums.order] += b * rows.minus_slope - a * rows.plus_slope
    return min(float(share @ precision), 1.0), gradient


def evaluate_margins(
    margins: Floats, positive: Mask, weight: Floats | None, surrogate: Surrogate, gamma: float
) -> tuple[float, Floats]:
    """Compute ÂP of the scores σ(z) and its derivative in each margin z."""
    if surrogate == LOGISTIC:
        from apmax.objective._summary import MAX_GAMMA, summary_for

        if gamma <= MAX_GAMMA:
            return summary_for(gamma).evaluate(margins, positive, weight)
    scores = expit(margins)
    value, slopes = evaluate(scores, positive, weight, surrogate, gamma)
    return value, slopes * scores * (1.0 - scores)


def _pair_sums(examples: Examples, surrogate: Surrogate, gamma: float) -> PairSums:
    """Choose the fastest exact routine; compiled modules are imported on first use."""
    if surrogate == SQUARED_HINGE:
        from apmax.objective._hinge import HingeSums

        return HingeSums(examples, gamma)
    if surrogate == LOGISTIC:
        from apmax.objective._logistic import FewSigmoidSums, SigmoidSums

        few = FewSigmoidSums.suits(examples, gamma)
        return FewSigmoidSums(examples, gamma) if few else SigmoidSums(examples, gamma)
    return DirectSums(examples, gamma, surrogate)


def _check_squares(scores: Floats, weight: Floats | None, gamma: float) -> None:
    """Refuse scores whose squared differences overflow or underflow."""
    low, high = scores.min(), scores.max()
    with np.errstate(over="ignore", under="ignore"):
        largest = scores.size * np.square(high - low + gamma)
        least = 1.0 if weight is None else weight[weight > 0].min()
        smallest = least * np.square(np.float64(gamma))
    limits = np.finfo(np.float64)
    if largest > limits.max or smallest < limits.tiny:
        raise NonFiniteError(
            f"`scores` from {low:g} to {high:g} with gamma = {gamma:g} have squares outside the "
            "range of double precision: divide both by a common factor"
        )
