"""What the ranks of a process group see of each other: one batch, the same on all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.errors import ApmaxError, ParameterError, RankError

REFUSED = -1
"""What a rank sends in place of its size if it cannot take part."""


def world_size(group: Any = None) -> int:
    """How many processes train together; 1 without a process group, or with ``group=False``."""
    if group is False or not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size(group)


def gather_checked(
    check: Callable[[], tuple[Tensor, ...]], device: torch.device, group: Any = None
) -> tuple[Tensor, ...]:
    """What `check` returns on every rank, joined row by row in the order of the ranks.

    If it raises on one rank it fails on all: the others would wait for it in vain. Lengths may
    differ, but are the same for all tensors of a rank.
    """
    if world_size(group) == 1:
        return check()
    try:
        tensors = check()
    except ApmaxError:
        _gather_sizes(REFUSED, device, group)
        raise
    sizes = _gather_sizes(tensors[0].shape[0], device, group)
    if REFUSED in sizes:
        raise ParameterError(
            f"rank {sizes.index(REFUSED)} refused its part of the batch, nothing has changed: its "
            "own error says why"
        )
    return tuple(_gather_rows(tensor, sizes, group) for tensor in tensors)


def _gather_sizes(own: int, device: torch.device, group: Any) -> list[int]:
    mine = torch.tensor([own], device=device)
    sizes = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    _all_gather(sizes, mine, group)
    return [int(size) for size in sizes]


def _all_gather(parts: list[Tensor], own: Tensor, group: Any) -> None:
    try:
        dist.all_gather(parts, own, group=group)
    except RuntimeError as error:
        if not _is_of_a_connection(error):
            raise
        raise RankError(
            f"rank {dist.get_rank(group)} waited for the parts of {len(parts) - 1} other rank(s) "
            f"and one did not answer ({' '.join(str(error).split())[:200]}): look there for what "
            "it hangs in or died of; the time to wait is `timeout` of init_process_group"
        ) from error


def _is_of_a_connection(error: RuntimeError) -> bool:
    """Whether a rank did not answer: gloo says so in words only."""
    told = str(error).lower()
    words = ("timed out", "timeout", "connection", "peer", "socket")
    return isinstance(error, dist.DistError) or any(word in told for word in words)


def _gather_rows(rows: Tensor, sizes: list[int], group: Any) -> Tensor:
    gathered: Tensor = _GatherRows.apply(rows, sizes, group)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRows(torch.autograd.Function):
    """Backward, this rank's part of the gradient, times the number of ranks.

    DDP divides the sum over the ranks by their number, so the weights move as in one process
    that has the whole batch.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], group: Any) -> Tensor:
        ctx.start = sum(sizes[: dist.get_rank(group)])
        ctx.own, ctx.ranks = rows.shape[0], len(sizes)
        largest = max(sizes)
        padded = rows.contiguous()
        if rows.shape[0] < largest:  # every rank must send as much
            rest = rows.new_zeros((largest - rows.shape[0], *rows.shape[1:]))
            padded = torch.cat([padded, rest])
        parts = [torch.empty_like(padded) for _ in sizes]
        _all_gather(parts, padded, group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        own = gradient[ctx.start : ctx.start + ctx.own]
        return own * ctx.ranks, None, None
