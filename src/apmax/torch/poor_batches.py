"""Batches that say nothing of the ranking: skipped and counted, or an error by choice."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from apmax.errors import NoPositiveError
from apmax.registry import Registry

POOR_BATCHES = Registry("poor_batch", {"skip": True, "error": False})


class SkipsPoorBatches(nn.Module):
    """A loss that returns 0 for a poor batch and counts it in `skipped`, or raises."""

    skipped: Tensor

    def _count_skips(self, poor_batch: str) -> None:
        self.skips = POOR_BATCHES.choose(poor_batch)
        self.register_buffer("skipped", torch.zeros((), dtype=torch.int64))

    def _skip(self, scores: Tensor, why: str) -> Tensor:
        if not self.skips:
            raise NoPositiveError(
                f"the batch {why} and says nothing of the ranking: use "
                "PositiveNegativeBatchSampler, larger batches, or poor_batch='skip'"
            )
        if self.training:
            self.skipped += 1
        return (scores * 0.0).sum()
