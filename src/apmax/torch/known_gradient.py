"""A value whose gradient has been computed without autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def with_gradient(inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` as a function of `inputs` that has this `gradient`."""
    result: Tensor = _WithGradient.apply(inputs, value, gradient)  # type: ignore[no-untyped-call]
    return result


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.dtype = inputs.dtype
        return value.clone()  # a separate tensor, so that ``loss /= 4`` works

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outside: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * outside).to(ctx.dtype), None, None
