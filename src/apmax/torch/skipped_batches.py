"""Batches without a ranking: skipped and counted per label, with one warning, or an error."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from apmax.errors import NoPositiveError
from apmax.registry import Registry

POOR_BATCHES = Registry("poor_batch", {"skip": True, "error": False})


class SkippingLoss(nn.Module):
    """Base of losses that skip batches without a ranking and count them in `skipped`."""

    skipped: Tensor
    """Number of training batches without a ranking; `APLoss` of L labels has one for each."""

    def _count_skips(self, poor_batch: str, num_labels: int = 1) -> None:
        self.skips = POOR_BATCHES.choose(poor_batch)
        shape = (num_labels,) if num_labels > 1 else ()
        self.register_buffer("skipped", torch.zeros(shape, dtype=torch.int64))
        self._calls, self._warned = 0, False

    def _count(self, unranked: Tensor | bool) -> None:
        """Count a training batch, and the labels that have no ranking in it."""
        if not self.training:
            return
        attributes = self.__dict__  # nn.Module's own access to attributes takes microseconds
        calls = attributes["_calls"] = attributes["_calls"] + 1
        if unranked is not False:
            self.skipped += unranked
        power_of_two = calls & (calls - 1) == 0  # rarely, because GPUs wait for the count
        if calls >= 32 and power_of_two and not self._warned:
            self._warn_of_skips()

    def _warn_of_skips(self) -> None:
        skipped = self.skipped.reshape(-1)
        if skipped.numel() == 1 and int(skipped) > self._calls / 4:
            message = (
                f"{int(skipped)} of {self._calls} batches had no ranking and were skipped: use "
                "PositiveNegativeBatchSampler, and check that `index` holds positions in the "
                "labels of the loss by passing labels="
            )
        elif (
            skipped.numel() > 1
            and self._calls > 4 * skipped.numel()
            and bool((skipped >= self._calls).any())
        ):
            never = (skipped >= self._calls).nonzero()[:, 0].tolist()
            message = (
                f"labels {never[:10]} had no ranking in any of {self._calls} batches and are not "
                "trained: use MultiLabelBatchSampler"
            )
        else:
            return
        self._warned = True
        warnings.warn(message, UserWarning, stacklevel=5)

    def _skip(self, scores: Tensor, reason: str) -> Tensor:
        """Return a loss of 0 with a gradient of 0, or raise if ``poor_batch="error"``."""
        if not self.skips:
            raise NoPositiveError(
                f"the batch {reason}, so it has no ranking: use PositiveNegativeBatchSampler, "
                "larger batches, or poor_batch='skip'"
            )
        self._count(True)
        return (scores * 0.0).sum()
