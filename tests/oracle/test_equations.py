"""The oracle against numbers worked out by hand and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from apmax.objective.surrogates import resolve
from tests.oracle import equations

HINGE, LOGISTIC = resolve("squared_hinge"), resolve("logistic")
SCORES = np.array([0.9, 0.8, 0.4])
POSITIVE = np.array([True, False, True])


def test_average_precision_by_hand() -> None:
    assert equations.average_precision(SCORES, POSITIVE) == pytest.approx((1 + 2 / 3) / 2)


def test_ties_count_as_ranked_higher() -> None:
    scores, positive = np.array([0.5, 0.5, 0.5]), np.array([True, False, False])
    assert equations.average_precision(scores, positive) == pytest.approx(1 / 3)


def test_inner_values_by_hand() -> None:
    # Row of 0.9, γ = 0.2: itself 0.2², from 0.8 (0.1)², from 0.4 nothing.
    # Row of 0.4: from 0.9 (0.7)², itself 0.2², from 0.8 (0.6)².
    g = equations.inner_values(SCORES, POSITIVE, HINGE, 0.2)
    expected = np.array([[0.04, 0.04 + 0.01], [0.49 + 0.04, 0.49 + 0.04 + 0.36]]) / 3
    np.testing.assert_allclose(g, expected, rtol=1e-12)


def test_objective_by_hand() -> None:
    expected = -(0.04 / 0.05 + 0.53 / 0.89) / 2
    assert equations.objective(SCORES, POSITIVE, HINGE, 0.2) == pytest.approx(expected)


def test_a_steep_logistic_is_average_precision() -> None:
    rng = np.random.default_rng(0)
    scores, positive = rng.permutation(50) / 10, rng.random(50) < 0.3
    # A pair of a positive with itself counts ℓ(0) = ½ where AP counts 1: doubling them shows it.
    value = -equations.objective(scores, positive, LOGISTIC, 1e4)
    by_hand = []
    for i in np.flatnonzero(positive):
        above = scores > scores[i]
        by_hand.append((above[positive].sum() + 0.5) / (above.sum() + 0.5))
    assert value == pytest.approx(np.mean(by_hand), abs=1e-12)


@pytest.mark.parametrize("surrogate", [HINGE, LOGISTIC], ids=lambda s: s.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_by_finite_differences(surrogate, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    scores, positive = rng.random(12), np.arange(12) % 3 == 0
    weight = rng.integers(0, 3, 12) + 0.5 if weighted else None
    gradient = equations.objective_gradient(scores, positive, surrogate, 0.7, weight)
    step = 1e-6
    for j in range(12):
        move = step * (np.arange(12) == j)
        up = equations.objective(scores + move, positive, surrogate, 0.7, weight)
        down = equations.objective(scores - move, positive, surrogate, 0.7, weight)
        assert gradient[j] == pytest.approx((up - down) / (2 * step), abs=1e-8)
