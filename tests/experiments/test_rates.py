"""The measured exponents: the fit is right, and the quantity is the theorems'."""

from pathlib import Path

import numpy as np
import pytest

from apmax.objective.surrogates import SQUARED_HINGE
from experiments.linear import rates
from experiments.linear.grid import PENALTY, POSITIVES
from experiments.linear.rates import CLAIMS, fit_exponent
from tests.oracle import equations

LENGTHS = tuple(2**k for k in range(8, 14))


@pytest.mark.parametrize("exponent", [4, 5], ids=["four", "five"])
def test_the_fit_finds_the_exponent_of_a_power_law(exponent: int) -> None:
    rng = np.random.default_rng(1)
    squares = [
        (length ** (-2 / exponent) * rng.lognormal(0, 0.05, 8)).tolist() for length in LENGTHS
    ]
    found, low, high = fit_exponent(LENGTHS, squares)
    assert found == pytest.approx(exponent, rel=0.05)
    assert low < exponent < high
    assert high - low < 1
    assert fit_exponent(LENGTHS, squares[::-1]) == (None, None, None)  # ε rises


def test_the_gradient_is_that_of_what_the_methods_minimise(data_sets: Path) -> None:
    design, y, objective = rates._problem("mushrooms")
    w = np.random.default_rng(0).normal(size=design.parameters) / 5
    w[-1] = 0.0
    value, gradient = objective(w)
    scores = 1 / (1 + np.exp(-design.margins(w)))
    expected = equations.objective(scores, y, SQUARED_HINGE, rates.GAMMA)
    assert value == pytest.approx(expected + PENALTY * w @ w, abs=1e-10)
    step = np.zeros(w.size)
    step[3] = 1e-6
    change = (objective(w + step)[0] - objective(w - step)[0]) / 2e-6
    assert gradient[3] == pytest.approx(change, rel=1e-4)


def test_theorem_one_updates_every_positive_in_every_round(data_sets: Path) -> None:
    design, y, _ = rates._problem("mushrooms")
    run = rates._start(CLAIMS["moap-v1-all"], design, y, 1.0, 0.5, 0)
    drawn = run.draws(3)
    assert drawn.rows.shape == (3, int(y.sum()))
    assert drawn.value_positives.shape == (3, POSITIVES)
    run.advance(2)
    assert np.isfinite(run.w).all()
