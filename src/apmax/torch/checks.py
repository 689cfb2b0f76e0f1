"""Checks of tensors that are shared by the losses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from apmax.errors import NonFiniteError, NotNumericError, ParameterError, ShapeError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)
ONE_COLUMN = "write scores.squeeze(-1) for one output, and scores[:, 1] - scores[:, 0] for two"
"""Advice for scores of a wrong shape."""


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
    if not isinstance(index, Tensor) or index.dtype not in INTEGERS:
        kind = index.dtype if isinstance(index, Tensor) else type(index).__name__
        advice = (
            "are these labels? The order is loss(scores, index, labels)"
            if isinstance(index, Tensor)
            else "write torch.as_tensor(index)"
        )
        raise NotNumericError(
            f"`index` must be a tensor of integers, the positions of the batch in the data set, "
            f"got {kind}: {advice}"
        )
    if index.ndim != 1 or len(index) != size:
        raise ShapeError(
            f"`index` must have shape ({size},), got {tuple(index.shape)}: one position per example"
        )
    if index.device != device:
        raise ParameterError(
            f"`index` is on {index.device} and the batch on {device}: index.to({str(device)!r})"
        )
    return index if index.dtype == torch.int64 else index.long()


def check_batch_labels(labels: Any, scores: Tensor) -> Tensor:
    """Return the labels of a batch as a tensor of the shape and on the device of the scores."""
    try:
        truth = labels if isinstance(labels, Tensor) else torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):
        raise NotNumericError(
            f"`labels` of the batch must be numbers or bool, got {type(labels).__name__}: write "
            "labels == positive_class"
        ) from None
    if scores.ndim == 1 and truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.shape != scores.shape:
        raise ShapeError(
            f"`labels` of the batch must have the shape of `scores`, {tuple(scores.shape)}, got "
            f"{tuple(truth.shape)}"
        )
    return truth.to(scores.device)


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
            "PositiveNegativeBatchSampler instead of WeightedRandomSampler or DistributedSampler"
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
