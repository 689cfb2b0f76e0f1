"""The box Ω contains every g."""

from __future__ import annotations

import numpy as np
import pytest

from apmax.objective.omega import Omega
from apmax.objective.surrogates import resolve
from tests.oracle import equations


@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 20.0])
def test_every_g_of_scores_in_0_1_lies_in_the_box(name: str, gamma: float) -> None:
    rng = np.random.default_rng(0)
    surrogate = resolve(name)
    for _ in range(20):
        scores = np.concatenate([[0.0, 1.0], rng.random(18)])
        positive = rng.random(20) < 0.4
        positive[rng.integers(20)] = True
        g = equations.inner_values(scores, positive, surrogate, gamma)
        omega = Omega.of(surrogate, gamma, m=int(positive.sum()), n=20)
        np.testing.assert_allclose(equations.project(omega, g), g, rtol=1e-14)


def test_the_box_is_that_of_the_paper_divided_by_n() -> None:
    omega = Omega.of(resolve("squared_hinge"), 0.5, m=3, n=10)
    assert omega.top1 == pytest.approx(1.5**2 * 3 / 10)
    assert omega.bottom2 == pytest.approx(0.5**2 / 10)
    assert omega.top2 == pytest.approx(1.5**2)
