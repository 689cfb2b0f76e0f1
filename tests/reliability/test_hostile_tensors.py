"""Losses, the sampler and optimizers × tensors: finite and near doubles, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from apmax.errors import ApmaxError
from apmax.torch import (
    ADAP,
    MOAP,
    SOAP,
    APLoss,
    ExactAPLoss,
    PositiveNegativeBatchSampler,
    SmoothAPLoss,
)
from tests.reliability.kinds import SAME, N, S, Y

LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "APLoss": lambda s: APLoss(Y)(s, torch.arange(N)),
    "APLoss, moving average": lambda s: APLoss(Y, tracker="moving_average")(s, torch.arange(N)),
    "APLoss, hinge": lambda s: APLoss(Y, surrogate="squared_hinge")(s, torch.arange(N)),
    "SmoothAPLoss": lambda s: SmoothAPLoss()(s, torch.tensor(Y)),
    "ExactAPLoss": lambda s: ExactAPLoss()(s, torch.tensor(Y)),
}
P = torch.tensor(S).sigmoid()
TENSORS: dict[str, torch.Tensor] = {
    "not contiguous": P.repeat_interleave(2)[::2],
    "float32": P.float(),
    "float16": P.half(),
    "bfloat16": P.bfloat16(),
    "all tied": torch.full((N,), 0.5),
    "perfectly separated": torch.tensor(Y).double(),
    "σ(±700)": torch.where(torch.tensor(Y), 700.0, -700.0).sigmoid(),
    "subnormals": P * 1e-310,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", TENSORS)
def test_losses_of_every_kind_of_scores_are_finite_and_near_those_of_doubles(
    loss: str, given: str
) -> None:
    scores = TENSORS[given].clone().requires_grad_()
    before = scores.detach().clone()
    value = LOSSES[loss](scores)
    value.backward()
    assert scores.grad is not None
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()
    torch.testing.assert_close(scores.detach(), before, rtol=0, atol=0)
    wide = LOSSES[loss](TENSORS[given].double())
    assert value.item() == pytest.approx(wide.item(), abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=["NaN", "inf", "-inf"])
def test_losses_refuse_scores_that_are_not_finite(loss: str, bad: float) -> None:
    scores = P.clone()
    scores[5] = bad
    with pytest.raises(ApmaxError):
        LOSSES[loss](scores)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_refuse_what_are_no_floats_of_one_batch(loss: str) -> None:
    for bad in (torch.arange(N), torch.zeros(N, 2, 2), P[:-1], P + 0j, [0.5] * N):
        with pytest.raises(ApmaxError):
            LOSSES[loss](bad)


@pytest.mark.parametrize("given", SAME)
def test_the_sampler_reads_labels_of_every_kind(given: str) -> None:
    y, _ = SAME[given]()
    found = list(PositiveNegativeBatchSampler(y, batch_size=10))
    assert found == list(PositiveNegativeBatchSampler(Y, batch_size=10))


@pytest.mark.parametrize("optimizer", [SOAP, MOAP, ADAP], ids=["SOAP", "MOAP", "ADAP"])
@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-30, 1e18], ids=str)
def test_steps_along_extreme_gradients_are_finite(optimizer: Any, size: float) -> None:
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    steps = optimizer([w], lr=1e-3)
    for _ in range(5):
        w.grad = torch.tensor([size, -size, 0.0], dtype=torch.float64)
        steps.step()
    assert torch.isfinite(w).all()
    assert w[2] == 0
