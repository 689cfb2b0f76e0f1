"""Numbers of the report: alerts per threshold, deciles, metrics and bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.metrics import log_loss, roc_curve

from apmax.app.report.results import ScoredModel
from apmax.errors import UnreachableTargetError
from apmax.metrics import OperatingPoint, average_precision, operating_point
from apmax.validation import Floats

Counts = NDArray[np.int64]

TARGET_PRECISIONS = (0.5, 0.8, 0.9, 0.95)
TOP_SHARES = (0.01, 0.02, 0.05, 0.1)
"""Shares of the rows with the highest probabilities."""
MAX_POINTS = 400
"""Points of a curve; more look the same and make the page heavy."""
RESAMPLES, LEVEL, MAX_BINS = 200, 0.95, 2000


@dataclass(frozen=True, eq=False)
class Alerts:
    """Counts of rows with probability ≥ threshold, thresholds ascending."""

    thresholds: Floats
    labels: list[str]
    true: Counts
    total: Counts
    positives: int
    rows: int

    @property
    def precision(self) -> Floats:
        """The share of alerts that are true."""
        return np.asarray(self.true / self.total, dtype=np.float64)

    @property
    def recall(self) -> Floats:
        """The share of positives with an alert."""
        return np.asarray(self.true / self.positives, dtype=np.float64)


def operating_points(result: ScoredModel) -> dict[float, OperatingPoint | None]:
    """Return the best threshold for each target precision, None where it is not reachable."""
    found: dict[float, OperatingPoint | None] = {}
    for target in TARGET_PRECISIONS:
        try:
            found[target] = operating_point(result.y, result.probabilities, precision=target)
        except UnreachableTargetError:
            found[target] = None
    return found


def count_alerts(
    result: ScoredModel, keep: tuple[float, ...] = (), most: int = MAX_POINTS
) -> Alerts:
    """Count alerts at every distinct probability, thinned to about `most` thresholds and `keep`."""
    ascending, positives = np.sort(result.probabilities), np.sort(result.probabilities[result.y])
    thresholds = np.unique(ascending)
    true = positives.size - np.searchsorted(positives, thresholds)
    total = ascending.size - np.searchsorted(ascending, thresholds)
    chosen = _spread(total, np.searchsorted(thresholds, keep), most)
    return Alerts(
        thresholds[chosen],
        _labels(thresholds, chosen),
        true[chosen],
        total[chosen],
        positives.size,
        ascending.size,
    )


def _labels(thresholds: Floats, chosen: Counts) -> list[str]:
    """Format thresholds with as few digits as select the same rows."""
    below = np.append(-np.inf, thresholds)[chosen]
    return [_label(*pair) for pair in zip(below.tolist(), thresholds[chosen].tolist(), strict=True)]


def _label(below: float, threshold: float) -> str:
    """Return the shortest number of two or more digits in (below, threshold]."""
    exact = Decimal(repr(threshold))
    for digits in range(2, 17):
        rounded = float(Context(prec=digits, rounding=ROUND_FLOOR).plus(exact))
        if rounded > below:
            return f"{rounded:.{digits}g}"
    return repr(threshold)


def _spread(total: Counts, keep: Counts, most: int) -> Counts:
    """Choose thresholds evenly spaced in the logarithm of alerts, and `keep`."""
    if total.size <= most:
        return np.arange(total.size)
    alerts = np.geomspace(total[-1], total[0], most - keep.size)
    chosen = np.searchsorted(-total, -alerts, side="right") - 1
    return np.unique(np.concatenate([[0, total.size - 1], keep, np.maximum(chosen, 0)]))


@dataclass(frozen=True, eq=False)
class Band:
    """Pointwise bootstrap band of precision over recall, and an interval of AP."""

    recall: Floats
    precision: Floats
    low: Floats
    high: Floats
    ap: float
    ap_low: float
    ap_high: float


def bootstrap_band(result: ScoredModel, *, resamples: int = RESAMPLES, seed: int = 0) -> Band:
    """Resample positives and negatives separately and return 95 % percentile intervals.

    A resample matters only through how many positives and negatives fall between neighbouring
    probabilities of positives. These counts are multinomial and are drawn directly. Beyond
    `MAX_BINS` positives, neighbouring ones share a bin.
    """
    edges = np.unique(result.probabilities[result.y])
    if edges.size > MAX_BINS:
        edges = edges[np.linspace(0, edges.size - 1, MAX_BINS).round().astype(np.int64)]
    bins = [-np.inf, *edges, np.inf]
    positives, negatives = (
        np.histogram(result.probabilities[of], bins)[0] for of in (result.y, ~result.y)
    )
    recall = np.linspace(0, 1, 101)[1:]
    curve, _ = _curves(positives[None], negatives[None], recall)
    rng = np.random.default_rng(seed)
    resampled = [
        rng.multinomial(counts.sum(), counts / max(counts.sum(), 1), resamples)
        for counts in (positives, negatives)
    ]
    drawn, drawn_ap = _curves(resampled[0], resampled[1], recall)
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(drawn, tails, axis=0)
    ap_low, ap_high = np.quantile(drawn_ap, tails)
    ap = average_precision(result.y, result.probabilities)
    low, high = np.minimum(low, curve[0]), np.maximum(high, curve[0])
    return Band(recall, curve[0], low, high, ap, min(float(ap_low), ap), max(float(ap_high), ap))


def _curves(positives: Counts, negatives: Counts, recall: Floats) -> tuple[Floats, Floats]:
    """Return precision at each recall, and AP, for each row of counts between edges."""
    true = np.cumsum(positives[:, ::-1], axis=1)
    alerts = true + np.cumsum(negatives[:, ::-1], axis=1)
    precision = true / np.maximum(alerts, 1)
    ap = (positives[:, ::-1] * precision).sum(axis=1) / true[:, -1]
    wanted = np.ceil(recall * true[0, -1] - 1e-9)
    at = np.stack([np.searchsorted(row, wanted) for row in true])
    return np.take_along_axis(precision, at, axis=1), ap


class TopRows(NamedTuple):
    """The rows with the highest probabilities."""

    share: float
    rows: int
    threshold: float
    """The lowest probability among them."""
    positives: int
    precision: float
    recall: float
    lift: float
    """Precision relative to the share of positives in all rows."""


def top_rows(result: ScoredModel, shares: tuple[float, ...] = TOP_SHARES) -> list[TopRows]:
    """Return what the top of the ranking contains; at least one row for each share.

    Of tied rows at the edge, the expected number of positives of a random choice is counted,
    rounded to a whole number.
    """
    found = []
    for share in shares:
        rows = max(1, int(share * result.y.size + 0.5))
        true, threshold = _positives_at_top(result, rows)
        precision = true / rows
        recall, lift = true / result.y.sum(), precision / result.prevalence
        found.append(TopRows(share, rows, threshold, round(true), precision, float(recall), lift))
    return found


def _positives_at_top(result: ScoredModel, rows: int) -> tuple[float, float]:
    """Return the expected number of positives among the top rows, and their lowest probability."""
    p, y = result.probabilities, result.y
    threshold = float(np.partition(p, p.size - rows)[p.size - rows])
    above, tied = p > threshold, p == threshold
    left = rows - int(above.sum())
    return float(y[above].sum() + y[tied].mean() * left), threshold


class Decile(NamedTuple):
    """A tenth of the rows, from the highest to the lowest probabilities."""

    number: int
    rows: int
    lowest: float
    """The lowest probability among them."""
    positives: float
    """Rows tied with the next decile count by their share of positives."""
    precision: float
    lift: float
    gain: float
    """Share of all positives in this and the higher deciles."""
    cumulative_lift: float


def deciles(result: ScoredModel, count: int = 10) -> list[Decile]:
    """Return gain and lift by decile; fewer parts if there are fewer rows."""
    ends = np.unique(np.round(np.linspace(0, result.y.size, count + 1)).astype(np.int64))
    found, before = [], 0.0
    total, prevalence = int(result.y.sum()), result.prevalence
    for k, (start, end) in enumerate(pairwise(ends.tolist()), start=1):
        true, lowest = _positives_at_top(result, end)
        precision, gain = (true - before) / (end - start), true / total
        lifts = precision / prevalence, gain / (end / result.y.size)
        found.append(
            Decile(k, end - start, lowest, true - before, precision, lifts[0], gain, lifts[1])
        )
        before = true
    return found


class Quality(NamedTuple):
    """Metrics of one model; NaN where they are not defined."""

    ap: float
    roc_auc: float
    ks: float
    """Largest difference between the shares of positives and of negatives above a threshold."""
    brier: float
    log_loss: float


def quality(result: ScoredModel) -> Quality:
    """Return metrics of ranking (AP, ROC AUC, KS) and of probabilities (Brier, log-loss)."""
    y, p = result.y, result.probabilities
    auc = ks = float("nan")
    if not y.all():
        false_rate, true_rate, _ = roc_curve(y, p)
        auc, ks = float(np.trapezoid(true_rate, false_rate)), float((true_rate - false_rate).max())
    return Quality(
        average_precision(y, p),
        auc,
        ks,
        float(np.square(p - y).mean()),
        float(log_loss(y, p, labels=[False, True])),
    )


def constant_quality(prevalence: float) -> Quality:
    """Return the metrics of a model that predicts the share of positives for every row."""
    loss = float(entr(prevalence) + entr(1 - prevalence))
    return Quality(prevalence, 0.5, 0.0, prevalence * (1 - prevalence), loss)
