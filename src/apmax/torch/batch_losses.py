"""Losses of one batch, and batches without a ranking: skipped and counted, or an error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from apmax.errors import NoPositiveError, ShapeError
from apmax.registry import Registry
from apmax.torch.checks import check_finite, check_floating
from apmax.torch.distributed import gather_checked
from apmax.torch.labels import label_masks
from apmax.validation import check_real

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


class BatchLoss(SkippingLoss):
    """Base of losses of one batch, ``loss(scores, labels)``.

    Scores and labels have shape (B,) or (B, L). Labels are bool, {0, 1} or {-1, 1}; with L > 1
    columns they are 1, 0, and NaN or -1 for a missing label. The loss is the mean over the
    columns that have both classes.

    Parameters
    ----------
    poor_batch : {"skip", "error"}, default="skip"
        What to do with a batch without both classes. "skip" returns 0 and counts the batch in
        ``loss.skipped``; "error" raises.
    process_group : ProcessGroup, None or False, default=None
        Processes whose parts form the batch; see :class:`CompositionalLoss`.
    """

    def __init__(self, *, poor_batch: str = "skip", process_group: Any = None) -> None:
        super().__init__()
        self._count_skips(poor_batch)
        self.process_group = process_group

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of this batch."""

        def check() -> tuple[Tensor, ...]:
            return _check_batch(scores, labels)

        scores, labels = gather_checked(check, self.skipped.device, self.process_group)
        check_finite(scores, "a score")
        positive, missing = label_masks(labels)
        if scores.element_size() < 4:
            scores = scores.float()
        losses = []
        for column in range(scores.shape[1]):
            known = ~missing[:, column]
            ranked = positive[known, column]
            if bool(ranked.any()) and not bool(ranked.all()):
                losses.append(self.of_column(scores[known, column], ranked))
        if losses:
            return torch.stack(losses).mean()
        return self._skip(scores, "lacks positives or negatives")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Return the loss of finite scores and a mask of positives, with both classes in it."""
        raise NotImplementedError


class SmoothAPLoss(BatchLoss):
    r"""1 − 1/m Σ_{i ∈ P} r⁺_i / r_i with soft ranks (Brown et al., 2020).

    r_i = 1 + Σ_{j ≠ i} σ((s_j − s_i)/τ), and r⁺_i is the same over the positives.

    Parameters
    ----------
    temperature : float, default=0.01
        τ, in units of the scores.
    **options
        `poor_batch` and `process_group` of :class:`BatchLoss`.
    """

    def __init__(self, temperature: float = 0.01, **options: Any) -> None:
        super().__init__(**options)
        why = "it is τ of σ(x/τ), in units of the scores; the authors use 0.01"
        self.temperature = check_real(temperature, "temperature", above=0, why=why)

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Rank every positive among all examples."""
        at = positive.nonzero()[:, 0]
        above = torch.sigmoid((scores[None, :] - scores[at, None]) / self.temperature)
        others = torch.ones_like(above).scatter_(1, at[:, None], 0.0)
        above = above * others
        rank = 1.0 + above.sum(1)
        rank_plus = 1.0 + above[:, at].sum(1)
        return 1.0 - (rank_plus / rank).mean()


def _check_batch(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Check shapes and types; return both with shape (B, L)."""
    check_floating(scores, "scores")
    if not isinstance(labels, Tensor) or labels.shape != scores.shape or scores.ndim not in (1, 2):
        shape = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ShapeError(
            f"`scores` and `labels` must have the same shape, (B,) or (B, L), got "
            f"{tuple(scores.shape)} and {shape}"
        )
    if labels.device != scores.device:
        raise ShapeError(f"`labels` is on {labels.device} and `scores` on {scores.device}")
    if scores.ndim == 1:
        return scores[:, None], labels[:, None]
    return scores, labels
