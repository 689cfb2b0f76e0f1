"""A weighted sample of the training data on which hyperparameters are chosen.

Positives are rare and informative, negatives are many and alike. All positives and some
negatives, weighted to stand for the others, give nearly the same objective at a fraction of the
cost.
"""

from __future__ import annotations

import numpy as np

from apmax.linear.base import TrainingSet
from apmax.validation import Floats

MOST_POSITIVES = 20_000
NEGATIVES_PER_POSITIVE = 5
LEAST_NEGATIVES = 20_000


def thinned(data: TrainingSet, seed: int) -> TrainingSet:
    """Return a random sample of the rows; every sum over a class keeps its expectation.

    A class that is small enough is kept as it is. The seed makes samples of different folds
    independent, so that the mean of their models rests on more rows than one of them.
    """
    positives, negatives = np.flatnonzero(data.positive), np.flatnonzero(~data.positive)
    plus = min(positives.size, MOST_POSITIVES)
    minus = min(negatives.size, max(NEGATIVES_PER_POSITIVE * plus, LEAST_NEGATIVES))
    if plus == positives.size and minus == negatives.size:
        return data
    weight = np.ones(data.positive.size) if data.weight is None else data.weight
    rng = np.random.default_rng(seed)
    kept = np.zeros(data.positive.size, dtype=bool)
    of_kept = np.zeros(data.positive.size)
    for rows, size in ((positives, plus), (negatives, minus)):
        chosen = rows if size == rows.size else rng.choice(rows, size, replace=False)
        kept[chosen] = True
        of_kept[chosen] = weight[chosen] * (weight[rows].sum() / weight[chosen].sum())
    rows = np.flatnonzero(kept)
    sample: Floats = of_kept[rows]
    return data._replace(X=data.X[rows], positive=data.positive[rows], weight=sample)
