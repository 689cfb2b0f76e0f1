"""Numbers of the report: alerts per threshold, bootstrap intervals and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from apmax.app.report.results import ScoredModel
from apmax.errors import UnreachableTargetError
from apmax.metrics import OperatingPoint, average_precision, operating_point
from apmax.validation import Floats

Counts = NDArray[np.int64]

TARGET_PRECISIONS = (0.5, 0.8, 0.9, 0.95)
MAX_POINTS = 400
"""Points of a curve; more look the same and make the page heavy."""
RESAMPLES, LEVEL, MAX_BINS = 200, 0.95, 2000


@dataclass(frozen=True, eq=False)
class Alerts:
    """Counts of rows with score ≥ threshold, thresholds ascending."""

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
            found[target] = operating_point(result.y, result.scores, precision=target)
        except UnreachableTargetError:
            found[target] = None
    return found


def count_alerts(
    result: ScoredModel, keep: tuple[float, ...] = (), most: int = MAX_POINTS
) -> Alerts:
    """Count alerts at every distinct score, thinned to about `most` thresholds and `keep`."""
    ascending, positives = np.sort(result.scores), np.sort(result.scores[result.y])
    thresholds = np.unique(ascending)
    true = positives.size - np.searchsorted(positives, thresholds)
    total = ascending.size - np.searchsorted(ascending, thresholds)
    chosen = _spread(total, np.searchsorted(thresholds, keep), most)
    return Alerts(
        thresholds[chosen],
        [_round_down(threshold) for threshold in thresholds[chosen]],
        true[chosen],
        total[chosen],
        positives.size,
        ascending.size,
    )


def _round_down(threshold: float) -> str:
    """Format a threshold with seven digits, so that it does not exclude its own row."""
    exact = Decimal(repr(float(threshold) + 0.0))  # the sum turns -0.0 into 0.0
    return f"{float(Context(prec=7, rounding=ROUND_FLOOR).plus(exact)):.7g}"


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
    scores of positives. These counts are multinomial and are drawn directly. Beyond `MAX_BINS`
    positives, neighbouring scores share a bin.
    """
    edges = np.unique(result.scores[result.y])
    if edges.size > MAX_BINS:
        edges = edges[np.linspace(0, edges.size - 1, MAX_BINS).round().astype(np.int64)]
    bins = [-np.inf, *edges, np.inf]
    positives, negatives = (
        np.histogram(result.scores[of], bins)[0] for of in (result.y, ~result.y)
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
    ap = average_precision(result.y, result.scores)
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


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean probability and share of positives, with Wilson's 95 % interval, per bin."""

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    rows: Counts
    positives: Counts


def reliability(result: ScoredModel, bins: int = 10) -> Reliability:
    """Bin the rows by quantiles of their probability; ties share a bin."""
    import pandas as pd
    from scipy.stats import binomtest

    p = result.probabilities
    edges = np.unique(np.quantile(p, np.linspace(0, 1, bins + 1)[1:-1]))
    frame = pd.DataFrame({"predicted": p, "observed": result.y, "positives": result.y, "rows": 1})
    table = frame.groupby(np.searchsorted(edges, p, side="right")).agg(
        {"predicted": "mean", "observed": "mean", "positives": "sum", "rows": "sum"}
    )
    counts = table[["positives", "rows"]].itertuples(index=False)
    intervals = [binomtest(k, n).proportion_ci(method="wilson") for k, n in counts]
    low, high = np.array(intervals).T
    columns = {name: table[name].to_numpy() for name in table}
    return Reliability(low=low, high=high, **columns)
