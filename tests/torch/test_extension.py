"""What users register runs in apmax.torch, or one error names the back end and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from apmax import methods
from apmax.errors import BackendError
from apmax.methods import DIRECTIONS, METHODS, SCHEDULES, Direction, Method, Schedule, Tracker
from apmax.objective import surrogates
from apmax.objective.surrogates import SURROGATES, Surrogate
from apmax.torch import APLoss, from_table
from tests.oracle.equations import objective, objective_gradient
from tests.torch.nine_positives import GOOD, POSITIVE, SCORES, N, batch, saved

CUBED = Surrogate(
    "cubed_hinge",
    lambda x, gamma: np.maximum(x + gamma, 0.0) ** 3,
    lambda x, gamma: 3.0 * np.maximum(x + gamma, 0.0) ** 2,
)


@pytest.fixture
def registered() -> Iterator[Method]:
    """A surrogate and a method of a user, known by their names."""
    surrogates.register(CUBED)
    base = METHODS["adap-adam"]
    yield methods.register(replace(base, name="cubed-adap", surrogate="cubed_hinge"))
    del METHODS["cubed-adap"], SURROGATES["cubed_hinge"]


@pytest.mark.parametrize("labels", [1, 2])
def test_a_registered_surrogate_runs_in_ap_loss(registered: Method, labels: int) -> None:
    y = np.stack([POSITIVE, POSITIVE[::-1]], axis=1)[:, :labels]
    s = torch.stack([SCORES, SCORES.flip(0)], dim=1)[:, :labels].clone().requires_grad_()
    loss = APLoss(y, surrogate="cubed_hinge", gamma=0.2).double()
    value = loss(s, torch.arange(N))
    value.backward()
    exact = SCORES.numpy(), POSITIVE, CUBED, 0.2
    assert value.item() == pytest.approx(objective(*exact), rel=1e-12)
    assert s.grad is not None
    expected = objective_gradient(*exact) / labels
    np.testing.assert_allclose(s.grad[:, 0].numpy(), expected, rtol=1e-9, atol=1e-15)


def test_a_surrogate_need_not_be_registered() -> None:
    loss = APLoss(POSITIVE, surrogate=CUBED, spread=None)
    assert loss(SCORES[GOOD].float(), GOOD) < 0
    assert (loss.surrogate, loss.gamma) == ("cubed_hinge", 1.0)


def test_a_registered_method_trains(registered: Method) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 1)
    X = torch.randn(N, 5)
    X[:9, 0] += 2.0
    loss, optimizer = from_table("cubed-adap", POSITIVE, model.parameters(), lr=0.1, gamma=0.3)
    values = []
    for _ in range(40):
        optimizer.zero_grad()
        value = loss(torch.sigmoid(model(X))[:, 0], torch.arange(N))
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0] - 0.1


def test_a_checkpoint_names_a_custom_surrogate(registered: Method) -> None:
    state = saved(APLoss(POSITIVE, surrogate="cubed_hinge", gamma=0.2))
    APLoss(POSITIVE, surrogate=CUBED, gamma=0.2).load_state_dict(state)
    other = replace(CUBED, name="other")
    for options in ({}, {"surrogate": CUBED}, {"surrogate": other, "gamma": 0.2}):
        with pytest.raises(RuntimeError, match=r"surrogate='cubed_hinge', gamma=0\.2, but"):
            APLoss(POSITIVE, **options).load_state_dict(state)


@pytest.mark.parametrize(("surrogate", "number"), [("squared_hinge", 0), ("logistic", 1)])
def test_checkpoint_tags_of_the_built_in_surrogates_do_not_change(surrogate: str, number: int):
    loss = APLoss(POSITIVE, surrogate=surrogate, gamma=0.5)
    assert loss.tracked_with.tolist() == [number, 0x3FE0000000000000]


EITHER = [False, True]
ANY_TRACKER = [Tracker("any", *switches) for switches in product(EITHER, EITHER)]
ANY_DIRECTION = [
    Direction("any", *switches)
    for switches in product(EITHER, ["none", "moving", "running"], ["none", "largest", "clipped"])
]


@pytest.mark.parametrize("tracker", ANY_TRACKER, ids=str)
@pytest.mark.parametrize("direction", ANY_DIRECTION, ids=str)
@pytest.mark.parametrize("projected", EITHER)
def test_every_combination_of_switches_runs(
    tracker: Tracker, direction: Direction, projected: bool
) -> None:
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
    del DIRECTIONS["any"], SCHEDULES["any"]
    assert w.isfinite().all()
    assert w.any()


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        ("smoothap", r"apmax\.torch\.APLoss .* use SmoothAPLoss"),
        (replace(METHODS["sox"], tracker="msvr"), r"apmax\.torch\.APLoss .* use CompositionalLoss"),
        (replace(METHODS["sox"], schedule="linear"), r"apmax\.torch .*lr_scheduler\.LinearLR"),
    ],
    ids=["pairs", "tracker", "schedule"],
)
def test_a_method_that_torch_cannot_run_is_one_error(method: Any, missing: str) -> None:
    with pytest.raises(BackendError, match=missing):
        from_table(method, POSITIVE, [torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def test_projection_is_a_switch() -> None:
    """A row that starts at 0 leaves Ω unless it is projected."""
    options: Any = {"first_visit": "zero", "beta0": 1e-6, "schedule": "constant"}
    inside, free = (APLoss(POSITIVE, projected=p, **options).double() for p in (True, False))
    for loss in (inside, free):
        loss(SCORES[GOOD], GOOD)
    floor = SURROGATES["logistic"].lower_bound(20.0) / N
    assert (inside.tracked()[:, 1] >= floor).all()
    assert (free.tracked()[:, 1] < floor).all()
