"""Average precision and operating points.

Ties and sample weights count as in scikit-learn's metrics. :func:`average_precision` sorts only
the positives.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apmax.errors import ParameterError, UnreachableTargetError
from apmax.validation import (
    Floats,
    Mask,
    check_labels,
    check_real,
    check_same_length,
    check_scores,
    check_weights,
)

COMPILED_FROM = 1 << 12
"""Number of scores from which the compiled routine is faster than NumPy's binary search."""
ROUNDING = 1e-9
"""Relative rounding error of sums of weights."""


class OperatingPoint(NamedTuple):
    """Precision, recall and alert rate when every score ≥ `threshold` raises an alert.

    :func:`operating_point` returns it.
    """

    threshold: float
    """Lowest score that raises an alert."""
    precision: float
    """Share of positives among the alerts."""
    recall: float
    """Share of the positives that raise an alert."""
    alert_rate: float
    """Share of all examples that raise an alert."""


def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Compute average precision, the mean over positives of the precision at their score.

    .. math:: AP = \frac1m \sum_{y_i=1} \frac{r^+(x_i)}{r(x_i)}

    where r and r⁺ count the examples and the positives whose score is ≥ that of x_i. The result
    equals ``sklearn.metrics.average_precision_score``; it is faster on large data with few
    positives because only these are sorted.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: bool, {0, 1}, {-1, 1}, or any two values with `pos_label`.
    scores : array-like of shape (n,)
        Finite scores; larger means more likely positive.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights; a weight of 2 equals the example twice.
    pos_label : optional
        The positive class, needed unless labels are bool, {0, 1} or {-1, 1}.

    Returns
    -------
    float
        Average precision, between 0 and 1.

    Examples
    --------
    >>> from apmax import average_precision
    >>> round(average_precision([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2]), 4)
    0.8333
    """
    return ap_of_scores(*_checked(y, scores, sample_weight, pos_label))


def ap_of_scores(positive: Mask, scores: Floats, weight: Floats | None) -> float:
    """Compute average precision from validated input."""
    rows = scores[positive]
    ascending = np.argsort(rows)
    rows = rows[ascending]
    v = np.ones(rows.size) if weight is None else weight[positive][ascending]
    negative = ~positive
    # A negative counts against the positives whose score is at most its own.
    at_most = _count_at_most(rows, scores[negative])
    against = np.bincount(
        at_most, None if weight is None else weight[negative], minlength=rows.size + 1
    )
    false_above = _sums_from_the_top(against)[1:]
    first_of_tie = np.searchsorted(rows, rows, side="left")
    true_above = _sums_from_the_top(v)[first_of_tie]
    counted = v > 0
    above = true_above[counted]
    precision = above / (above + false_above[counted])
    return min(float(v[counted] @ precision / v.sum()), 1.0)


def _count_at_most(thresholds: Floats, scores: Floats) -> NDArray[Any]:
    """Count the sorted thresholds ≤ each score; long arrays use a compiled routine."""
    if scores.size < COMPILED_FROM:
        return np.searchsorted(thresholds, scores, side="right")
    from apmax._ranks import count_at_most, make_thresholds

    return count_at_most(make_thresholds(thresholds), scores, 0.0)


def operating_point(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    precision: float | None = None,
    recall: float | None = None,
    top: float | None = None,
    cost: tuple[float, float] | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> OperatingPoint:
    """Find the best threshold for a precision, a recall, a share of alerts, or costs.

    =====================  ================================================================
    ``precision=p``        the highest recall among thresholds with precision ≥ p
    ``recall=r``           the highest precision among thresholds with recall ≥ r
    ``top=q``              the fewest examples of highest score that are at least the share q
    ``cost=(fp, fn)``      the lowest total cost of false alarms and missed positives
    =====================  ================================================================

    Ties are resolved in favour of the highest threshold, which raises the fewest alerts.

    Parameters
    ----------
    y, scores, sample_weight, pos_label
        As in :func:`average_precision`.
    precision, recall, top : float, optional
        The target, in (0, 1]. Give exactly one of `precision`, `recall`, `top` and `cost`.
    cost : tuple of two floats, optional
        The costs of a false alarm and of a missed positive, such as (1, 20).

    Returns
    -------
    OperatingPoint
        Threshold, precision, recall and alert rate.

    Raises
    ------
    UnreachableTargetError
        If no threshold reaches the target, or if no alert at all is cheapest.

    Examples
    --------
    >>> from apmax import operating_point
    >>> operating_point([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2], recall=1.0)
    OperatingPoint(threshold=0.3, precision=0.6666666666666666, recall=1.0, alert_rate=0.75)
    """
    given = {"precision": precision, "recall": recall, "top": top, "cost": cost}
    name, target = _one_target(given)
    positive, s, weight = _checked(y, scores, sample_weight, pos_label)
    thresholds, true_alerts, alerts = alerts_by_threshold(positive, s, weight)
    if name == "cost":
        at = _cheapest(true_alerts, alerts, *target)
    elif name == "top":
        at = int(np.flatnonzero(alerts >= (1 - ROUNDING) * target * alerts[0])[-1])
    else:
        reached, other = true_alerts / alerts, true_alerts / true_alerts[0]
        if name == "recall":
            reached, other = other, reached
        at = _best_reaching(name, target, reached, other, thresholds)
    return OperatingPoint(
        threshold=float(thresholds[at]),
        precision=float(true_alerts[at] / alerts[at]),
        recall=float(true_alerts[at] / true_alerts[0]),
        alert_rate=float(alerts[at] / alerts[0]),
    )


def _best_reaching(
    name: str, target: float, reached: Floats, other: Floats, thresholds: Floats
) -> int:
    """Return the highest threshold with the largest `other` among those that reach the target."""
    fits = reached >= (1 - ROUNDING) * target
    if not fits.any():
        best = int(np.argmax(reached))
        raise UnreachableTargetError(
            f"no threshold reaches `{name}` = {target:g}: the highest is {reached[best]:.4g}, at "
            f"threshold {thresholds[best]:.6g}; ask for less, or improve the model"
        )
    return int(np.flatnonzero(fits & (other >= (1 - ROUNDING) * other[fits].max()))[-1])


def _cheapest(true_alerts: Floats, alerts: Floats, false_alarm: float, missed: float) -> int:
    """Return the highest threshold of the lowest cost."""
    _, exponent = frexp(
        max(false_alarm, missed)
    )  # scaled by a power of two, equal costs stay equal
    of_false, of_missed = ldexp(false_alarm, -exponent), ldexp(missed, -exponent)
    costs = of_false * (alerts - true_alerts) + of_missed * (true_alerts[0] - true_alerts)
    if costs.min() >= of_missed * true_alerts[0]:  # the cost of no alert
        raise UnreachableTargetError(
            f"at costs of {false_alarm:g}:{missed:g}, no alert at all is cheapest on these data: "
            "check that the false alarm comes first and the missed positive second, or improve "
            "the model"
        )
    return int(np.flatnonzero(costs == costs.min())[-1])


def _checked(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[Mask, Floats, Floats | None]:
    positive = check_labels(y, pos_label=pos_label)
    s = check_scores(scores)
    check_same_length(y=positive, scores=s)
    return positive, s, check_weights(sample_weight, positive)


def _one_target(given: dict[str, Any]) -> tuple[str, Any]:
    """Return the name and the value of the only target; ParameterError if it is not valid."""
    targets = [(name, value) for name, value in given.items() if value is not None]
    if len(targets) != 1:
        found = " and ".join(f"`{name}`" for name, _ in targets) or "none"
        raise ParameterError(
            f"give one of `precision`, `recall`, `top` and `cost`, got {found}: each determines "
            "the threshold"
        )
    ((name, value),) = targets
    if name != "cost":
        return name, check_real(value, name, above=0, at_most=1, why="it is a proportion")
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ParameterError(
            f"`cost` = {value!r} must be the costs of a false alarm and of a missed positive, "
            "such as (1, 20)"
        )
    return name, tuple(check_real(one, "cost", above=0, why="it is a cost") for one in value)


def alerts_by_threshold(
    positive: Mask, scores: Floats, weight: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Return distinct scores, ascending, and the weights of positives and of all at or above."""
    if weight is not None:  # an example of weight 0 gives no threshold
        there = weight > 0
        positive, scores, weight = positive[there], scores[there], weight[there]
    ascending = np.argsort(scores)
    s = scores[ascending]
    v = np.ones(s.size) if weight is None else weight[ascending]
    distinct = np.concatenate([[True], s[1:] != s[:-1]])
    alerts = _sums_from_the_top(v)[distinct]
    true_alerts = _sums_from_the_top(np.where(positive[ascending], v, 0.0))[distinct]
    return s[distinct], true_alerts, alerts


def _sums_from_the_top(values: NDArray[Any]) -> Floats:
    return np.cumsum(values[::-1], dtype=np.float64)[::-1]
