"""APLoss in other precisions, compiled, and out of a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from apmax.torch import APLoss
from tests.torch.nine_positives import (
    GOOD,
    POSITIVE,
    SCORES,
    N,
    assert_same_state,
    batch,
    saved,
)


def test_state_follows_to_and_double_but_never_below_single_precision() -> None:
    loss = APLoss(POSITIVE)
    assert loss.U.dtype == torch.float32
    assert loss.double().U.dtype == torch.float64
    for half in (torch.bfloat16, torch.float16):
        loss.to(half)
        assert loss.U.dtype == torch.float64
        assert APLoss(POSITIVE).to(half).U.dtype == torch.float32
    assert loss.float().U.dtype == torch.float32
    assert loss.written_at.dtype == loss.low.dtype == torch.float64
    assert loss.to("meta").labels.cells.device.type == "meta"


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_bfloat16_scores_under_autocast(which: int) -> None:
    loss = APLoss(POSITIVE)
    loss.fused = which == 0
    model = torch.nn.Linear(4, 1)
    index = batch(np.random.default_rng(8))
    x = torch.randn(index.numel(), 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = torch.sigmoid(model(x))[:, 0]
        assert scores.dtype == torch.bfloat16
        value = loss(scores, index)
    value.backward()
    assert value.dtype == torch.float32
    assert model.weight.grad.isfinite().all()
    assert model.weight.grad.any()
    assert loss.U.dtype == torch.float32


def test_torch_compile_gives_the_same_numbers() -> None:
    model = torch.nn.Linear(4, 1).double()
    x = torch.randn(N, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    losses = APLoss(POSITIVE).double(), APLoss(POSITIVE).double()

    def step(loss: APLoss, index: Any) -> Any:
        return loss(torch.sigmoid(model(x[index]))[:, 0], index)

    compiled = torch.compile(step, backend="aot_eager")
    rng = np.random.default_rng(10)
    for _ in range(12):  # more often than torch recompiles before it gives up
        index = batch(rng)
        results = []
        for run, loss in ((step, losses[0]), (compiled, losses[1])):
            model.zero_grad()
            value = run(loss, index)
            value.backward()
            results.append((value.item(), model.weight.grad.clone()))
        assert results[0][0] == results[1][0]
        torch.testing.assert_close(results[0][1], results[1][1])
    torch.testing.assert_close(losses[0].U, losses[1].U)


def test_a_checkpoint_brings_back_the_same_run() -> None:
    first, rng = APLoss(POSITIVE), np.random.default_rng(11)
    for _ in range(10):
        index = batch(rng)
        first(SCORES[index], index)
    second = APLoss(POSITIVE)
    second.load_state_dict(saved(first))
    for _ in range(10):
        index = batch(rng)
        assert first(SCORES[index], index) == second(SCORES[index], index)
    assert_same_state(second, saved(first))


@pytest.mark.parametrize(
    ("labels", "options", "found"),
    [
        (POSITIVE[::-1].copy(), {}, "9 of 300 x 1"),
        (np.append(POSITIVE, [False] * 50), {}, "9 of 350 x 1"),
        (POSITIVE, {"surrogate": "squared_hinge", "gamma": 20.0}, "'surrogate': 'squared_hinge'"),
        (POSITIVE, {"gamma": 10.0}, "'gamma': 10.0"),
    ],
    ids=["places", "n", "surrogate", "gamma"],
)
def test_a_checkpoint_of_another_problem_is_refused(labels: Any, options: Any, found: str) -> None:
    first, other = APLoss(POSITIVE), APLoss(labels, **options)
    first(SCORES[GOOD], GOOD)
    before = saved(other)
    words = f"'gamma': 20.0}}, but this loss has .*{found}"
    with (
        pytest.warns(UserWarning, match="U is not loaded"),
        pytest.raises(RuntimeError, match=words),
    ):
        other.load_state_dict(saved(first))
    assert_same_state(other, before)
    APLoss(POSITIVE).half().load_state_dict(saved(first))


def test_a_model_loads_for_other_data_without_strict() -> None:
    """The model's weights are loaded; U starts empty."""

    class Model(torch.nn.Module):
        def __init__(self, labels: Any) -> None:
            super().__init__()
            self.linear, self.loss = torch.nn.Linear(3, 1), APLoss(labels)

    first, second = Model(POSITIVE), Model(np.append(POSITIVE, [True] * 50))
    first.loss(SCORES[GOOD], GOOD)
    warned = pytest.warns(UserWarning, match="its U is not loaded")
    with warned, pytest.raises(RuntimeError, match="strict=False"):
        second.load_state_dict(saved(first))
    with pytest.warns(UserWarning, match="its U is not loaded"):
        second.load_state_dict(saved(first), strict=False)
    torch.testing.assert_close(second.linear.weight, first.linear.weight)
    assert second.loss.tracked().isnan().all()
    assert int(second.loss.rounds) == 0
