"""How many alerts, and how many of them true, at the thresholds worth a place on the page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from apmax.app.report.results import Scored
from apmax.errors import UnreachableTargetError
from apmax.metrics import OperatingPoint, operating_point
from apmax.validation import Floats, Mask

Counts = NDArray[np.int64]

WISHES = (0.5, 0.8, 0.9, 0.95)
"""Precisions that people ask for."""

MOST_POINTS = 400
"""A curve of more points looks no different and makes the page heavy."""


@dataclass(frozen=True, eq=False)
class Alerts:
    """Counts of the examples with score ≥ threshold, thresholds ascending."""

    thresholds: Floats
    shown: list[str]
    """Each threshold in the fewest digits that alert on the same examples."""
    true: Counts
    all: Counts
    positives: int
    examples: int

    @property
    def precision(self) -> Floats:
        """The share of alerts that are true."""
        return np.asarray(self.true / self.all, dtype=np.float64)

    @property
    def recall(self) -> Floats:
        """The share of positives that raise an alert."""
        return np.asarray(self.true / self.positives, dtype=np.float64)

    def index_of(self, threshold: float) -> int:
        """Where a threshold stands; it must be one of them."""
        return int(np.searchsorted(self.thresholds, threshold))


def operating_points(result: Scored) -> dict[float, OperatingPoint | None]:
    """The best threshold for each wished precision, or None where it is out of reach."""
    found: dict[float, OperatingPoint | None] = {}
    for wish in WISHES:
        try:
            found[wish] = operating_point(result.y, result.scores, precision=wish)
        except UnreachableTargetError:
            found[wish] = None
    return found


def count_alerts(result: Scored, keep: tuple[float, ...] = (), most: int = MOST_POINTS) -> Alerts:
    """Counts at every distinct score, thinned to about `most`; those in `keep` always stay."""
    ascending = np.sort(result.scores)
    thresholds = ascending[_starts(ascending)]
    positives = np.sort(result.scores[result.y])
    true = positives.size - np.searchsorted(positives, thresholds)
    total = ascending.size - np.searchsorted(ascending, thresholds)
    chosen = _spread(true, total, np.searchsorted(thresholds, keep), most)
    below = np.concatenate([[-math.inf], thresholds])[chosen]
    return Alerts(
        thresholds=thresholds[chosen],
        shown=[shorten(t, b) for t, b in zip(thresholds[chosen], below, strict=True)],
        true=true[chosen],
        all=total[chosen],
        positives=positives.size,
        examples=ascending.size,
    )


def shorten(threshold: float, below: float) -> str:
    """The threshold rounded down as far as it stays above the next lower score.

    A reader who copies it then alerts on exactly the same examples.
    """
    exact = Decimal(repr(float(threshold) + 0.0))  # the sum turns -0.0 into 0.0
    for digits in range(3, 18):
        rounded = Context(prec=digits, rounding=ROUND_FLOOR).plus(exact)
        if below < float(rounded) <= threshold:
            plain = exact == 0 or 1e-4 <= abs(exact) < 1e15
            return f"{rounded:f}" if plain else f"{float(rounded):.{digits}g}"
    return repr(float(threshold))


def _starts(ascending: Floats) -> Mask:
    return np.concatenate([[True], ascending[1:] != ascending[:-1]])


def _spread(true: Counts, total: Counts, keep: Counts, most: int) -> Counts:
    """Positions of thresholds, half of them even in recall and half even in log alerts.

    Recall alone would leave the right end of the slider, with the fewest alerts, too coarse
    to use; alerts alone would leave gaps in the curve.
    """
    if true.size <= most:
        return np.arange(true.size)
    half = (most - keep.size - 2) // 2
    # Counts fall as thresholds rise; searchsorted wants them to rise.
    recalls = np.linspace(0, true[0], half + 1)[1:]
    alerts = np.geomspace(total[-1], total[0], half)
    by_recall = np.searchsorted(-true, -recalls, side="right") - 1
    by_alerts = np.searchsorted(-total, -alerts, side="right") - 1
    ends = np.array([0, true.size - 1])
    return np.unique(np.concatenate([ends, keep, by_recall, by_alerts]))
