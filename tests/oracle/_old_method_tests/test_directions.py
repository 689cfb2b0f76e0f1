"""Each direction against its equation, written out as the sum it stands for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from apmax.methods import DIRECTIONS, Adaptive
from apmax.methods import SCHEDULES, fade
from apmax.validation import Floats

SIZE, ROUNDS = 4, 25
BETA1, BETA2, DELTA, BOUNDS = 0.3, 0.2, 1e-3, (0.5, 4.0)
GRADIENTS = np.random.default_rng(0).normal(size=(ROUNDS, SIZE)) * [1e-3, 0.1, 1.0, 10.0]


def weighted_past(values: Floats, beta: float) -> Floats:
    """Σ_r β (1−β)^{t−r} x_r: the moving average from zero, as one sum."""
    ages = np.arange(len(values))[::-1]
    return np.asarray((beta * (1 - beta) ** ages) @ values)


def adam(past: Floats) -> Floats:
    return weighted_past(past, BETA2)


def adagrad(past: Floats) -> Floats:
    return np.asarray(past.sum(axis=0) / (len(past) + 1))


def amsgrad(past: Floats) -> Floats:
    return np.max([adam(past[: t + 1]) for t in range(len(past))], axis=0)


def adabound(past: Floats) -> Floats:
    lower, upper = BOUNDS
    return np.clip(adam(past), 1 / upper**2, 1 / lower**2)


SECOND_MOMENTS: dict[str, Callable[[Floats], Floats]] = {
    "adam": adam,
    "adagrad": adagrad,
    "amsgrad": amsgrad,
    "adabound": adabound,
}


def expected(name: str, t: int) -> Floats:
    past = GRADIENTS[:t]
    if name == "plain":
        return past[-1]
    m = weighted_past(past, BETA1)
    if name == "momentum":
        return m
    return np.asarray(m / (np.sqrt(SECOND_MOMENTS[name](past**2)) + DELTA))


@pytest.mark.parametrize("name", DIRECTIONS)
def test_direction_is_its_equation(name: str) -> None:
    direction = DIRECTIONS[name](SIZE, DELTA, BOUNDS)
    for t in range(1, ROUNDS + 1):
        actual = direction.step(GRADIENTS[t - 1], t, BETA1, BETA2)
        np.testing.assert_allclose(actual, expected(name, t), rtol=1e-12)


def test_every_direction_has_an_equation_here() -> None:
    assert set(DIRECTIONS) == {"plain", "momentum", *SECOND_MOMENTS}


def test_adabound_is_clipped_on_both_sides() -> None:
    direction = Adaptive(SIZE, "adabound", bounds=BOUNDS)
    for t, gradient in enumerate(GRADIENTS, start=1):
        direction.step(gradient, t, BETA1, BETA2)
    assert direction.v[0] == 1 / BOUNDS[1] ** 2
    assert direction.v[3] == 1 / BOUNDS[0] ** 2


def test_our_betas_are_one_minus_torchs() -> None:
    """Adam without bias correction, through torch's Adam with its correction undone."""
    w = torch.zeros(SIZE, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.Adam([w], lr=1.0, betas=(1 - BETA1, 1 - BETA2), eps=1e-12)
    ours = Adaptive(SIZE, "adam", delta=1e-12)
    for t, gradient in enumerate(GRADIENTS, start=1):
        before = w.detach().numpy().copy()
        w.grad = torch.from_numpy(gradient)
        theirs.step()
        correction = np.sqrt(1 - (1 - BETA2) ** t) / (1 - (1 - BETA1) ** t)
        step = before - w.detach().numpy()
        np.testing.assert_allclose(
            ours.step(gradient, t, BETA1, BETA2), step / correction, rtol=1e-6
        )


@pytest.mark.parametrize("t", [1, 4, 100])
def test_schedules(t: int) -> None:
    assert SCHEDULES["constant"](0.5, t) == 0.5
    assert SCHEDULES["inverse_sqrt"](0.5, t) == pytest.approx(0.5 / t**0.5)


def test_a_rate_fades_evenly_to_nothing_and_not_below() -> None:
    assert fade(7, None) == 1
    np.testing.assert_allclose(fade(np.array([1, 2, 3, 4, 5, 9]), 4), [1, 0.75, 0.5, 0.25, 0, 0])
