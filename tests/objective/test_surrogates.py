"""ℓ, ℓ′ and their bounds, as Assumption 1 wants them."""

from __future__ import annotations

import numpy as np
import pytest

from apmax import surrogate_ap
from apmax.objective.surrogates import SURROGATES, Surrogate, register, resolve

GAMMAS = (1e-3, 0.1, 1.0, 20.0, 1e3)
NAMES = ("squared_hinge", "logistic")


def test_the_papers_two_surrogates_are_known() -> None:
    assert tuple(SURROGATES) == NAMES


@pytest.mark.parametrize("gamma", GAMMAS)
def test_squared_hinge_is_its_formula(gamma: float) -> None:
    x = np.linspace(-3, 3, 61)
    expected = [max(0.0, float(v) + gamma) ** 2 for v in x]
    np.testing.assert_allclose(resolve("squared_hinge").value(x, gamma), expected, rtol=1e-15)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_logistic_is_exp_over_one_plus_exp_and_not_log(gamma: float) -> None:
    x = np.linspace(-0.6, 0.6, 61)
    grown = np.exp(np.longdouble(gamma) * x)
    expected = (grown / (1 + grown)).astype(float)
    np.testing.assert_allclose(resolve("logistic").value(x, gamma), expected, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_slope_is_the_derivative(name: str, gamma: float) -> None:
    surrogate = resolve(name)
    step = np.longdouble(1e-6) / max(1, gamma)
    x = np.linspace(-1, 1, 38, dtype=np.longdouble)  # no point at the kink x = −γ
    numeric = (surrogate.value(x + step, gamma) - surrogate.value(x - step, gamma)) / (2 * step)
    np.testing.assert_allclose(surrogate.slope(x, gamma), numeric, rtol=1e-6, atol=1e-6 * gamma)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_values_of_scores_in_0_1_lie_between_their_bounds(name: str, gamma: float) -> None:
    surrogate = resolve(name)
    lower, upper = surrogate.lower_bound(gamma), surrogate.upper_bound(gamma)
    values = surrogate.value(np.linspace(-1, 1, 201), gamma)
    assert surrogate.value(np.zeros(1), gamma)[0] == lower > 0
    assert (np.diff(values) >= 0).all()
    assert values.min() >= 0
    assert values.max() == upper


def test_bounds_of_scores_without_limit() -> None:
    assert resolve("logistic").upper_bound(3.0, spread=np.inf) == 1.0
    assert resolve("squared_hinge").upper_bound(3.0, spread=np.inf) == np.inf


@pytest.mark.parametrize("gamma", GAMMAS)
def test_logistic_neither_overflows_nor_vanishes_early(gamma: float) -> None:
    x = np.array([-700.0, -30.0, 0.0, 30.0, 700.0]) / gamma
    value = resolve("logistic").value(x, gamma)
    np.testing.assert_allclose(value[:2], np.exp(gamma * x[:2]), rtol=1e-12)
    np.testing.assert_allclose(value[3:], 1.0, rtol=1e-12)


def test_a_registered_surrogate_serves_by_name() -> None:
    cubed = Surrogate(
        "cubed_hinge",
        lambda x, gamma: np.maximum(x + gamma, 0) ** 3,
        lambda x, gamma: 3 * np.maximum(x + gamma, 0) ** 2,
    )
    register(cubed)
    try:
        scores, y = np.array([0.9, 0.8, 0.4, 0.35]), [1, 0, 1, 0]
        result = surrogate_ap(scores, y, surrogate="cubed_hinge", gamma=0.2)
        given = surrogate_ap(scores, y, surrogate=cubed, gamma=0.2)
        assert result.value == given.value
        step = 1e-6
        for j in range(4):
            moved = scores + step * (np.arange(4) == j)
            slope = (surrogate_ap(moved, y, surrogate=cubed, gamma=0.2).value - result.value) / step
            assert result.gradient[j] == pytest.approx(slope, abs=1e-4)
    finally:
        del SURROGATES["cubed_hinge"]
