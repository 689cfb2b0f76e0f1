"""Labelled scores of every awkward shape, for tests that compare with an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from apmax.validation import Floats, Mask


class Case(NamedTuple):
    name: str
    scores: Floats
    positive: Mask
    weight: Floats | None = None


def awkward_cases(seed: int = 0, n: int = 400) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    rare = rng.random(n) < 0.05
    rare[0] = True
    half = rng.random(n) < 0.5
    half[0] = True
    one = np.arange(n) == n // 2
    yield Case("random", scores, rare)
    yield Case("balanced", scores, half)
    yield Case("tied", np.round(scores, 1), half)
    yield Case("constant", np.full(n, 0.25), rare)
    yield Case("sorted", np.sort(scores), half)
    yield Case("reversed", np.sort(scores)[::-1].copy(), half)
    yield Case("shifted", scores + 1e6, half)
    yield Case("huge range", rng.standard_cauchy(n) * 1e3, half)
    yield Case("huge range, shifted", rng.standard_cauchy(n) * 1e3 - 1e6, rare)
    yield Case("tiny range", scores * 1e-9, half)
    yield Case("perfectly ranked", np.where(half, 1.0, -1.0) + 0.1 * scores, half)
    yield Case("perfectly wrong", np.where(half, -1.0, 1.0) + 0.1 * scores, half)
    yield Case("one positive", scores, one)
    yield Case("one positive, on top", np.where(one, 9.0, scores), one)
    yield Case("one positive, at the bottom", np.where(one, -9.0, scores), one)
    yield Case("no negatives", scores, np.ones(n, dtype=bool))
    yield Case("one example", scores[:1], np.ones(1, dtype=bool))
    yield Case("two examples", scores[:2], np.array([True, False]))
    yield Case("weights", scores, half, rng.uniform(0.1, 3, n))
    yield Case("weights with zeros", scores, half, (np.arange(n) % 3).astype(float) + (half & one))
    yield Case("weights, tied", np.round(scores, 1), rare, rng.uniform(0.1, 3, n) * 1e300)


CASES = [*awkward_cases()]
CASE_NAMES = [case.name for case in CASES]


@st.composite
def labelled_scores(
    draw: st.DrawFn, max_size: int = 40, distinct: bool = False
) -> tuple[Floats, Mask]:
    """Scores on a grid of 1/8, so that shifts are exact and ties are common."""
    eighths = st.integers(-40, 40)
    values = draw(st.lists(eighths, min_size=1, max_size=max_size, unique=distinct))
    positive = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    positive[draw(st.integers(0, len(values) - 1))] = True
    return np.array(values) / 8, np.array(positive)
