"""Counting thresholds equals np.searchsorted on every distribution, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax._ranks import count_at_most, make_thresholds
from apmax.validation import Floats

finite = st.floats(allow_nan=False, allow_infinity=False)


def assert_counts(thresholds: Floats, scores: Floats, offset: float = 0.0) -> None:
    counts = count_at_most(make_thresholds(thresholds), scores, offset)
    with np.errstate(over="ignore"):
        expected = np.searchsorted(thresholds, scores + offset, side="right")
    np.testing.assert_array_equal(counts, expected)


@given(st.lists(finite, min_size=1, max_size=60), st.lists(finite, max_size=60), finite)
def test_any_thresholds_and_scores(t: list[float], s: list[float], offset: float) -> None:
    thresholds = np.sort(np.array(t))
    assert_counts(thresholds, np.array(s + t, dtype=float))
    assert_counts(thresholds, np.array(s + t, dtype=float), offset)


RNG = np.random.default_rng(0)
SPREADS = {
    "even": np.linspace(0, 1, 999),
    "normal": RNG.normal(size=2000),
    "heavy tails": RNG.standard_cauchy(2000) ** 3,
    "two far clusters": np.concatenate([RNG.random(500), 1e12 + RNG.random(500)]),
    "doubling": 2.0 ** np.arange(-1000, 1000),
    "all equal": np.full(700, 0.3),
    "neighbours": 1.0 + np.arange(300) * np.finfo(float).eps,
    "subnormal": np.arange(100) * 5e-324,
    "the whole range": np.array([-1.7e308, 0.0, 1.7e308]),
    "one": np.array([0.5]),
    "constant at the lowest double": np.full(3, -1.7e308),
}


@pytest.mark.parametrize("name", SPREADS)
def test_awkward_spreads(name: str) -> None:
    thresholds = np.sort(SPREADS[name])
    with np.errstate(over="ignore"):
        near = [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)]
    scores = np.concatenate([*near, RNG.normal(size=1500), [-1.7e308, 1.7e308]])
    assert_counts(thresholds, scores[np.isfinite(scores)])
