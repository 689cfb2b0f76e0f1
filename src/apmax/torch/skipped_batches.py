"""Batches without a ranking: skipped and counted, or an error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from apmax.errors import NoPositiveError
from apmax.registry import Registry

POOR_BATCHES = Registry("poor_batch", {"skip": True, "error": False})


class SkippingLoss(nn.Module):
    """Base of losses that skip batches without a ranking and count them in `skipped`."""

    skipped: Tensor

    def _count_skips(self, poor_batch: str) -> None:
        self.skips = POOR_BATCHES.choose(poor_batch)
        self.register_buffer("skipped", torch.zeros((), dtype=torch.int64))

    def _skip(self, scores: Tensor, reason: str) -> Tensor:
        """Return a loss of 0 with a gradient of 0, or raise if ``poor_batch="error"``."""
        if not self.skips:
            raise NoPositiveError(
                f"the batch {reason}, so it has no ranking: use PositiveNegativeBatchSampler, "
                "larger batches, or poor_batch='skip'"
            )
        if self.training:
            self.skipped += 1
        return (scores * 0.0).sum()
