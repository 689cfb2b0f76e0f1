"""APLoss in other precisions, compiled, and out of a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from apmax.torch import APLoss
from tests.torch.nine_positives import GOOD, POSITIVE, SCORES, N, batch, both_ways, saved


def test_state_follows_to_and_double_but_never_below_single_precision() -> None:
    loss = APLoss(POSITIVE)
    assert loss.U.dtype == torch.float32
    assert loss.double().U.dtype == torch.float64
    for half in (torch.bfloat16, torch.float16):
        loss.to(half)
        assert loss.U.dtype == torch.float64
        assert APLoss(POSITIVE).to(half).U.dtype == torch.float32
    assert loss.float().U.dtype == torch.float32
    assert loss.written_at.dtype == loss.lows.dtype == torch.float64
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


def test_float32_agrees_with_float64() -> None:
    single, double = APLoss(POSITIVE), APLoss(POSITIVE).double()
    rng = np.random.default_rng(9)
    for _ in range(50):
        index = batch(rng)
        value = single(SCORES[index].float(), index)
        expected = double(SCORES[index], index)
        assert value.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_a_compiled_step_gives_the_same_numbers(which: int) -> None:
    model = torch.nn.Linear(4, 1).double()
    x = torch.randn(N, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    losses = both_ways(POSITIVE)[which], both_ways(POSITIVE)[which]

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
    for name, tensor in first.state_dict().items():
        torch.testing.assert_close(
            second.state_dict()[name], tensor, rtol=0, atol=0, equal_nan=True
        )


@pytest.mark.parametrize(
    "labels", [POSITIVE[::-1].copy(), np.append(POSITIVE, [False] * 50)], ids=["places", "n"]
)
def test_a_checkpoint_of_other_data_is_refused(labels: Any) -> None:
    state = saved(APLoss(POSITIVE))
    other = APLoss(labels)
    before = saved(other)
    with pytest.raises(RuntimeError, match="other labels"):
        other.load_state_dict(state)
    for name, tensor in saved(other).items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "options", [{"surrogate": "squared_hinge"}, {"gamma": 10.0}], ids=["surrogate", "gamma"]
)
def test_a_checkpoint_of_another_surrogate_is_refused(options: Any) -> None:
    first, other = APLoss(POSITIVE), APLoss(POSITIVE, **options)
    first(SCORES[GOOD], GOOD)
    before = saved(other)
    with pytest.raises(RuntimeError, match="tracked with surrogate='logistic', gamma=20, but"):
        other.load_state_dict(saved(first))
    for name, tensor in saved(other).items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    APLoss(POSITIVE).half().load_state_dict(saved(first))


@pytest.mark.parametrize("forged", [torch.zeros(3), torch.tensor([7, 0]), torch.tensor(1)], ids=str)
def test_a_checkpoint_of_no_known_surrogate_is_refused(forged: Any) -> None:
    state = saved(APLoss(POSITIVE)) | {"tracked_with": forged}
    with pytest.raises(RuntimeError, match="tracked with an unknown surrogate, but"):
        APLoss(POSITIVE).load_state_dict(state)
