"""Paired differences in test AP between methods, with standard errors."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.metrics import average_precision
from apmax.validation import Floats, Mask
from experiments.deep.presets import CONTINUED, TITLES

CLAIMS = (("adap", "soap"), ("adap", "smoothap"), ("adap", "moap"), ("adap-logistic", "adap"))
"""Comparisons of methods for AP; those with cross-entropy come first."""
RESAMPLES = 200


def resampled_aps(y: Mask, scores: NDArray[Any], resamples: int = RESAMPLES) -> Floats:
    """AP on bootstrap samples, the same in every call; each class keeps its size."""
    rng = np.random.default_rng(0)
    counts = np.empty((resamples, y.size))
    for members in (y, ~y):
        size = members.sum()
        counts[:, members] = rng.multinomial(size, np.full(size, 1.0 / size), resamples)
    return np.array([average_precision(y, scores, sample_weight=count) for count in counts])


def paired_differences(
    test_aps: Mapping[str, Mapping[int, float]], resampled: Mapping[str, Mapping[int, Floats]]
) -> list[dict[str, Any]]:
    """Compare methods seed by seed; both mappings are method → seed → test AP.

    The error of one seed is that of its test images, by the paired bootstrap. The error of the
    mean is that over seeds, and None for a single seed: it has that of the split and the
    training besides.
    """
    found = []
    for method, baseline in _pairs(test_aps):
        seeds = sorted(test_aps[method].keys() & test_aps[baseline].keys())
        if not seeds:
            continue
        gains = [test_aps[method][seed] - test_aps[baseline][seed] for seed in seeds]
        drawn = [resampled[method][seed] - resampled[baseline][seed] for seed in seeds]
        error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else None
        found.append(
            {
                "method": method,
                "baseline": baseline,
                "seeds": seeds,
                "differences": gains,
                "errors": [float(np.std(one, ddof=1)) for one in drawn],
                "mean": float(np.mean(gains)),
                "error": error,
            }
        )
    return found


def _pairs(methods: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    every = [*((method, CONTINUED) for method in TITLES if method != CONTINUED), *CLAIMS]
    return (pair for pair in every if pair[0] in methods and pair[1] in methods)
