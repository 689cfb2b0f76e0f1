"""Checks of tensors that are shared by the losses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from apmax.errors import NonFiniteError, NotNumericError, ParameterError, ShapeError


def check_floating(tensor: Any, name: str) -> None:
    """Check that `tensor` holds floating point numbers."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise NotNumericError(
            f"`{name}` must be a tensor of floating point numbers, got {kind}: pass the model's "
            "output itself"
        )


def check_finite(tensor: Tensor, what: str) -> None:
    """Check that `tensor` holds neither NaN nor infinity; `what` names one element."""
    detached = tensor.detach()
    if not math.isfinite(float(detached.sum())) and not bool(detached.isfinite().all()):
        raise NonFiniteError(
            f"{what} is NaN or infinite; the state is unchanged: check the inputs of this batch, "
            "or lower the learning rate"
        )


def check_index(index: Any, size: int, device: torch.device) -> Tensor:
    """Check one integer per row of the batch, on the same device."""
    if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
        kind = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise NotNumericError(
            f"`index` must be a tensor of integers, got {kind}: the positions of the batch in the "
            "data set, as IndexedDataset yields them"
        )
    if index.shape != (size,):
        raise ShapeError(f"`index` must have shape ({size},), got {tuple(index.shape)}")
    if index.device != device:
        raise ParameterError(
            f"`index` is on {index.device} and the batch on {device}: index.to({str(device)!r})"
        )
    return index.long()


def check_rows(index: Tensor, size: int) -> None:
    """Check that `index` holds distinct numbers from 0 to size − 1."""
    if not index.numel():
        raise ShapeError("`index` is empty: pass at least one row")
    ordered = index.sort().values
    first, last = int(ordered[0]), int(ordered[-1])
    if first < 0 or last >= size:
        raise ParameterError(
            f"`index` holds {first if first < 0 else last}, outside 0 … {size - 1}: pass "
            "positions in the data set whose labels the loss has"
        )
    if index.numel() > 1 and bool((ordered[1:] == ordered[:-1]).any()):
        labels = (
            " (are these labels? The loss takes positions in the data set)" if last <= 1 else ""
        )
        raise ParameterError(
            f"`index` holds a position twice{labels}: draw batches without replacement, with "
            "PositiveNegativeBatchSampler instead of WeightedRandomSampler"
        )


def check_box(box: Any, size: int) -> tuple[Tensor, Tensor]:
    """Return the bounds as (1, `size`) doubles; None is infinite bounds."""
    if box is None:
        box = (-math.inf, math.inf)
    try:
        low, high = (
            torch.as_tensor(edge, dtype=torch.float64).expand(size).clone()[None] for edge in box
        )
    except (TypeError, ValueError, RuntimeError):
        raise ParameterError(
            f"`box` = {box!r} must be (low, high), each a number or {size} numbers"
        ) from None
    if not bool((low <= high).all()):
        raise ParameterError(f"`box` = {box!r} must have low ≤ high: U is projected between them")
    return low, high
