"""Platt scaling from histograms of the margins."""

from __future__ import annotations

import numpy as np

from apmax.linear.curve import weighted_quantiles
from apmax.linear.platt import FENCE, Calibration, calibrate
from apmax.scale.blocks import Engine
from apmax.scale.sums import Scaling, add, extremes, histogram
from apmax.validation import Floats, Mask

BINS = 1 << 15
"""Bins per class. Bins are represented by their mean, so errors are quadratic in their width."""
ZOOMS = 5
"""Most histograms; each covers half of the one before, or less."""


def calibrate_blocks(engine: Engine, scaling: Scaling, w: Floats, total: float) -> Calibration:
    """Fit slope and offset of the log-odds as :func:`apmax.linear.platt.calibrate` does.

    Margins within the fences are binned finely; a histogram over all margins comes first, and more
    if outliers make its bins too wide.
    """
    low, high = engine.fold(extremes, np.maximum, scaling, w) * (-1.0, 1.0)
    for _ in range(ZOOMS):
        count, sums = engine.fold(histogram, add, scaling, w, float(low), float(high), BINS)
        there = count > 0
        margins = (sums[there] / count[there]).astype(np.float64)
        positive = np.broadcast_to([[False], [True]], count.shape)[there]
        weight = count[there]
        window = _window(margins, positive, weight, (high - low) / BINS)
        if window[1] - window[0] > (high - low) / 2:
            break
        low, high = max(low, window[0]), min(high, window[1])
    return calibrate(margins, positive, weight, total)


def _window(margins: Floats, positive: Mask, weight: Floats, width: float) -> tuple[float, float]:
    """Return a range that certainly includes the fences of both classes."""
    quartiles = [
        weighted_quantiles(margins[rows], weight[rows], (0.25, 0.75))
        for rows in (positive, ~positive)
    ]
    first, last = np.transpose(quartiles)
    reach = FENCE * float(np.max(last - first) + 2 * width) + width
    return float(first.min() - reach), float(last.max() + reach)
