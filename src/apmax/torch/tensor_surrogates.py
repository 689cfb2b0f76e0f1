"""Surrogates ℓ of :mod:`apmax.objective.surrogates` on tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.objective.surrogates import LOGISTIC, SQUARED_HINGE, Surrogate

PairTerms = Callable[[Tensor, float], tuple[Tensor, Tensor]]
"""(x, γ) → ℓ(x), ℓ′(x), in new tensors of the shape of x."""


def squared_hinge_terms(x: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """max(0, x + γ)² and 2 max(0, x + γ)."""
    reach = (x + gamma).relu_()
    return reach.square(), reach.mul_(2.0)


def logistic_terms(x: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """σ(γx) and γ σ(γx) σ(−γx)."""
    scaled = x * gamma
    value = torch.sigmoid(scaled)
    return value, torch.sigmoid(-scaled).mul_(value).mul_(gamma)


BUILT_IN: dict[Surrogate, PairTerms] = {
    SQUARED_HINGE: squared_hinge_terms,
    LOGISTIC: logistic_terms,
}


def pair_terms(surrogate: Surrogate) -> PairTerms:
    """Return ℓ and ℓ′ on tensors; a surrogate without a tensor version runs in NumPy."""
    return BUILT_IN.get(surrogate) or partial(_numpy_terms, surrogate)


def _numpy_terms(surrogate: Surrogate, x: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """ℓ and ℓ′ by NumPy in double precision; x is copied to host memory and back."""
    flat = x.detach().cpu().double().numpy().ravel()
    value, slope = (
        torch.tensor(np.asarray(function(flat, gamma))).to(x).view_as(x)
        for function in (surrogate.value, surrogate.slope)
    )
    return value, slope


def pair_losses(x: Tensor, terms: PairTerms, gamma: float) -> Tensor:
    """Return ℓ(x) with its gradient."""
    losses: Tensor = _PairLosses.apply(x, terms, gamma)  # type: ignore[no-untyped-call]
    return losses


class _PairLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, terms: PairTerms, gamma: float) -> Tensor:
        value, slope = terms(x, gamma)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outside: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * outside, None, None
