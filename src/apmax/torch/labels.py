"""Training labels of any kind, stored as the sorted positions of the positives."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from apmax.errors import LabelError, NoPositiveError, ShapeError
from apmax.validation import check_labels

WHAT_INDEX_IS = (
    "`index` must hold positions in the labels that the loss was created with; for a Subset use "
    "IndexedDataset(subset) and the labels of subset.indices"
)


class LabelTable(nn.Module):
    """L labels of n examples; memory is used only by positives and by missing labels.

    A cell is ``label · n + example``. Positive cells are sorted, and the position of a cell among
    them is its row of U. Missing cells take one bit each. `positives` and `known` hold m and n
    of every label: the number of its positives, and of the examples that have the label. If a
    table of one label is `inverted`, its cells are those of the negatives.
    """

    cells: Tensor
    missing: Tensor
    positives: Tensor
    known: Tensor

    def __init__(self, labels: Any, inverted: bool = False) -> None:
        super().__init__()
        positive, missing = _read(labels)
        self.inverted = inverted
        if inverted:
            positive = ~positive
        self.examples, self.num_labels = positive.shape[0], positive.shape[1]
        transposed = positive.T.reshape(-1) if self.num_labels > 1 else positive[:, 0]
        cells = torch.from_numpy(np.flatnonzero(transposed))
        self.register_buffer("cells", cells, persistent=False)
        bits = np.empty(0, np.uint8)
        if missing is not None:
            bits = np.packbits(missing.T.reshape(-1), bitorder="little")
        self.register_buffer("missing", torch.from_numpy(bits), persistent=False)
        positives = np.count_nonzero(positive, axis=0)
        known = np.full(self.num_labels, self.examples)
        known -= 0 if missing is None else missing.sum(axis=0)
        self.register_buffer("positives", torch.from_numpy(positives), persistent=False)
        self.register_buffer("known", torch.from_numpy(known), persistent=False)

    def fingerprint(self) -> str:
        """Return a text that identifies the labels in a checkpoint."""
        content = torch.cat([self.known, self.cells]).cpu().numpy().tobytes()
        count, digest = self.cells.numel(), hashlib.sha256(content).hexdigest()
        return f"{count} of {self.examples} x {self.num_labels}, sha256 {digest[:16]}"

    def lookup(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows of U (valid for positives) and masks of positives and negatives, (L, B)."""
        wanted = index[None, :]
        if self.num_labels > 1:
            labels = torch.arange(self.num_labels, device=index.device)
            wanted = labels[:, None] * self.examples + wanted
        rows = torch.searchsorted(self.cells, wanted).clamp_(max=self.cells.numel() - 1)
        positive = self.cells[rows] == wanted
        negative = ~positive
        if self.missing.numel():
            byte = self.missing[wanted >> 3].long()
            negative &= ((byte >> (wanted & 7)) & 1) == 0
        return rows, positive, negative

    def check_given(self, index: Tensor, given: Tensor) -> None:
        """Check that the labels of a batch, (B,) or (B, L), are those of the table."""
        positive, missing = label_masks(given.reshape(len(index), -1))
        _, expected, negative = self.lookup(index)
        known = (expected | negative).t()
        wrong = ((positive ^ self.inverted) != expected.t()) & known & ~missing
        if bool(wrong.any()):
            row, column = (int(k) for k in wrong.nonzero()[0])
            where = f", label {column}" if self.num_labels > 1 else ""
            words = ("positive", "negative") if positive[row, column] else ("negative", "positive")
            raise LabelError(
                f"`labels` and `index` disagree for {int(wrong.any(dim=1).sum())} of "
                f"{len(index)} examples: example {int(index[row])}{where} is {words[1]} for the "
                f"loss and {words[0]} in this batch. {WHAT_INDEX_IS}"
            )


def positives_of(labels: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the mask of positives of one column of labels: bool, {0, 1} or {-1, 1}."""
    array = _as_array(labels)
    if array.ndim == 2 and array.shape[1] > 1:
        raise ShapeError(
            f"`labels` has shape {array.shape}, but only one column is supported here: use APLoss "
            "and MultiLabelBatchSampler for several labels"
        )
    positive = check_labels(array, name="labels", remedy="write labels == positive_class")
    if positive.all():
        raise LabelError(
            "`labels` holds positives only: a ranking needs negatives; check the labels"
        )
    return positive


def label_masks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return masks of the positive and the missing labels of a (B, L) tensor.

    One column holds bool, {0, 1} or {-1, 1}. Several columns hold 1, 0, and NaN or -1 for a
    missing label.
    """
    positive = labels == 1
    missing = labels.isnan() if labels.is_floating_point() else torch.zeros_like(positive)
    minus, zero = labels == -1, labels == 0
    if labels.shape[1] > 1:
        if bool(minus.any()) and not bool(zero.any()):
            raise LabelError(
                "`labels` with several columns holds -1 but no 0: there -1 marks a missing label; "
                "write negatives as 0"
            )
        missing |= minus
    elif bool(missing.any()):
        raise LabelError("`labels` holds NaN: with one column every example needs a label")
    elif bool(minus.any()) and bool(zero.any()):
        raise LabelError("`labels` holds both 0 and -1: write negatives as one of them")
    if not bool((positive | missing | minus | zero).all()):
        raise LabelError(
            "`labels` must be bool, {0, 1} or {-1, 1}; several columns may mark missing labels by "
            "NaN or -1"
        )
    return positive, missing


def _read(labels: Any) -> tuple[Any, Any]:
    """(n, L) masks of the positive and the missing labels; None if none is missing."""
    array = _as_array(labels)
    if array.ndim != 2 or array.shape[1] == 1:
        return positives_of(array)[:, None], None
    if array.size == 0:
        raise ShapeError("`labels` is empty: pass one row per example")
    positive, missing = (mask.numpy() for mask in label_masks(torch.as_tensor(array)))
    if not positive.any():
        raise NoPositiveError("`labels` holds no positive example: average precision needs one")
    if not (positive.any(axis=0) & ~(positive | missing).all(axis=0)).any():
        raise LabelError("`labels` has no column with both classes: there is nothing to rank")
    return positive, missing if missing.any() else None


def _as_array(labels: Any) -> np.ndarray[Any, Any]:
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu()
        labels = (labels.float() if labels.dtype == torch.bfloat16 else labels).numpy()
    try:
        array = np.asarray(labels)
    except ValueError:
        array = np.empty(())
    if array.ndim not in (1, 2):
        raise ShapeError(
            f"`labels` must be an array of shape (n,) or (n, L), got {type(labels).__name__} of "
            f"shape {array.shape}: pass the labels of all training examples"
        )
    return array
