"""One batch from the parts of all ranks of a process group."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from apmax.errors import ParameterError, RankError

REFUSED = -1
"""Sent by a rank in place of its size if its part raised an error."""
MOST_TENSORS = 3
DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
"""Types by the number that ranks exchange."""


def world_size(group: Any = None) -> int:
    """Return the number of processes; 1 without a process group, or with ``group=False``."""
    if group is False or not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size(group)


def gather_checked(
    check: Callable[[], tuple[Tensor, ...]], module: nn.Module, group: Any = None
) -> tuple[Tensor, ...]:
    """Return the tensors of `check` from all ranks, concatenated in the order of the ranks.

    An error on one rank is raised on all ranks, which would otherwise wait forever. Lengths may
    differ between ranks, but not between the tensors of a rank; types and columns may not. All are
    on the device of `module`.
    """
    if world_size(group) == 1:
        return check()
    device = next(chain(module.parameters(), module.buffers())).device
    try:
        tensors = check()
        own = [tensors[0].shape[0], *_layout(tensors)]
    except Exception:  # of any kind: the others wait
        _gather_numbers([REFUSED, *_layout(())], device, group)
        raise
    parts = _gather_numbers(own, device, group)
    sizes, layouts = [part[0] for part in parts], [part[1:] for part in parts]
    if REFUSED in sizes:
        raise ParameterError(
            f"rank {sizes.index(REFUSED)} raised an error for its part of the batch; the state is "
            "unchanged: see the error of that rank"
        )
    for rank, layout in enumerate(layouts):
        if layout != layouts[0]:
            raise ParameterError(
                f"rank {rank} has {_described(layout)} and rank 0 {_described(layouts[0])}; the "
                "state is unchanged: use the same types, columns and arguments on all ranks"
            )
    return tuple(_gather_rows(tensor, sizes, group) for tensor in tensors)


def _layout(tensors: tuple[Tensor, ...]) -> list[int]:
    """Return type and columns of each tensor, 0 for one without columns; -1 for no tensor."""
    numbers = []
    for tensor in tensors:
        numbers += [DTYPES.index(tensor.dtype), tensor.shape[1] if tensor.ndim > 1 else 0]
    return numbers + [-1] * (2 * MOST_TENSORS - len(numbers))


def _described(layout: list[int]) -> str:
    pairs = zip(layout[::2], layout[1::2], strict=True)
    return ", ".join(
        f"{DTYPES[kind]} of shape ({f'B, {columns}' if columns else 'B'})"
        for kind, columns in pairs
        if kind >= 0
    )


def _gather_numbers(own: list[int], device: torch.device, group: Any) -> list[list[int]]:
    mine = torch.tensor(own, device=device)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    _all_gather(parts, mine, group)
    found: list[list[int]] = torch.stack(parts).tolist()
    return found


def _all_gather(parts: list[Tensor], own: Tensor, group: Any) -> None:
    try:
        dist.all_gather(parts, own, group=group)
    except RuntimeError as error:
        if not _is_connection_error(error):
            raise
        raise RankError(
            f"rank {dist.get_rank(group)} waited for {len(parts) - 1} other rank(s), and one did "
            f"not answer ({' '.join(str(error).split())[:200]}): check the log of the other ranks; "
            "`timeout` of init_process_group sets the time to wait"
        ) from error


def _is_connection_error(error: RuntimeError) -> bool:
    """Whether a rank did not answer. For gloo only the message tells."""
    message = str(error).lower()
    words = ("timed out", "timeout", "connection", "peer", "socket")
    return isinstance(error, dist.DistError) or any(word in message for word in words)


def _gather_rows(rows: Tensor, sizes: list[int], group: Any) -> Tensor:
    gathered: Tensor = _GatherRows.apply(rows, sizes, group)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRows(torch.autograd.Function):
    """Concatenate forward; backward, return this rank's gradient times the number of ranks.

    DDP averages gradients over the ranks, so the update equals that of one process with the
    whole batch.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], group: Any) -> Tensor:
        ctx.start = sum(sizes[: dist.get_rank(group)])
        ctx.own, ctx.ranks = rows.shape[0], len(sizes)
        largest = max(sizes)
        padded = rows.contiguous()
        if rows.shape[0] < largest:  # all ranks must send the same size
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
