"""f, ∇f and the box Ω."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax.objective import reference
from apmax.objective.outer import Box, outer_gradient, outer_value
from apmax.objective.surrogates import resolve

reals = st.floats(-1e6, 1e6)


def test_outer_is_minus_the_ratio() -> None:
    np.testing.assert_allclose(outer_value(np.array([[1.0, 4.0], [3.0, 4.0]])), [-0.25, -0.75])


def test_outer_gradient_is_the_derivative() -> None:
    u = np.array([[0.3, 0.7], [1.0, 1.0], [0.0, 2.0]])
    step = 1e-6
    for k in range(2):
        move = step * np.eye(2)[k]
        numeric = (outer_value(u + move) - outer_value(u - move)) / (2 * step)
        np.testing.assert_allclose(outer_gradient(u)[:, k], numeric, atol=1e-8)


BOX = Box(top1=0.5, bottom2=0.01, top2=2.0)


@given(reals, reals)
def test_every_projection_lands_in_the_box(u1: float, u2: float) -> None:
    projected = BOX.project(np.array([[u1, u2]]))
    assert BOX.contains(projected)
    assert 0 <= projected[0, 0] <= 0.5
    assert 0.01 <= projected[0, 1] <= 2.0


@given(reals, reals, st.floats(0, 0.5), st.floats(0.01, 2.0))
def test_the_projection_is_the_nearest_point(u1: float, u2: float, v1: float, v2: float) -> None:
    u = np.array([u1, u2])
    here = np.linalg.norm(BOX.project(u[None])[0] - u)
    assert here <= np.linalg.norm(np.array([v1, v2]) - u) * (1 + 1e-12)


@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 20.0])
def test_every_g_of_scores_in_0_1_lies_in_the_box(name: str, gamma: float) -> None:
    rng = np.random.default_rng(0)
    surrogate = resolve(name)
    for _ in range(20):
        scores = np.concatenate([[0.0, 1.0], rng.random(18)])
        positive = rng.random(20) < 0.4
        positive[rng.integers(20)] = True
        g = reference.inner_values(scores, positive, surrogate, gamma)
        box = Box.of(surrogate, gamma, m=int(positive.sum()), n=20)
        np.testing.assert_allclose(box.project(g), g, rtol=1e-14)


def test_the_box_is_that_of_the_paper_divided_by_n() -> None:
    box = Box.of(resolve("squared_hinge"), 0.5, m=3, n=10)
    assert box.top1 == pytest.approx(1.5**2 * 3 / 10)
    assert box.bottom2 == pytest.approx(0.5**2 / 10)
    assert box.top2 == pytest.approx(1.5**2)
