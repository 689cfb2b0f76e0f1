"""Losses: every kind of tensor gives finite values near those of doubles."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from apmax.torch import APLoss, ExactAPLoss, SmoothAPLoss
from tests.reliability.layouts import N, S, Y

LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "APLoss": lambda s: APLoss(Y)(s, torch.arange(N)),
    "APLoss, moving average": lambda s: APLoss(Y, tracker="moving_average")(s, torch.arange(N)),
    "APLoss, hinge": lambda s: APLoss(Y, surrogate="squared_hinge")(s, torch.arange(N)),
    "SmoothAPLoss": lambda s: SmoothAPLoss()(s, torch.tensor(Y)),
    "ExactAPLoss": lambda s: ExactAPLoss()(s, torch.tensor(Y)),
    "ExactAPLoss, hinge": lambda s: ExactAPLoss(surrogate="squared_hinge")(s, torch.tensor(Y)),
}
P = torch.tensor(S).sigmoid()
TENSORS: dict[str, torch.Tensor] = {
    "strided": P.repeat_interleave(2)[::2],
    "float32": P.float(),
    "float16": P.half(),
    "bfloat16": P.bfloat16(),
    "all tied": torch.full((N,), 0.5),
    "perfectly separated": torch.tensor(Y).double(),
    "σ(±700)": torch.where(torch.tensor(Y), 700.0, -700.0).sigmoid(),
    "subnormals": P * 1e-310,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_finite_near_those_of_doubles_and_leave_the_scores_unchanged(loss: str) -> None:
    for name, tensor in TENSORS.items():
        scores = tensor.clone().requires_grad_()
        value = LOSSES[loss](scores)
        value.backward()
        assert scores.grad is not None
        assert torch.isfinite(scores.grad).all(), name
        torch.testing.assert_close(scores.detach(), tensor, rtol=0, atol=0)
        assert value.item() == pytest.approx(LOSSES[loss](tensor.double()).item(), abs=1e-5), name
