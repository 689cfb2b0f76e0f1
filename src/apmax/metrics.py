r"""Average precision, the precision-recall curve and operating points, ties counted as ≥.

The order of arguments and the meaning of `sample_weight` are scikit-learn's, and so are the
results; :func:`average_precision` sorts the positives only.
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


class PrecisionRecallCurve(NamedTuple):
    """Precision and recall at every distinct score, thresholds ascending.

    As in scikit-learn, `precision` and `recall` end with an extra point (1, 0) that has no
    threshold.
    """

    precision: Floats
    recall: Floats
    thresholds: Floats


class OperatingPoint(NamedTuple):
    """What happens when every example with score ≥ `threshold` raises an alert."""

    threshold: float
    precision: float
    recall: float
    alert_rate: float


def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Average precision, eq. (1): the mean over positives of the precision at their score.

    .. math:: AP = \frac1m \sum_{y_i=1} \frac{r^+(x_i)}{r(x_i)}

    where r and r⁺ count the examples and the positives whose score is ≥ that of x_i. Equal
    to ``sklearn.metrics.average_precision_score``, and several times faster on large data with
    few positives, because only these are sorted.

    Parameters
    ----------
    y : labels: bool, {0, 1}, {-1, 1}, or any two values with `pos_label`.
    scores : finite numbers, larger meaning more likely positive.
    sample_weight : weights ≥ 0; a weight of 2 is the same as the example twice.
    pos_label : the positive class, where labels do not say it themselves.

    Examples
    --------
    >>> from apmax import average_precision
    >>> round(average_precision([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2]), 4)
    0.8333
    """
    from apmax._ranks import count_at_most, make_thresholds

    positive, s, weight = _checked(y, scores, sample_weight, pos_label)
    rows = s[positive]
    ascending = np.argsort(rows)
    rows = rows[ascending]
    v = np.ones(rows.size) if weight is None else weight[positive][ascending]
    negative = ~positive
    # A negative counts against the positives whose score is at most its own.
    at_most = count_at_most(make_thresholds(rows), s[negative], 0.0)
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


def precision_recall_curve(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> PrecisionRecallCurve:
    """Precision and recall when alerting at score ≥ t, for every distinct score t.

    Parameters are those of :func:`average_precision`. The result unpacks into
    ``precision, recall, thresholds`` as scikit-learn's does.

    Examples
    --------
    >>> from apmax import precision_recall_curve
    >>> curve = precision_recall_curve([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2])
    >>> curve.thresholds.tolist()
    [0.2, 0.3, 0.8, 0.9]
    >>> curve.recall.tolist()
    [1.0, 1.0, 0.5, 0.5, 0.0]
    """
    positive, s, weight = _checked(y, scores, sample_weight, pos_label)
    thresholds, true_alerts, alerts = _alerts_by_threshold(positive, s, weight)
    return PrecisionRecallCurve(
        precision=np.append(true_alerts / alerts, 1.0),
        recall=np.append(true_alerts / true_alerts[0], 0.0),
        thresholds=thresholds,
    )


def operating_point(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    precision: float | None = None,
    recall: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> OperatingPoint:
    """The best threshold for a wished precision or a wished recall.

    With ``precision=p``: of all thresholds with precision ≥ p, the one with the highest
    recall. With ``recall=r``: of all thresholds with recall ≥ r, the one with the highest
    precision. Of equals, the highest threshold: the fewest alerts.

    Raises
    ------
    UnreachableTargetError
        No threshold is that precise; the message says what can be reached.

    Examples
    --------
    >>> from apmax import operating_point
    >>> operating_point([1, 0, 1, 0], [0.9, 0.8, 0.3, 0.2], recall=1.0)
    OperatingPoint(threshold=0.3, precision=0.6666666666666666, recall=1.0, alert_rate=0.75)
    """
    wish = _one_wish(precision, recall)
    positive, s, weight = _checked(y, scores, sample_weight, pos_label)
    thresholds, true_alerts, alerts = _alerts_by_threshold(positive, s, weight)
    reached = {
        "precision": true_alerts / alerts,
        "recall": true_alerts / true_alerts[0],
    }
    name, target = wish
    fits = reached[name] >= target
    if not fits.any():
        best = int(np.argmax(reached[name]))
        raise UnreachableTargetError(
            f"`{name}` = {target:g} is reached at no threshold: the highest is "
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


def _one_wish(precision: float | None, recall: float | None) -> tuple[str, float]:
    if (precision is None) == (recall is None):
        given = "neither" if precision is None else "both"
        raise ParameterError(
            f"give either `precision` or `recall`, got {given}: one of them fixes the "
            "threshold, and the other follows"
        )
    name, value = ("recall", recall) if precision is None else ("precision", precision)
    why = "it is a share of the alerts or of the positives"
    return name, check_real(value, name, above=0, at_most=1, why=why)


def _alerts_by_threshold(
    positive: Mask, scores: Floats, weight: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Distinct scores, ascending, with the weight of positives and of all that reach them."""
    if weight is not None:  # an example of weight 0 is not there, nor is its threshold
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
