"""What the ranks of a process group see of each other: one batch, the same on all of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def world_size() -> int:
    """How many processes train together; 1 without a process group."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size()


def gather_rows(rows: Tensor, *, sizes: list[int] | None = None) -> Tensor:
    """The rows of all ranks, in the order of the ranks; lengths may differ.

    The gradient that comes back is this rank's part, times the number of ranks: DDP divides
    the sum over the ranks by their number, so the weights move as in one process that has the
    whole batch.
    """
    gathered: Tensor = _GatherRows.apply(rows, sizes or gather_sizes(rows))  # type: ignore[no-untyped-call]
    return gathered


def gather_sizes(rows: Tensor) -> list[int]:
    """How many rows each rank has."""
    own = torch.tensor([rows.shape[0]], device=rows.device)
    sizes = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, own)
    return [int(size) for size in sizes]


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.start = sum(sizes[: dist.get_rank()])
        ctx.own = rows.shape[0]
        largest = max(sizes)
        padded = rows.contiguous()
        if rows.shape[0] < largest:  # every rank must send as much
            rest = rows.new_zeros((largest - rows.shape[0], *rows.shape[1:]))
            padded = torch.cat([padded, rest])
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own = gradient[ctx.start : ctx.start + ctx.own]
        return own * dist.get_world_size(), None
