"""Reliability: of the examples given a probability of p, how many are positive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apmax.app.report.results import Scored
from apmax.validation import Floats


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of about as many examples each, by rising probability."""

    predicted: Floats
    """The mean probability in a bin."""
    observed: Floats
    """The share of positives in a bin."""
    low: Floats
    high: Floats
    """Wilson's 95 % interval of the share."""
    examples: NDArray[np.int64]
    positives: NDArray[np.int64]


def reliability(result: Scored, bins: int = 10) -> Reliability:
    """Mean probability against share of positives, in quantile bins; ties share a bin."""
    p = result.probabilities
    edges = np.unique(np.quantile(p, np.linspace(0, 1, bins + 1)[1:-1]))
    where = np.searchsorted(edges, p, side="right")
    examples = np.bincount(where, minlength=edges.size + 1)
    there = examples > 0
    positives = np.bincount(where, result.y, minlength=edges.size + 1)[there].astype(np.int64)
    sums = np.bincount(where, p, minlength=edges.size + 1)[there]
    examples = examples[there]
    low, high = _wilson(positives, examples)
    return Reliability(
        predicted=sums / examples,
        observed=positives / examples,
        low=low,
        high=high,
        examples=examples,
        positives=positives,
    )


def _wilson(hits: NDArray[np.int64], of: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Wilson's score interval: inside [0, 1] and not empty where no positive was seen."""
    z = 1.959964
    share = hits / of
    centre = (share + z**2 / (2 * of)) / (1 + z**2 / of)
    half = z * np.sqrt(share * (1 - share) / of + z**2 / (4 * of**2)) / (1 + z**2 / of)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
