"""Numbers of the report: alerts per threshold, deciles, metrics and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.metrics import log_loss, roc_curve

from apmax.app.decisions import rounded_down
from apmax.app.report.results import ScoredModel
from apmax.errors import UnreachableTargetError
from apmax.metrics import (
    OperatingPoint,
    alerts_by_threshold,
    average_precision,
    operating_point,
)
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
    """Rows with probability ≥ threshold, thresholds ascending; the sum of weights, if any."""

    thresholds: Floats
    labels: list[str]
    true: Floats
    total: Floats
    positives: float
    rows: float

    @property
    def precision(self) -> Floats:
        """The share of alerts that are true."""
        return self.true / self.total

    @property
    def recall(self) -> Floats:
        """The share of positives with an alert."""
        return self.true / self.positives


def operating_points(result: ScoredModel) -> dict[float, OperatingPoint | None]:
    """Return the best threshold for each target precision, None where it is not reachable."""
    found: dict[float, OperatingPoint | None] = {}
    for target in TARGET_PRECISIONS:
        try:
            found[target] = operating_point(
                result.y, result.probabilities, precision=target, sample_weight=result.weight
            )
        except UnreachableTargetError:
            found[target] = None
    return found


def count_alerts(result: ScoredModel, keep: Sequence[float] = (), most: int = MAX_POINTS) -> Alerts:
    """Count alerts at every distinct probability, thinned to about `most` thresholds and `keep`."""
    thresholds, true, total = alerts_by_threshold(result.y, result.probabilities, result.weight)
    chosen = _spread(total, np.searchsorted(thresholds, keep), most)
    labels = _labels(thresholds, chosen)
    return Alerts(thresholds[chosen], labels, true[chosen], total[chosen], true[0], total[0])


def _labels(thresholds: Floats, chosen: Counts) -> list[str]:
    """Format thresholds with as few digits as select the same rows."""
    below = np.append(-np.inf, thresholds)[chosen]
    return [_label(*pair) for pair in zip(below.tolist(), thresholds[chosen].tolist(), strict=True)]


def _label(below: float, threshold: float) -> str:
    """Return the shortest number of two or more digits in (below, threshold]."""
    for digits in range(2, 17):
        rounded = rounded_down(threshold, digits)
        if rounded > below:
            return f"{rounded:.{digits}g}"
    return repr(threshold)


def _spread(total: Floats, keep: Counts, most: int) -> Counts:
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
    `MAX_BINS` positives, neighbouring ones share a bin. With sample weights, sums of weights are
    drawn instead: multiples of Poisson numbers with the mean and the variance of a resample.
    """
    edges = np.unique(result.probabilities[result.y])
    if edges.size > MAX_BINS:
        edges = edges[np.linspace(0, edges.size - 1, MAX_BINS).round().astype(np.int64)]
    bins = [-np.inf, *edges, np.inf]
    rng = np.random.default_rng(seed)
    observed, resampled = [], []
    for of in (result.y, ~result.y):
        counts = np.histogram(result.probabilities[of], bins)[0]
        sums: Floats = counts.astype(np.float64)
        if result.weight is None:
            share = counts / max(counts.sum(), 1)
            again: Floats = rng.multinomial(counts.sum(), share, resamples).astype(np.float64)
        else:
            v = result.weight[of]
            sums = np.histogram(result.probabilities[of], bins, weights=v)[0]
            squares = np.histogram(result.probabilities[of], bins, weights=v**2)[0]
            unit = squares / np.where(sums > 0, sums, 1)
            again = unit * rng.poisson(sums / np.where(unit > 0, unit, 1), (resamples, sums.size))
        observed.append(sums[None])
        resampled.append(again)
    recall = np.linspace(0, 1, 101)[1:]
    curve, _ = _curves(observed[0], observed[1], recall)
    drawn, drawn_ap = _curves(resampled[0], resampled[1], recall)
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(drawn, tails, axis=0)
    ap_low, ap_high = np.quantile(drawn_ap, tails)
    ap = average_precision(result.y, result.probabilities, sample_weight=result.weight)
    low, high = np.minimum(low, curve[0]), np.maximum(high, curve[0])
    return Band(recall, curve[0], low, high, ap, min(float(ap_low), ap), max(float(ap_high), ap))


def _curves(positives: Floats, negatives: Floats, recall: Floats) -> tuple[Floats, Floats]:
    """Return precision at each recall, and AP, for each row of sums between edges."""
    true = np.cumsum(positives[:, ::-1], axis=1)
    alerts = true + np.cumsum(negatives[:, ::-1], axis=1)
    precision = true / np.where(alerts > 0, alerts, 1)
    found = np.where(true[:, -1:] > 0, true[:, -1:], 1)
    ap = (positives[:, ::-1] * precision).sum(axis=1) / found[:, 0]
    wanted = recall * true[:, -1:] * (1 - 1e-12)
    at = np.stack([np.searchsorted(row, sought) for row, sought in zip(true, wanted, strict=True)])
    return np.take_along_axis(precision, at, axis=1), ap


class TopRows(NamedTuple):
    """The rows with the highest probabilities."""

    share: float
    rows: float
    """Number of rows, or the sum of their weights."""
    threshold: float
    """The lowest probability among them."""
    positives: float
    """Of tied rows at the edge, the expected number of a random choice is counted."""
    precision: float
    recall: float
    lift: float
    """Precision relative to the share of positives in all rows."""


def top_rows(result: ScoredModel, shares: tuple[float, ...] = TOP_SHARES) -> list[TopRows]:
    """Return what the top of the ranking contains; at least one row for each share."""
    counted = alerts_by_threshold(result.y, result.probabilities, result.weight)
    thresholds, true, total = (values[::-1] for values in counted)
    true, total = np.append(0.0, true), np.append(0.0, total)
    found = []
    for share in shares:
        rows = share * float(total[-1])
        if result.weight is None:
            rows = max(1.0, float(np.floor(rows + 0.5)))
        lowest = min(int(np.searchsorted(total, rows * (1 - 1e-12))), thresholds.size) - 1
        positives = float(np.interp(rows, total, true))
        precision, recall = positives / rows, positives / float(true[-1])
        lift = precision / result.prevalence
        found.append(
            TopRows(share, rows, float(thresholds[lowest]), positives, precision, recall, lift)
        )
    return found


class Decile(NamedTuple):
    """A tenth of the rows, from the highest to the lowest probabilities."""

    number: int
    rows: float
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
    ends = np.linspace(0, result.mass.sum(), count + 1)
    if result.weight is None:
        ends = np.unique(np.round(ends))
    tops = top_rows(result, tuple((ends[1:] / ends[-1]).tolist()))
    found, before, start = [], 0.0, 0.0
    for k, top in enumerate(tops, start=1):
        rows, positives = top.rows - start, top.positives - before
        lift = positives / rows / result.prevalence
        found.append(
            Decile(k, rows, top.threshold, positives, positives / rows, lift, top.recall, top.lift)
        )
        before, start = top.positives, top.rows
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
    y, p, weight = result.y, result.probabilities, result.weight
    auc = ks = float("nan")
    if not y.all():
        false_rate, true_rate, _ = roc_curve(y, p, sample_weight=weight)
        auc, ks = float(np.trapezoid(true_rate, false_rate)), float((true_rate - false_rate).max())
    return Quality(
        average_precision(y, p, sample_weight=weight),
        auc,
        ks,
        float(np.average(np.square(p - y), weights=weight)),
        float(log_loss(y, p, labels=[False, True], sample_weight=weight)),
    )


def constant_quality(prevalence: float) -> Quality:
    """Return the metrics of a model that predicts the share of positives for every row."""
    loss = float(entr(prevalence) + entr(1 - prevalence))
    return Quality(prevalence, 0.5, 0.0, prevalence * (1 - prevalence), loss)
