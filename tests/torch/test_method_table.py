"""Custom surrogates and all switches run in apmax.torch; see also tests/test_extension.py."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from apmax.methods import Direction, Method, Schedule, Tracker
from apmax.objective.surrogates import SURROGATES, Surrogate
from apmax.torch import APLoss, from_table
from tests.oracle.equations import objective, objective_gradient
from tests.torch.nine_positives import GOOD, POSITIVE, SCORES, N, batch, saved

CUBED = Surrogate(
    "cubed_hinge",
    lambda x, gamma: np.maximum(x + gamma, 0.0) ** 3,
    lambda x, gamma: 3.0 * np.maximum(x + gamma, 0.0) ** 2,
)


def test_a_custom_surrogate_runs_with_several_labels() -> None:
    y = np.stack([POSITIVE, POSITIVE[::-1]], axis=1)
    s = torch.stack([SCORES, SCORES.flip(0)], dim=1).requires_grad_()
    loss = APLoss(y, surrogate=CUBED, gamma=0.2).double()
    value = loss(s, torch.arange(N))
    value.backward()
    exact = SCORES.numpy(), POSITIVE, CUBED, 0.2
    assert value.item() == pytest.approx(objective(*exact), rel=1e-12)
    assert s.grad is not None
    expected = objective_gradient(*exact) / 2
    np.testing.assert_allclose(s.grad[:, 0].numpy(), expected, rtol=1e-9, atol=1e-15)


def test_a_checkpoint_names_a_custom_surrogate() -> None:
    state = saved(APLoss(POSITIVE, surrogate=CUBED, gamma=0.2))
    APLoss(POSITIVE, surrogate=CUBED, gamma=0.2).load_state_dict(state)
    other = replace(CUBED, name="other")
    for options in ({}, {"surrogate": CUBED}, {"surrogate": other, "gamma": 0.2}):
        words = r"'surrogate': 'cubed_hinge', 'gamma': 0\.2}, but"
        with pytest.warns(UserWarning, match="U"), pytest.raises(RuntimeError, match=words):
            APLoss(POSITIVE, **options).load_state_dict(state)


SWITCHES = list(product([False, True], repeat=3))


@pytest.mark.parametrize(("remembers", "decays", "projected"), SWITCHES)
def test_every_combination_of_switches_runs(remembers: bool, decays: bool, projected: bool) -> None:
    """For directions see test_optim.py."""
    tracker, direction = Tracker("any", remembers, decays), Direction("any", False, "running")
    method = Method("any", "Any", tracker, direction, Schedule("any", 0.3), projected=projected)
    w = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    X = torch.randn(N, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    loss, optimizer = from_table(method, POSITIVE, [w], lr=0.1)
    rng = np.random.default_rng(0)
    for _ in range(4):
        index = batch(rng)
        optimizer.zero_grad()
        loss(torch.sigmoid(X[index] @ w), index).backward()
        optimizer.step()
    assert w.isfinite().all()
    assert w.any()


def test_projection_is_a_switch() -> None:
    """A row that starts at 0 leaves Ω unless it is projected."""
    options: Any = {"first_visit": "zero", "beta0": 1e-6, "schedule": "constant"}
    inside, free = (APLoss(POSITIVE, projected=p, **options).double() for p in (True, False))
    for loss in (inside, free):
        loss(SCORES[GOOD], GOOD)
    floor = SURROGATES["logistic"].lower_bound(20.0) / N
    assert (inside.tracked()[:, 1] >= floor).all()
    assert (free.tracked()[:, 1] < floor).all()
