"""Average precision of data in parts: exact while the positives fit, otherwise an interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import LabelError, NoPositiveError
from apmax.metrics import _count_at_most
from apmax.scale.sums import Sums, add
from apmax.validation import Floats, check_same_length, check_scores, plain_positives

MOST_POSITIVES = 1 << 21
"""Most positives whose scores are sent to every part: 16 MB."""
BINS = 1 << 17
"""Bins of the histogram for more positives; they hold about as many positives each."""
SAMPLE = 1 << 15
"""Scores of positives per part from which the bins are chosen."""
Part = tuple[Any, Any, Any]
"""Labels, scores, and weights or None."""
Fold = Callable[..., Any]


class APInterval(NamedTuple):
    """Average precision with bounds that contain the exact value; ``float(…)`` is `value`."""

    value: float
    """Exact, or the middle of the interval."""
    lower: float
    """Lower bound of the exact value."""
    upper: float
    """Upper bound of the exact value."""

    def __float__(self) -> float:
        return self.value


def average_precision_of(fold: Fold, pos_label: Any = None) -> APInterval:
    """Compute average precision; `fold` is that of an engine over parts."""
    count = int(fold(count_positives, _plus, pos_label))
    if count == 0:
        raise NoPositiveError(
            f"no label equals {1 if pos_label is None else pos_label!r}: check the labels or pass "
            "pos_label="
        )
    if count <= MOST_POSITIVES:
        scores, weight = fold(positives, join, pos_label)
        return _exact(fold, scores, weight, pos_label)
    sample, _ = fold(positives, join, pos_label, SAMPLE)
    ranks = np.linspace(0, sample.size - 1, BINS + 1)[1:-1].astype(np.intp)
    edges = np.unique(np.sort(sample)[ranks])  # np.quantile takes time proportional to the bins
    return _interval(*fold(counts_per_bin, add, pos_label, edges))


def _exact(fold: Fold, scores: Floats, weight: Floats, pos_label: Any) -> APInterval:
    order = np.argsort(scores, kind="stable")
    scores, weight = scores[order], weight[order]
    thresholds, first = np.unique(scores, return_index=True)
    (against,) = fold(count_against, add, pos_label, thresholds)
    false_above = np.cumsum(against[::-1])[::-1][1:]
    true_above = np.cumsum(weight[::-1])[::-1][first]
    mass = np.add.reduceat(weight, first)
    counted = mass > 0
    precision = true_above[counted] / (true_above[counted] + false_above[counted])
    value = min(float(mass[counted] @ precision / mass.sum()), 1.0)
    return APInterval(value, value, value)


def _interval(plus: Floats, minus: Floats) -> APInterval:
    """Bound AP from the weights of both classes per bin, in ascending order of scores.

    AP is largest if the positives of a bin are tied above its negatives, and smallest if they
    follow its negatives one by one. The sum over them is then at least the integral of
    (P + x) / (P + x + N) over their weight, whatever the single weights are.
    """
    p, n = plus[::-1], minus[::-1]
    true_above, false_above = np.cumsum(p) - p, np.cumsum(n) - n
    there = p > 0
    p, n, true_above, false_above = (v[there] for v in (p, n, true_above, false_above))
    upper = p * (true_above + p) / (true_above + p + false_above)
    against = false_above + n
    # ∫ (P + x)/(P + x + N) dx = p − N log(1 + p/(P + N)); log1p keeps its digits for small p.
    before = true_above + against
    ratio = np.divide(p, before, out=np.zeros_like(p), where=against > 0)
    lower = p - against * np.log1p(ratio)
    total = plus.sum()
    bounds = float(lower.sum() / total), min(float(upper.sum() / total), 1.0)
    return APInterval((bounds[0] + bounds[1]) / 2, *bounds)


def count_positives(part: Part, pos_label: Any) -> float:
    """Return the number of positives."""
    return float(np.count_nonzero(_arrays(part, pos_label)[0]))


def positives(part: Part, pos_label: Any, most: int | None = None) -> tuple[Floats, Floats]:
    """Return scores and weights of the positives, or evenly spaced order statistics of them."""
    positive, scores, weight = _arrays(part, pos_label)
    found, v = scores[positive], weight[positive]
    if most is not None and found.size > most:
        found = np.sort(found)[np.linspace(0, found.size - 1, most).astype(np.intp)]
        v = np.ones(most)
    return found, v


def join(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Concatenate scores and weights."""
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def count_against(part: Part, pos_label: Any, thresholds: Floats) -> Sums:
    """Return the weights of negatives by the number of thresholds that they reach."""
    positive, scores, weight = _arrays(part, pos_label)
    at_most = _count_at_most(thresholds, np.ascontiguousarray(scores[~positive]))
    found = np.bincount(at_most, weight[~positive], minlength=thresholds.size + 1)
    return (found.astype(np.float64),)


def counts_per_bin(part: Part, pos_label: Any, edges: Floats) -> Sums:
    """Return the weights of positives and of negatives per bin."""
    positive, scores, weight = _arrays(part, pos_label)
    place = _count_at_most(edges, scores)
    plus, minus = (
        np.bincount(place[rows], weight[rows], minlength=edges.size + 1).astype(np.float64)
        for rows in (positive, ~positive)
    )
    return plus, minus


def _plus(first: float, second: float) -> float:
    return first + second


def _arrays(part: Part, pos_label: Any) -> tuple[NDArray[np.bool_], Floats, Floats]:
    labels, scores = np.asarray(part[0]).reshape(-1), np.asarray(part[1])
    if labels.size == 0:
        return np.zeros(0, bool), np.zeros(0), np.zeros(0)
    if pos_label is None:
        plain = plain_positives(labels)
        if plain is None:
            raise LabelError(
                "`y` holds labels that do not say which class is positive: pass pos_label="
            )
        positive = plain
    else:
        positive = np.asarray(labels == pos_label, dtype=bool)
    s = check_scores(scores)
    check_same_length(y=positive, scores=s)
    weight = np.ones(s.size) if part[2] is None else check_scores(part[2], name="sample_weight")
    check_same_length(y=positive, sample_weight=weight)
    return positive, s, weight
