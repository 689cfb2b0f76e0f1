"""Average precision and operating points.

Ties and sample weights count as in scikit-learn's metrics. :func:`average_precision` sorts only
the positives.
"""

from __future__ import annotations

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
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> OperatingPoint:
    """Find the best threshold for a target precision or a target recall.

    With ``precision=p``, it is the threshold with the highest recall among those with
    precision ≥ p; with ``recall=r``, the one with the highest precision among those with recall
    ≥ r. Ties are resolved in favour of the highest threshold, which raises the fewest alerts.

    Parameters
    ----------
    y, scores, sample_weight, pos_label
        As in :func:`average_precision`.
    precision, recall : float, optional
        The target, in (0, 1]; give exactly one of them.

    Returns
    -------
    OperatingPoint
        Threshold, precision, recall and alert rate.

    Raises
    ------
    UnreachableTargetError
        If no threshold reaches the target; the message states the highest value.

    Examples
    --------
    >>> from apmax import operating_point
    >>> operating_point([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2], recall=1.0)
    OperatingPoint(threshold=0.3, precision=0.6666666666666666, recall=1.0, alert_rate=0.75)
    """
    name, target = _one_target(precision, recall)
    positive, s, weight = _checked(y, scores, sample_weight, pos_label)
    thresholds, true_alerts, alerts = _alerts_by_threshold(positive, s, weight)
    reached = {
        "precision": true_alerts / alerts,
        "recall": true_alerts / true_alerts[0],
    }
    fits = reached[name] >= target
    if not fits.any():
        best = int(np.argmax(reached[name]))
        raise UnreachableTargetError(
            f"no threshold reaches `{name}` = {target:g}: the highest is "
            f"{reached[name][best]:.4g}, at threshold {thresholds[best]:.6g}; ask for less, or "
            "improve the model"
        )
    other = reached["recall" if name == "precision" else "precision"]
    best_other = other[fits].max()
    at = int(np.flatnonzero(fits & (other == best_other))[-1])
    return OperatingPoint(
        threshold=float(thresholds[at]),
        precision=float(reached["precision"][at]),
        recall=float(reached["recall"][at]),
        alert_rate=float(alerts[at] / alerts[0]),
    )


def _checked(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[Mask, Floats, Floats | None]:
    positive = check_labels(y, pos_label=pos_label)
    s = check_scores(scores)
    check_same_length(y=positive, scores=s)
    return positive, s, check_weights(sample_weight, positive)


def _one_target(precision: float | None, recall: float | None) -> tuple[str, float]:
    if (precision is None) == (recall is None):
        given = "neither" if precision is None else "both"
        raise ParameterError(
            f"give either `precision` or `recall`, got {given}: each determines the threshold"
        )
    name, value = ("recall", recall) if precision is None else ("precision", precision)
    why = "it is a proportion"
    return name, check_real(value, name, above=0, at_most=1, why=why)


def _alerts_by_threshold(
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
