"""Weighted samples of rows, for work that does not need all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.binary_target import BinaryTarget
from apmax.splits import Split
from apmax.validation import Floats, Mask

MOST_POSITIVE = 0.5
"""Largest share of positives among sampled rows."""


def sample_rows(
    positive: Mask, weight: Floats | None, count: int, seed: int
) -> tuple[NDArray[np.intp], Floats]:
    """Return `count` random rows and their weights, with as many positives as possible.

    Positives are at most half of the sample. Each class keeps its total weight, so that fits
    estimate the same objective and probabilities stay calibrated.
    """
    rng = np.random.default_rng(seed)
    given = np.ones(positive.size) if weight is None else weight
    plus = np.flatnonzero(positive & (given > 0))
    minus = np.flatnonzero(~positive & (given > 0))
    of_plus = min(plus.size, max(1, int(MOST_POSITIVE * count)))
    of_minus = min(minus.size, count - of_plus)
    rows, weights = [], []
    for members, size in ((plus, of_plus), (minus, of_minus)):
        chosen = np.sort(rng.choice(members, size, replace=False))
        rows.append(chosen)
        weights.append(given[chosen] * (given[members].sum() / given[chosen].sum()))
    every = np.concatenate(rows)
    order = np.argsort(every)
    return every[order], np.concatenate(weights)[order]


def without_weightless_rows(
    X: Any, target: BinaryTarget, splits: list[Split]
) -> tuple[Any, BinaryTarget, list[Split]]:
    """Leave out rows of weight 0, so that they are no part of counts and quantiles either."""
    if target.weight is None or target.weight.all():
        return X, target, splits
    rows = np.flatnonzero(target.weight)
    kept = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    return kept, target.rows(rows), restricted(splits, rows, target.positive.size)


def restricted(splits: Sequence[Split], rows: NDArray[np.intp], n: int) -> list[Split]:
    """Return splits of `n` rows restricted to some rows, as positions among these."""
    place = np.full(n, -1)
    place[rows] = np.arange(rows.size)
    return [(_kept(place[train]), _kept(place[test])) for train, test in splits]


def _kept(places: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.asarray(places[places >= 0])
