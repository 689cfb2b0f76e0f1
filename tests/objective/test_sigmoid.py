"""The sums of sigmoids keep the error bounds that their docstrings state."""

from __future__ import annotations

import numpy as np
import pytest

from apmax.objective._logistic import NODE_DISTANCE
from apmax.objective._sigmoid import BASIS, SLOPE_TERMS, STENCIL, VALUE_TERMS, sigmoid_sums

DECAY = np.linspace(0, 1, 100_001)


@pytest.mark.parametrize(
    ("terms", "power", "bound"), [(VALUE_TERMS, 1, 1.2e-12), (SLOPE_TERMS, 2, 2.8e-11)]
)
def test_polynomials_in_the_decay_keep_their_relative_error(
    terms: np.ndarray, power: int, bound: float
) -> None:
    exact = 1 / (1 + DECAY.astype(np.longdouble)) ** power
    approximate = np.polynomial.polynomial.polyval(DECAY, terms)
    assert np.abs(approximate / exact - 1).max() < bound


def test_sums_equal_the_sums_over_pairs() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.normal(size=150), 50 + rng.normal(size=50), [1e4] * 3]))
    charge = rng.normal(size=x.size)
    sigmoid = 1 / (1 + np.exp(np.clip(x[:, None] - x[None, :], -700, 700)))
    value, slope = sigmoid_sums(np.exp(-np.diff(x, prepend=x[0])), charge, VALUE_TERMS, SLOPE_TERMS)
    np.testing.assert_allclose(value, sigmoid @ charge, atol=1e-10)
    np.testing.assert_allclose(slope, (sigmoid * (1 - sigmoid)) @ charge, atol=1e-10)


def test_the_stencil_interpolates_the_sigmoid_within_its_bound() -> None:
    nodes = (np.arange(STENCIL) - (STENCIL - 1) / 2) * NODE_DISTANCE
    inside = np.linspace(-0.5, 0.5, 201)
    weights = np.polynomial.polynomial.polyval(inside, BASIS.T)
    worst = 0.0
    for centre in np.linspace(-10, 10, 401):
        exact = 1 / (1 + np.exp(-(centre + inside * NODE_DISTANCE)))
        worst = max(worst, np.abs(weights.T @ (1 / (1 + np.exp(-(centre + nodes)))) - exact).max())
    assert 1e-13 < worst < 3e-10
