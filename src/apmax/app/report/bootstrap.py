"""How far a curve could lie elsewhere: stratified bootstrap bands of precision at recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apmax.app.report.results import Scored
from apmax.metrics import average_precision
from apmax.validation import Floats

RESAMPLES = 200
LEVEL = 0.95
MOST_BINS = 2000


@dataclass(frozen=True, eq=False)
class Band:
    """Pointwise percentile band of precision over a grid of recalls, and an interval of AP."""

    recall: Floats
    precision: Floats
    """The curve itself at these recalls."""
    low: Floats
    high: Floats
    ap: float
    ap_low: float
    ap_high: float


def bootstrap_band(
    result: Scored, *, resamples: int = RESAMPLES, points: int = 101, seed: int = 0
) -> Band:
    """Resample positives and negatives apart, each with replacement, and keep the middle 95 %.

    Precision at a recall, and AP, depend on a resample only through how many positives and
    negatives it puts between neighbouring scores of positives. Those counts are multinomial,
    so they are drawn directly: the same distribution as drawing examples one by one, at a
    cost that does not grow with their number. Beyond `MOST_BINS` positives, neighbouring
    scores share a bin.

    The band is widened where the curve itself leaves it, as a percentile band may at the
    first few positives.
    """
    edges = np.unique(result.scores[result.y])
    if edges.size > MOST_BINS:
        edges = edges[np.linspace(0, edges.size - 1, MOST_BINS).round().astype(np.int64)]
    positives = _counts(result.scores[result.y], edges)[1:]
    negatives = _counts(result.scores[~result.y], edges)
    recall = np.linspace(0, 1, points)[1:]
    curve, _ = _curves(positives[None], negatives[None, 1:], recall)
    rng = np.random.default_rng(seed)
    drawn, drawn_ap = _curves(
        _resampled(rng, positives, resamples), _resampled(rng, negatives, resamples)[:, 1:], recall
    )
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(drawn, tails, axis=0)
    ap = average_precision(result.y, result.scores)
    ap_low, ap_high = np.quantile(drawn_ap, tails)
    return Band(
        recall=recall,
        precision=curve[0],
        low=np.minimum(low, curve[0]),
        high=np.maximum(high, curve[0]),
        ap=ap,
        ap_low=min(float(ap_low), ap),
        ap_high=max(float(ap_high), ap),
    )


def _counts(scores: Floats, edges: Floats) -> Floats:
    """How many scores lie below all edges, and then from each edge up to the next."""
    reached = np.searchsorted(edges, scores, side="right")
    return np.bincount(reached, minlength=edges.size + 1).astype(np.float64)


def _resampled(rng: np.random.Generator, counts: Floats, resamples: int) -> Floats:
    total = int(counts.sum())
    if total == 0:  # no negatives at all: nothing to draw from
        return np.zeros((resamples, counts.size))
    return rng.multinomial(total, counts / total, size=resamples).astype(np.float64)


def _curves(positives: Floats, negatives: Floats, recall: Floats) -> tuple[Floats, Floats]:
    """Precision at each recall, and AP, of one resample a row, from counts between edges.

    Precision at recall r is that of the highest threshold with recall ≥ r, as in AP.
    """
    true = np.cumsum(positives[:, ::-1], axis=1)
    alerts = true + np.cumsum(negatives[:, ::-1], axis=1)
    m = true[:, -1:]
    precision = true / np.maximum(alerts, 1)
    ap = (positives[:, ::-1] * precision).sum(axis=1) / m[:, 0]
    wanted = np.ceil(recall * m[0, 0] - 1e-9)
    # Every row has m positives in all, so the same counts are wanted of each.
    at = np.stack([np.searchsorted(row, wanted) for row in true])
    return np.take_along_axis(precision, at, axis=1), ap
