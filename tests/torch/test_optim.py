"""The optimizers: the paper's directions, and the manners of torch's own."""

from __future__ import annotations

import copy
import io
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from apmax.errors import BackendError, ParameterError, UnknownNameError
from apmax.methods import Direction, Schedule
from apmax.torch import ADAP, MOAP, SOAP
from apmax.torch.optim import DirectedOptimizer

MOMENTS = ("beta2", "delta")
MAKERS: dict[str, Any] = {
    "plain": lambda p, **k: SOAP(p, style="sgd", **k),
    "momentum": lambda p, **k: MOAP(p, **{key: k[key] for key in k if key not in MOMENTS}),
    "adam": lambda p, **k: ADAP(p, style="adam", **k),
    "adagrad": lambda p, **k: ADAP(p, style="adagrad", **k),
    "amsgrad": lambda p, **k: ADAP(p, style="amsgrad", **k),
    "adabound": lambda p, **k: ADAP(p, style="adabound", **k),
}


def parameters(seed: int = 0) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3,), (2, 4), ()]
    return [
        torch.nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=generator))
        for shape in shapes
    ]


def give_gradients(params: list[Any], step: int) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for p in params:
        p.grad = torch.randn(p.shape, dtype=p.dtype, generator=generator)


def train(optimizer: Any, params: list[Any], first: int, last: int) -> None:
    for step in range(first, last):
        give_gradients(params, step)
        optimizer.step()


def flat(tensors: Any) -> Any:
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])


RATES = {"lr": 0.1, "beta1": 0.3, "beta2": 0.05, "delta": 1e-3}
MOMENT_BOUNDS = list(product(["none", "moving", "running"], ["none", "largest", "clipped"]))


@pytest.mark.parametrize(("moment", "bound"), MOMENT_BOUNDS)
@pytest.mark.parametrize("momentum", [False, True])
def test_every_combination_of_switches_follows_equation_ada(
    momentum: bool, moment: Any, bound: Any
) -> None:
    """Also combinations that no method of the paper has, with a schedule of one's own."""
    direction, power = Direction("own", momentum, moment, bound), 0.25
    params = parameters()
    optimizer = DirectedOptimizer(params, style=direction, schedule=Schedule("x", power), **RATES)
    w = flat(params)
    m, v, largest, total = (np.zeros_like(w) for _ in range(4))
    for t in range(1, 30):
        give_gradients(params, t)
        gradient = flat(p.grad for p in params)
        m = (1 - 0.3 / t**power) * m + 0.3 / t**power * gradient
        v = 0.95 * v + 0.05 * gradient**2
        total = total + gradient**2
        average = total / (t + 1) if moment == "running" else v
        largest = np.maximum(largest, average)
        used = {"none": average, "largest": largest, "clipped": np.clip(average, 1e-6, 100.0)}
        step = m if momentum else gradient
        if moment != "none":
            step = step / (np.sqrt(used[bound]) + 1e-3)
        w = w - 0.1 / t**power * step
        optimizer.step()
        np.testing.assert_allclose(flat(params), w, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_a_checkpoint_brings_back_the_same_run(name: str) -> None:
    straight = parameters()
    train(MAKERS[name](straight, **RATES), straight, 0, 20)
    broken = parameters()
    first = MAKERS[name](broken, **RATES)
    train(first, broken, 0, 11)
    file = io.BytesIO()
    torch.save({"optimizer": first.state_dict(), "params": broken}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = saved["params"]
    second = MAKERS[name](resumed, lr=0.7)
    second.load_state_dict(saved["optimizer"])
    train(second, resumed, 11, 20)
    for p, q in zip(straight, resumed, strict=True):
        assert torch.equal(p, q)


def test_a_checkpoint_of_another_optimizer_is_refused() -> None:
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = ADAP([w], lr=0.5)
    with pytest.raises(ParameterError, match="another optimizer than ADAP"):
        optimizer.load_state_dict(torch.optim.Adam([w]).state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_parameter_groups_have_their_own_options() -> None:
    slow, fast = parameters(1), parameters(1)
    optimizer = ADAP([{"params": slow, "lr": 0.0}, {"params": fast, "style": "adagrad"}], lr=0.1)
    alone = parameters(1)
    reference = ADAP(alone, lr=0.1, style="adagrad")
    before = [p.detach().clone() for p in slow]
    for t in range(5):
        for params in (slow, fast, alone):
            give_gradients(params, t)
        optimizer.step()
        reference.step()
    for p, q, kept, now in zip(fast, alone, before, slow, strict=True):
        assert torch.equal(p, q)
        assert torch.equal(kept, now)


def test_schedulers_of_torch_move_the_learning_rate() -> None:
    params, expected = parameters(), parameters()
    optimizer = SOAP(params, lr=0.1, style="sgd")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for t in range(6):
        give_gradients(params, t)
        give_gradients(expected, t)
        with torch.no_grad():
            for p in expected:
                p.sub_(0.1 * 0.5 ** (t // 2) * p.grad)
        optimizer.step()
        scheduler.step()
    for p, q in zip(params, expected, strict=True):
        torch.testing.assert_close(p, q)


def test_closures_and_missing_gradients() -> None:
    params = parameters()
    optimizer = MOAP(params, lr=0.1)
    before = params[1].detach().clone()

    def closure() -> Any:
        optimizer.zero_grad()
        value = params[0].square().sum()
        value.backward()
        return value

    assert optimizer.step(closure).item() > 0
    assert torch.equal(params[1], before)


def test_penalty_is_part_of_the_gradient_and_weight_decay_is_not() -> None:
    for option in ("penalty", "weight_decay"):
        (p,) = parameters()[:1]
        start = p.detach().clone()
        p.grad = torch.ones_like(p)
        SOAP([p], lr=0.1, style="sgd", **{option: 0.3}).step()
        decay = 2 * 0.3 * start if option == "penalty" else 0.3 * start
        torch.testing.assert_close(p.detach(), start - 0.1 * (1 + decay))


def test_sparse_gradients_are_refused_and_nothing_moves() -> None:
    dense, table = torch.nn.Parameter(torch.ones(2)), torch.nn.Embedding(5, 2, sparse=True)
    optimizer = ADAP([dense, table.weight])
    dense.grad = torch.ones(2)
    table(torch.tensor([1])).sum().backward()
    state = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ParameterError, match="sparse=False"):
        optimizer.step()
    assert dense.tolist() == [1, 1]
    assert optimizer.state_dict() == state


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lr": -1.0}, ParameterError),
        ({"lr": math.nan}, ParameterError),
        ({"beta1": 0.0}, ParameterError),
        ({"beta2": 1.5}, ParameterError),
        ({"delta": 0.0}, ParameterError),
        ({"penalty": -1.0}, ParameterError),
        ({"weight_decay": -1.0}, ParameterError),
        ({"style": "adamm"}, UnknownNameError),
        ({"style": "sgd"}, UnknownNameError),
        ({"schedule": "linear"}, BackendError),
        ({"schedule": "linearr"}, UnknownNameError),
    ],
)
def test_bad_options_are_named(options: Any, error: Any) -> None:
    with pytest.raises(error, match=next(iter(options))):
        ADAP(parameters(), **options)


def test_misspelt_options_are_not_swallowed() -> None:
    with pytest.raises(TypeError, match="beta_1"):
        ADAP(parameters(), beta_1=0.9)
    with pytest.raises(ParameterError, match="weigth_decay"):
        ADAP([{"params": parameters(), "weigth_decay": 0.1}])
    with pytest.raises(ParameterError, match="beta1"):
        ADAP([{"params": parameters(), "beta1": 7.0}])
    with pytest.raises(ParameterError, match="beta1= and beta2="):
        ADAP([{"params": parameters(), "betas": (0.9, 0.999)}])


def test_cyclic_schedules_run_without_cycling_the_momentum() -> None:
    optimizer = ADAP(parameters(), lr=0.1)
    with pytest.raises(ValueError, match="cycle_momentum"):
        torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.1, total_steps=10, cycle_momentum=False
    )
    first = optimizer.param_groups[0]["lr"]
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] > first


def test_groups_may_carry_what_schedulers_and_loggers_put_there() -> None:
    group = {"params": parameters(), "name": "head", "initial_lr": 0.1, "lr_scale": 2.0}
    assert ADAP([group]).param_groups[0]["name"] == "head"


def test_a_copy_goes_on_like_the_original() -> None:
    params = parameters()
    optimizer = ADAP(params, lr=0.1)
    train(optimizer, params, 0, 3)
    twins: Any = copy.deepcopy({"params": params, "optimizer": optimizer})
    twins["optimizer"].add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    train(optimizer, params, 3, 6)
    train(twins["optimizer"], twins["params"], 3, 6)
    for p, q in zip(params, twins["params"], strict=True):
        assert torch.equal(p, q)
