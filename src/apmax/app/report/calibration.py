"""Calibration: whether predicted probabilities match the observed shares of positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from apmax.app.report.results import ScoredModel
from apmax.validation import Floats

Counts = NDArray[np.int64]

MAX_BINS = 10
LEAST_VARIANCE = 5.0
"""Expected variance of the positives in a bin, for which a normal distribution is accurate."""
FEW_POSITIVES = 10
"""With fewer positives there is no verdict; with fewer in a bin, counts replace its factor."""
LEVEL = 0.05
"""Level of the test of calibration."""
CLOSE = 1.1
"""Factor between predicted and observed shares that is called close."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Bins of the probabilities, the test over them, and its result in words."""

    lowest: Floats
    """The smallest probability in each bin."""
    predicted: Floats
    """Mean probability."""
    observed: Floats
    """Share of positives, with Wilson's 95 % interval from `low` to `high`."""
    low: Floats
    high: Floats
    rows: Counts
    positives: Counts
    p_value: float
    calibrated: bool
    """Whether the test does not reject; True if there are too few positives for a verdict."""
    summary: str
    """The result in a few words, for a table."""
    sentence: str


def calibration(result: ScoredModel) -> Calibration:
    """Test whether the probabilities are calibrated.

    Rows are sorted by probability and cut into at most ten bins with the same expected variance
    Σ p(1 − p) of the number of positives, at least 5. Tied rows share a bin. If the probabilities
    are right, Σ (observed − expected)² / variance over K bins has a χ² distribution with K
    degrees of freedom (Hosmer and Lemeshow's statistic for rows that the model was not fitted to).
    With sample weights w, sums have the terms w·y and w·p, and variances w² p(1 − p).
    """
    order = np.argsort(result.probabilities, kind="stable")
    p, y, v = result.probabilities[order], result.y[order], result.mass[order]
    possible = np.clip(p, 0.5 / p.size, 1 - 0.5 / p.size)  # 0 and 1 have no variance
    spread = possible * (1 - possible)
    effective = np.dot(v, spread) ** 2 / np.dot(v**2, spread)  # the variance, for equal weights
    starts = _starts(p, np.cumsum(v**2 * spread), effective)

    def sums(values: Floats) -> Floats:
        return np.add.reduceat(values, starts)

    rows = np.diff(starts, append=p.size)
    positives = np.add.reduceat(y.astype(np.int64), starts)
    expected, found = sums(v * possible), sums(v * y)
    z = (found - expected) / np.sqrt(sums(v**2 * spread))
    p_value = float(chi2.sf(np.sum(z**2), z.size))
    observed = found / sums(v)
    low, high = wilson(observed, sums(v) ** 2 / sums(v**2))
    ends = np.append(starts[1:], p.size) - 1
    ranges = list(zip(p[starts], p[ends], strict=True))
    per_row = rows / sums(v)  # counts of rows, also if negatives weigh more
    calibrated, summary, sentence = _verdict(
        z,
        expected * per_row,
        found * per_row,
        float(expected.sum() / max(found.sum(), 0.5)),
        positives,
        ranges,
        p_value,
    )
    return Calibration(
        p[starts],
        sums(v * p) / sums(v),
        observed,
        low,
        high,
        rows,
        positives,
        p_value,
        calibrated,
        summary,
        sentence,
    )


def wilson(share: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of a share of (effective) rows."""
    z = float(norm.ppf(0.975))
    centre = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
    return np.minimum(centre - half, share), np.maximum(centre + half, share)


def _starts(p: Floats, cumulative: Floats, variance: float) -> Counts:
    """Return the first row of each bin; a cut moves to the nearer end of equal probabilities."""
    bins = int(np.clip(variance // LEAST_VARIANCE, 2, MAX_BINS))
    targets = cumulative[-1] * np.arange(1, bins) / bins
    tied = p[np.minimum(np.searchsorted(cumulative, targets), p.size - 1)]
    first, end = np.searchsorted(p, tied), np.searchsorted(p, tied, side="right")
    below = np.append(0.0, cumulative)
    starts = np.where(targets - below[first] <= below[end] - targets, first, end)
    return np.unique(np.append(0, starts[starts < p.size]))


def _verdict(
    z: Floats,
    expected: Floats,
    found: Floats,
    overall: float,
    positives: Counts,
    ranges: list[tuple[float, float]],
    p_value: float,
) -> tuple[bool, str, str]:
    """Return whether the probabilities are calibrated, in a few words and in a sentence."""
    if positives.sum() < FEW_POSITIVES:
        return True, "–", f"{positives.sum()} positives are too few to judge the calibration."
    test = f"χ² test, p {_shown(p_value)}, level {100 * LEVEL:g} %"
    if p_value >= LEVEL:
        return (
            True,
            "within sampling error",
            f"The probabilities are calibrated within sampling error ({test}).",
        )
    factor = expected / np.maximum(found, 0.5)
    far = np.maximum(factor, 1 / factor) > CLOSE
    if not far.any():
        return (
            False,
            f"within {100 * (CLOSE - 1):.0f} %",
            f"The probabilities are within {100 * (CLOSE - 1):.0f} % of the observed shares. The "
            f"difference is small but significant ({test}).",
        )
    worst = int(np.argmax(np.where(far, np.abs(z), -1.0)))
    low, high = ranges[worst]
    where = f"between {low:.2g} and {high:.2g}"
    if worst in (0, z.size - 1):
        where = f"above {low:.2g}" if worst else f"below {high:.2g}"
    detail = f"{_off(float(factor[worst]))} {where}"
    if min(positives[worst], expected[worst]) < FEW_POSITIVES:
        side = "high" if factor[worst] > 1 else "low"
        count = positives[worst]
        counts = f"{count} positives, {factor[worst] * max(count, 0.5):.3g} expected"
        detail = f"too {side} {where}: {counts}"
    return (
        False,
        detail,
        f"The probabilities are not calibrated: {_off(overall)} overall, and {detail} ({test}).",
    )


def _off(factor: float) -> str:
    """Say how far predicted shares are from observed ones."""
    if 1 / 1.05 < factor < 1.05:
        return "right"
    if factor > 1:
        return f"too high by a factor of {factor:.2g}"
    return f"too low by a factor of {1 / factor:.2g}"


def _shown(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"
