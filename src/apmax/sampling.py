"""Weighted samples of rows, for work that does not need all of them.

Positives are rare and informative, negatives are many and alike. All positives and some negatives,
weighted to stand for the others, give nearly the same objective at a fraction of the cost. Each
class keeps its total weight, so probabilities stay calibrated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apmax.validation import Floats, Mask

Sample = tuple[NDArray[np.intp], Floats]
"""Numbers of rows in ascending order, and their weights."""
MOST_POSITIVE = 0.5
"""Largest share of positives in a sample of given size."""
MOST_POSITIVES, LEAST_NEGATIVES = 20_000, 20_000
"""Rows of a sample on which hyperparameters are chosen."""
NEGATIVES_PER_POSITIVE, SHARE_OF_NEGATIVES = 5, 1 / 8
"""Such a sample has more negatives if positives or negatives are many: the few negatives with
high scores, which determine AP, must be in it."""


def sample_rows(positive: Mask, weight: Floats | None, count: int, seed: int) -> Sample:
    """Return `count` random rows with as many positives as possible, at most half."""
    plus = min(int(positive.sum()), max(1, int(MOST_POSITIVE * count)))
    return _sample(positive, weight, plus, count - plus, seed)


def sample_for_search(positive: Mask, weight: Floats | None, seed: int) -> Sample | None:
    """Return the sample on which hyperparameters are chosen; None if all rows are few enough."""
    of_plus = int(positive.sum())
    of_minus = positive.size - of_plus
    plus = min(of_plus, MOST_POSITIVES)
    wanted = NEGATIVES_PER_POSITIVE * plus, LEAST_NEGATIVES, int(SHARE_OF_NEGATIVES * of_minus)
    minus = min(of_minus, max(wanted))
    if plus == of_plus and minus == of_minus:
        return None
    return _sample(positive, weight, plus, minus, seed)


def _sample(positive: Mask, weight: Floats | None, plus: int, minus: int, seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    given = np.ones(positive.size) if weight is None else weight
    of_sample = np.zeros(positive.size)
    for of_class, size in ((positive, plus), (~positive, minus)):
        members = np.flatnonzero(of_class & (given > 0))
        chosen = members if size >= members.size else rng.choice(members, size, replace=False)
        of_sample[chosen] = given[chosen] * (given[members].sum() / given[chosen].sum())
    rows = np.flatnonzero(of_sample)
    return rows, of_sample[rows]
