"""Losses with the usual tools: accumulated gradients, averaged weights, mixed precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from apmax import average_precision
from apmax.torch import (
    ADAP,
    APLoss,
    MultiLabelBatchSampler,
    NDCGLoss,
    PartialAUCLoss,
    PNormPushLoss,
    PositiveNegativeBatchSampler,
)

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(1200, 6, generator=GENERATOR)
Y = X[:, 0] + 0.4 * torch.randn(1200, generator=GENERATOR) > 1.8


def batches(count: int) -> list[torch.Tensor]:
    sampler = PositiveNegativeBatchSampler(Y, 32, 8)
    found: list[list[int]] = []
    while len(found) < count:
        found.extend(sampler)
    return [torch.tensor(batch) for batch in found[:count]]


def ap(model: nn.Module) -> float:
    with torch.no_grad():
        return average_precision(Y, model(X)[:, 0])


def test_accumulated_gradients_are_the_sum_over_the_batches() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 1)
    together, alone = (APLoss(Y, from_logits=True) for _ in range(2))
    single = []
    for index in batches(4):
        model.zero_grad()
        (alone(model(X[index])[:, 0], index, Y[index]) / 4).backward()
        assert model.weight.grad is not None
        single.append(model.weight.grad.clone())
    model.zero_grad()
    for index in batches(4):
        (together(model(X[index])[:, 0], index, Y[index]) / 4).backward()
    torch.testing.assert_close(model.weight.grad, sum(single))
    torch.testing.assert_close(together.U, alone.U)


def test_training_with_accumulation_learns() -> None:
    torch.manual_seed(0)
    model, loss = nn.Linear(6, 1), APLoss(Y, from_logits=True)
    optimizer, start = torch.optim.Adam(model.parameters(), lr=0.03), ap(model)
    for step, index in enumerate(batches(200), 1):
        (loss(model(X[index])[:, 0], index, Y[index]) / 2).backward()
        if step % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    assert ap(model) > max(0.7, start + 0.2)


def test_averaged_weights_copy_the_state_of_the_loss() -> None:
    """A module that holds the loss is copied by EMA tools: weights are averaged, U is not."""

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.loss = nn.Linear(6, 1), APLoss(Y, from_logits=True)

    torch.manual_seed(0)
    module = Module()
    ema = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.Adam(module.linear.parameters(), lr=0.03)
    for index in batches(100):
        optimizer.zero_grad()
        module.loss(module.linear(X[index])[:, 0], index, Y[index]).backward()
        optimizer.step()
        ema.update_parameters(module)
    assert ap(ema.module.linear) > 0.7
    assert int(ema.module.loss.rounds) == int(module.loss.rounds) == 100
    assert torch.equal(ema.module.loss.U, module.loss.U)
    assert not torch.equal(ema.module.linear.weight, module.linear.weight)


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("scaled", [False, True], ids=["autocast", "autocast and GradScaler"])
def test_mixed_precision_trains_as_well_as_single(from_logits: bool, scaled: bool) -> None:
    found = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        loss = APLoss(Y, from_logits=from_logits)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        for index in batches(150):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                z = model(X[index])[:, 0]
                value = loss(z if from_logits else torch.sigmoid(z), index, Y[index])
            assert value.dtype == torch.float32
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
        assert loss.U.dtype == torch.float32
        found.append(ap(model))
    assert found[1] == pytest.approx(found[0], abs=0.05)
    assert min(found) > 0.7


def saved_parts(parts: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({name: part.state_dict() for name, part in parts.items()})


LABELS = torch.stack([Y, X[:, 1] > 1.9, X[:, 2] > 1.2], dim=1).float()
QUERY = torch.arange(1200) // 40
MAKERS: dict[str, Any] = {
    "APLoss": lambda: (APLoss(Y, from_logits=True), PositiveNegativeBatchSampler(Y, 32, 8), 1),
    "several labels": lambda: (
        APLoss(LABELS, from_logits=True), MultiLabelBatchSampler(LABELS, 48, 3, 4), 3,
    ),
    "partial AUC": lambda: (
        PartialAUCLoss(Y, positives=0.5, from_logits=True),
        PositiveNegativeBatchSampler(Y, 32, 8), 1,
    ),
    "push": lambda: (
        PNormPushLoss(Y, from_logits=True), PositiveNegativeBatchSampler(Y, 32, 8), 1,
    ),
    "NDCG": lambda: (
        NDCGLoss(Y.long(), QUERY, from_logits=True), PositiveNegativeBatchSampler(Y, 64, 16), 1,
    ),
}  # fmt: skip


def parts_of(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    loss, sampler, outputs = MAKERS[name]()
    model = nn.Linear(6, outputs)
    optimizer = ADAP(model.parameters(), lr=0.05)
    return {"model": model, "loss": loss, "optimizer": optimizer, "sampler": sampler}


def train(parts: dict[str, Any], steps: int) -> None:
    done = 0
    while done < steps:
        for batch in parts["sampler"]:
            index = torch.tensor(batch)
            parts["optimizer"].zero_grad()
            z = parts["model"](X[index])
            parts["loss"](z[:, 0] if z.shape[1] == 1 else z, index).backward()
            parts["optimizer"].step()
            done += 1
            if done == steps:
                break


@pytest.mark.parametrize("name", MAKERS)
def test_everything_with_a_state_resumes_bit_identically(name: str) -> None:
    """Stopped in the middle of a pass, and continued in new objects."""
    first = parts_of(name)
    train(first, 7)
    state = saved_parts(first)
    resumed, straight = parts_of(name), parts_of(name)
    for part, value in resumed.items():
        value.load_state_dict(state[part])
    train(resumed, 6)
    train(straight, 13)
    for left, right in zip(
        resumed["model"].parameters(), straight["model"].parameters(), strict=True
    ):
        assert torch.equal(left, right)
    torch.testing.assert_close(
        resumed["loss"].U, straight["loss"].U, rtol=0, atol=0, equal_nan=True
    )
    assert np.isfinite(resumed["model"].weight.detach().numpy()).all()
