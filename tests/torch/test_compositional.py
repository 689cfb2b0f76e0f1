"""The engine: its value, its gradient, its memory, and two problems that are not AP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax.errors import ApmaxError, NonFiniteError, NotNumericError, ParameterError, ShapeError
from apmax.methods import TRACKERS, Tracker, add_exactly
from apmax.torch import CompositionalLoss
from tests.torch.nine_positives import assert_same_state, saved


def ratio(u: Any) -> Any:
    return -u[:, 0] / u[:, 1]


def test_value_and_gradient_are_those_of_the_definition() -> None:
    w = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
    A = torch.randn(4, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def outer(u: Any) -> Any:
        return (u[:, 0] * u[:, 1]).exp() + u[:, 2] ** 2

    loss = CompositionalLoss(outer, 10, 3, beta0=0.25).double()
    rows = torch.tensor([7, 2, 9, 0])
    old = torch.randn(4, 3, dtype=torch.float64)
    loss(old, rows)
    inner = torch.tanh(A @ w)
    value = loss(inner, rows)
    value.backward()
    U = (0.75 * old + 0.25 * inner).detach().requires_grad_()
    (pulls,) = torch.autograd.grad(outer(U).mean(), U)
    at = w.detach().clone().requires_grad_()
    (pulls * torch.tanh(A @ at)).sum().backward()
    assert value.item() == pytest.approx(outer(U).mean().item(), rel=1e-12)
    torch.testing.assert_close(w.grad, at.grad)


LOW, HIGH = np.array([0.0, 0.01]), np.array([0.3, 2.0])


def eager_update(
    u: Any, seen: Any, phi: Any, rows: Any, g: Any, tracker: Tracker, beta0: float
) -> None:
    """The table of apmax.methods, row by row: every row of U is written in every round."""
    phi *= 1 - beta0
    scale = u.shape[0] / rows.size if tracker.decays else 1.0
    updated = np.clip((1 - beta0) * u[rows] + beta0 * scale * g, LOW, HIGH)
    first = ~seen[rows][:, None] | (not tracker.remembers)
    if tracker.normalised:
        updated = np.clip(phi[rows] * u[rows] + (1 - phi[rows]) * g, LOW, HIGH)
        phi[rows] = 1.0
    elif tracker.decays:
        u[seen] = np.clip((1 - beta0) * u[seen], LOW, HIGH)
    u[rows] = np.where(first, np.clip(g, LOW, HIGH), updated)
    seen[rows] = True


@pytest.mark.parametrize(
    "name", ["none", "moving_average", "randomized_coordinate", "elapsed_average"]
)
@pytest.mark.parametrize("first_visit", ["estimate", "zero"])
@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
def test_trackers_follow_the_method_table(name: str, first_visit: str, schedule: str) -> None:
    options = {"tracker": name, "first_visit": first_visit, "schedule": schedule, "beta0": 0.6}
    loss = CompositionalLoss(ratio, 20, 2, box=(LOW, HIGH), **options).double()
    u = np.clip(np.zeros((20, 2)), LOW, HIGH)
    seen, phi = np.full(20, first_visit == "zero"), np.ones((20, 1))
    rng = np.random.default_rng(0)
    for t in range(1, 60):
        rows = rng.choice(20, 4, replace=False)
        estimate = rng.random((4, 2))
        beta0 = 0.6 if schedule == "constant" else 0.6 / math.sqrt(t)
        eager_update(u, seen, phi, rows, estimate, TRACKERS[name], beta0)
        value = loss(torch.from_numpy(estimate), torch.from_numpy(rows))
        assert value.item() == pytest.approx(float(ratio(u[rows]).mean()), rel=1e-9)
    kept = u[: loss.U.shape[0]]  # the tracker "none" keeps no rows
    np.testing.assert_allclose(loss.tracked().numpy(), kept, rtol=1e-9)


def test_msvr_follows_its_formula() -> None:
    loss = CompositionalLoss(lambda u: u[:, 0], 8, 1, tracker="msvr", beta0=0.2).double()
    rows = torch.tensor([1, 5])
    first = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    loss(first, rows, previous=first)
    new, old = first + 0.5, first + 0.1
    loss(new, rows, previous=old)
    theta = (8 - 2) / (2 * 0.8) + 0.8
    expected = 0.8 * first + 0.2 * new + theta * (new - old)
    torch.testing.assert_close(loss.tracked(rows), expected)
    with pytest.raises(ParameterError, match="previous"):
        loss(new, rows)


def minimised(objective: Any, size: int) -> Any:
    best = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    exact = torch.optim.LBFGS([best], max_iter=300, tolerance_grad=1e-10)

    def closure() -> Any:
        exact.zero_grad()
        value = objective(best)
        value.backward()
        return value

    exact.step(closure)
    return best.detach()


TRACKED = [("moving_average", 0.1), ("none", 1.0)]


@pytest.mark.parametrize(("tracker", "beta0"), TRACKED)
def test_p_norm_push_reaches_its_optimum_with_a_memory_only(tracker: str, beta0: float) -> None:
    """Rudin (2009): Σ over negatives of (mean over positives of ℓ)^p, two positives at a time."""
    rng = np.random.default_rng(3)
    X = torch.from_numpy(rng.normal(size=(120, 3)))
    X[:30, 0] += 1.0
    X[:8, 1] += 4.0  # some positives are unlike the others: a sample of two says little
    plus, minus = X[:30], X[30:]

    def pushes(w: Any, negatives: Any, positives: Any) -> Any:
        return torch.nn.functional.softplus(negatives @ w - (positives @ w)[:, None]).mean(0)

    def objective(w: Any) -> Any:
        return (pushes(w, minus, plus) ** 4).mean() + 0.02 * w.square().sum()

    best = minimised(objective, 3)
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    loss = CompositionalLoss(lambda u: u[:, 0] ** 4, 90, 1, tracker=tracker, beta0=beta0).double()
    steps = torch.optim.SGD([w], lr=0.1)
    for t in range(1500):
        steps.param_groups[0]["lr"] = 0.2 / (1 + t / 30)
        rows = torch.from_numpy(rng.choice(90, 60, replace=False))
        some = torch.from_numpy(rng.choice(30, 2, replace=False))
        steps.zero_grad()
        inner = pushes(w, minus[rows], plus[some])[:, None]
        (loss(inner, rows) + 0.02 * w.square().sum()).backward()
        steps.step()
    start = objective(torch.zeros_like(best)) - objective(best)
    gap = float((objective(w.detach()) - objective(best)) / start)
    assert (gap > 0.02) if tracker == "none" else (gap < 0.01)


BAD: dict[str, tuple[Any, Any, Any]] = {
    "three columns": (torch.ones(2, 3), torch.tensor([0, 1]), ShapeError),
    "a vector": (torch.ones(2), torch.tensor([0, 1]), ShapeError),
    "integers": (torch.ones(2, 2).long(), torch.tensor([0, 1]), NotNumericError),
    "NaN": (torch.full((2, 2), math.nan), torch.tensor([0, 1]), NonFiniteError),
    "infinity": (torch.full((2, 2), math.inf), torch.tensor([0, 1]), NonFiniteError),
    "row outside": (torch.ones(2, 2), torch.tensor([0, 5]), ParameterError),
    "row twice": (torch.ones(2, 2), torch.tensor([1, 1]), ParameterError),
    "too few rows": (torch.ones(2, 2), torch.tensor([1]), ShapeError),
    "no rows": (torch.ones(0, 2), torch.tensor([], dtype=torch.int64), ShapeError),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_estimates_are_refused_and_change_nothing(name: str) -> None:
    loss = CompositionalLoss(ratio, 5, 2)
    loss(torch.ones(2, 2), torch.tensor([0, 3]))
    before = saved(loss)
    inner, rows, error = BAD[name]
    with pytest.raises(error):
        loss(inner, rows)
    assert_same_state(loss, before)


def test_bad_estimates_before_are_refused_too() -> None:
    loss = CompositionalLoss(lambda u: u[:, 0], 5, 1, tracker="msvr")
    good, rows = torch.ones(2, 1), torch.tensor([0, 1])
    loss(good, rows, previous=good)
    before = saved(loss)
    for bad in (good * math.nan, good[:1], good.long(), None):
        with pytest.raises(ApmaxError):
            loss(good, rows, previous=bad)
    assert_same_state(loss, before)


@pytest.mark.parametrize("box", [(1, 0), (math.nan, 1), (0,), ([0, 0, 0], 1), "ab"])
def test_boxes_without_an_inside_are_refused(box: Any) -> None:
    with pytest.raises(ParameterError, match="box"):
        CompositionalLoss(ratio, 5, 2, box=box)


def test_an_outer_function_may_be_a_module_and_moves_along() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor([3.0]))

        def forward(self, u: Any) -> Any:
            return u[:, 0] * self.factor

    loss = CompositionalLoss(Scaled(), 5, 1).double()
    assert next(loss.parameters()).dtype == torch.float64
    inner = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    loss(inner, torch.tensor([0, 1])).backward()
    assert inner.grad.flatten().tolist() == [1.5, 1.5]
    with pytest.raises(ParameterError, match="function"):
        CompositionalLoss("log", 5, 1)


def test_an_outer_function_that_mixes_rows_up_is_refused_and_changes_nothing() -> None:
    loss = CompositionalLoss(lambda u: u, 5, 2)
    before = saved(loss)
    with pytest.raises(ShapeError, match="one number per row"):
        loss(torch.ones(2, 2), torch.tensor([0, 3]))
    assert_same_state(loss, before)


@pytest.mark.parametrize("beta0", [0.5, 0.9])
def test_a_million_rounds_do_not_wear_out_the_clock(beta0: float) -> None:
    options = {"tracker": "randomized_coordinate", "beta0": beta0}
    loss, fresh = (CompositionalLoss(ratio, 4, 2, **options).double() for _ in range(2))
    high, low = 0.0, 0.0
    for _ in range(1_000_000):
        high, low = add_exactly(high, low, math.log1p(-beta0))
    assert high == pytest.approx(1e6 * math.log1p(-beta0), rel=1e-13)
    loss.log_decay.copy_(torch.tensor([high, low]))
    loss.rounds.fill_(1_000_000)
    for rows in ([0, 1], [1, 2], [0, 3], [2, 3]):
        index = torch.tensor(rows)
        inner = torch.rand(2, 2, dtype=torch.float64) + 0.5
        assert loss(inner, index).item() == pytest.approx(fresh(inner, index).item(), rel=1e-9)
