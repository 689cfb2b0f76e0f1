"""SmoothAP, FastAP and Blackbox AP: 1 − AP of a batch, without state between batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.errors import ShapeError
from apmax.torch.checks import check_finite, check_floating
from apmax.torch.distributed import gather_checked
from apmax.torch.labels import label_masks
from apmax.torch.skipped_batches import SkippingLoss
from apmax.validation import check_count, check_real


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
        Processes whose parts form the batch. None is the default group if there is one; False
        is this process alone.
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


class FastAPLoss(BatchLoss):
    r"""1 − 1/m Σ_b h⁺_b H⁺_b / H_b with a soft histogram of the scores (Cakir et al., 2019).

    Bins have triangular weights. h⁺_b counts the positives of bin b; H⁺_b and H_b count the
    positives and all examples of that bin and the bins above.

    Parameters
    ----------
    bins : int, default=10
        Number of bins between `low` and `high`.
    low, high : float, default=0.0 and 1.0
        Range of the scores. Scores outside count to the last bin.
    **options
        `poor_batch` and `process_group` of :class:`BatchLoss`.
    """

    def __init__(
        self, bins: int = 10, *, low: float = 0.0, high: float = 1.0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.bins = check_count(bins, "bins", why="it is the number of bins of the histogram")
        self.low = check_real(low, "low", why="it is the lowest score")
        self.high = check_real(high, "high", above=low, why="it is the highest score")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Weight the precision of every bin by its positives."""
        width = (self.high - self.low) / self.bins
        centres = torch.linspace(
            self.high, self.low, self.bins + 1, dtype=scores.dtype, device=scores.device
        )
        inside = scores.clamp(self.low, self.high)
        share = torch.relu(1.0 - (inside[None, :] - centres[:, None]).abs() / width)
        h_plus, h = share[:, positive].sum(1), share.sum(1)
        above_plus, above = h_plus.cumsum(0), h.cumsum(0)
        filled = above > 0
        precision = above_plus[filled] / above[filled]
        return 1.0 - (h_plus[filled] * precision).sum() / positive.sum()


class BlackboxAPLoss(BatchLoss):
    r"""1 − AP with exact ranks forward and (rk(s + λg) − rk(s))/λ backward (Rolínek et al., 2020).

    Parameters
    ----------
    strength : float, default=4.0
        λ, the size of the perturbation.
    margin : float, default=0.02
        Distance by which negatives are raised against positives before ranking.
    **options
        `poor_batch` and `process_group` of :class:`BatchLoss`.
    """

    def __init__(self, strength: float = 4.0, *, margin: float = 0.02, **options: Any) -> None:
        super().__init__(**options)
        why = "it is λ, the size of the perturbation; the authors use 0.2 to 10"
        self.strength = check_real(strength, "strength", above=0, why=why)
        self.margin = check_real(margin, "margin", at_least=0, why="it separates the classes")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Compute AP from the ranks among all examples and among the positives."""
        sign = torch.where(positive, -0.5, 0.5).to(scores.dtype)
        moved = scores + self.margin * sign
        rank = _blackbox_rank(moved, self.strength)[positive]
        rank_plus = _blackbox_rank(moved[positive], self.strength)
        return 1.0 - (rank_plus / rank).mean()


def _blackbox_rank(scores: Tensor, strength: float) -> Tensor:
    ranks: Tensor = _BlackboxRank.apply(scores, strength)  # type: ignore[no-untyped-call]
    return ranks


class _BlackboxRank(torch.autograd.Function):
    """Rank 1 for the highest score; backward, the change of the ranks along the gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, strength: float) -> Tensor:
        ranks = _rank(scores)
        ctx.save_for_backward(scores, ranks)
        ctx.strength = strength
        return ranks

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scores, ranks = ctx.saved_tensors
        moved = _rank(scores + ctx.strength * gradient)
        return -(ranks - moved) / ctx.strength, None


def _rank(scores: Tensor) -> Tensor:
    ranks = torch.empty_like(scores)
    order = scores.argsort(descending=True, stable=True)
    ranks[order] = torch.arange(1, scores.numel() + 1, device=scores.device).to(scores)
    return ranks


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
