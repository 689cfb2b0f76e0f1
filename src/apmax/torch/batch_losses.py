r"""Losses of a batch alone: SmoothAP, FastAP, Blackbox AP, and the exact surrogate AP.

All take ``loss(scores, labels)`` and return 1 − AP of the batch, or −ÂP for the exact one.
Labels are bool, {0, 1} or {-1, 1}; of shape (B, L) they are 1, 0, and NaN or -1 where missing,
and the loss is the mean over the columns that have both classes. In training with several
processes the batch is that of all ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.errors import LabelError, ShapeError
from apmax.objective.surrogates import default_gamma
from apmax.torch.checks import check_finite, check_floating
from apmax.torch.distributed import gather_checked
from apmax.torch.gradients import with_gradient
from apmax.torch.poor_batches import SkipsPoorBatches
from apmax.validation import check_count, check_gamma, check_real


class BatchLoss(SkipsPoorBatches):
    """A loss of one batch; `poor_batch` says what happens without both classes.

    "skip" returns 0 and counts it in ``loss.skipped``; "error" raises. `process_group` are the
    processes that share the batch; None is the default group, False this process alone.
    """

    def __init__(self, *, poor_batch: str = "skip", process_group: Any = None) -> None:
        super().__init__()
        self._count_skips(poor_batch)
        self.process_group = process_group

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of this batch, to call ``backward()`` on."""

        def checked() -> tuple[Tensor, ...]:
            return _check_batch(scores, labels)

        scores, labels = gather_checked(checked, self.skipped.device, self.process_group)
        check_finite(scores, "a score")
        if labels.shape[1] > 1 and bool((labels == -1).any()) and not bool((labels == 0).any()):
            raise LabelError(
                "`labels` of shape (B, L) holds -1 but no 0: there -1 means that a label is "
                "missing; write negatives as 0"
            )
        if scores.element_size() < 4:
            scores = scores.float()
        losses = []
        for column, given in zip(scores.unbind(1), labels.unbind(1), strict=True):
            positive, known = _masks(given, several=labels.shape[1] > 1)
            if bool(positive.any()) and bool((known & ~positive).any()):
                losses.append(self.of_column(column[known], positive[known]))
        if losses:
            return torch.stack(losses).mean()
        return self._skip(scores, "lacks positives or negatives")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """The loss of finite scores and a mask of positives with both classes in it."""
        raise NotImplementedError


class SmoothAPLoss(BatchLoss):
    r"""1 − 1/m Σ_{i ∈ P} r⁺_i / r_i with soft ranks (Brown et al., 2020).

    r_i = 1 + Σ_{j ≠ i} σ((s_j − s_i)/τ), and r⁺_i the same over the positives. τ is
    `temperature`.
    """

    def __init__(
        self, temperature: float = 0.01, *, poor_batch: str = "skip", process_group: Any = None
    ) -> None:
        super().__init__(poor_batch=poor_batch, process_group=process_group)
        why = "it is τ of σ(x/τ), in units of the scores; 0.01 is the authors'"
        self.temperature = check_real(temperature, "temperature", above=0, why=why)

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Ranks of every positive against all."""
        at = positive.nonzero()[:, 0]
        above = torch.sigmoid((scores[None, :] - scores[at, None]) / self.temperature)
        others = torch.ones_like(above).scatter_(1, at[:, None], 0.0)
        above = above * others
        rank = 1.0 + above.sum(1)
        rank_plus = 1.0 + above[:, at].sum(1)
        return 1.0 - (rank_plus / rank).mean()


class FastAPLoss(BatchLoss):
    r"""1 − 1/m Σ_b h⁺_b H⁺_b / H_b with a soft histogram of the scores (Cakir et al., 2019).

    Bins have triangular weights between `low` and `high`; scores outside count to the last
    bin. h⁺_b holds the positives of bin b, H⁺_b and H_b the positives and all examples of that bin
    and those above.
    """

    def __init__(
        self,
        bins: int = 10,
        *,
        low: float = 0.0,
        high: float = 1.0,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        super().__init__(poor_batch=poor_batch, process_group=process_group)
        self.bins = check_count(bins, "bins", why="it is the number of cells of the histogram")
        self.low = check_real(low, "low", why="it is the lowest score")
        self.high = check_real(high, "high", above=low, why="it is the highest score")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Precision of every bin, weighted by its positives."""
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
    r"""1 − AP with exact ranks forward and (rk(s + λg) − rk(s))/λ backward.

    Rolínek et al. (2020): λ is `strength`, and `margin` moves positives down and negatives up by
    half of it before they are ranked.
    """

    def __init__(
        self,
        strength: float = 4.0,
        *,
        margin: float = 0.02,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        super().__init__(poor_batch=poor_batch, process_group=process_group)
        why = "it is λ, how far the ranks are perturbed; the authors use 0.2 to 10"
        self.strength = check_real(strength, "strength", above=0, why=why)
        self.margin = check_real(margin, "margin", at_least=0, why="it separates the classes")

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """AP from two rankings: among all, and among the positives."""
        sign = torch.where(positive, -0.5, 0.5).to(scores.dtype)
        moved = scores + self.margin * sign
        rank = _blackbox_rank(moved, self.strength)[positive]
        rank_plus = _blackbox_rank(moved[positive], self.strength)
        return 1.0 - (rank_plus / rank).mean()


class ExactAPLoss(BatchLoss):
    r"""−ÂP with the squared hinge over all pairs of a batch, in O(n log n), on any device.

    By sorting and cumulative sums: Σ_{s_j > s_i − γ} (s_j − s_i + γ)² is a polynomial in s_i
    whose coefficients are sums over the sorted scores. Sums are of centred scores and in double
    precision where the device has it. For batches of 10⁵ and more, where pairs do not fit.
    """

    def __init__(
        self, *, gamma: float | None = None, poor_batch: str = "skip", process_group: Any = None
    ) -> None:
        super().__init__(poor_batch=poor_batch, process_group=process_group)
        self.gamma = check_gamma(default_gamma("squared_hinge") if gamma is None else gamma)

    def of_column(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Value and gradient at once, by hand: autograd would keep every sum."""
        with torch.no_grad():
            value, gradient = _exact_hinge(scores.detach(), positive, self.gamma)
        return with_gradient(scores, value, gradient)


def _exact_hinge(scores: Tensor, positive: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """−ÂP and its gradient; sums over j of the hinge's powers by cumulative sums."""
    dtype = torch.float32 if scores.device.type == "mps" else torch.float64
    s = scores.to(dtype)
    s = s - s.mean()
    order = s.argsort()
    ordered, is_plus = s[order], positive[order].to(dtype)
    at = s[positive]
    first = torch.searchsorted(ordered, at - gamma, right=True)  # s_j > s_i − γ from here on

    def sums(weight: Tensor) -> tuple[Tensor, Tensor]:
        """Σ w (s_j − s_i + γ)² and Σ w (s_j − s_i + γ) over the reach of every positive."""
        powers = torch.stack([weight, weight * ordered, weight * ordered.square()])
        tails = torch.nn.functional.pad(powers.flip(1).cumsum(1).flip(1), (0, 1))[:, first]
        count, total, squares = tails
        shift = gamma - at
        return squares + shift * (2.0 * total + shift * count), total + shift * count

    u1, d1 = sums(is_plus)
    u2, d2 = sums(torch.ones_like(is_plus))
    u1, u2 = u1.clamp(min=gamma * gamma), u2.clamp(min=gamma * gamma)
    m = at.numel()
    value = -(u1 / u2).mean()
    pull1, pull2 = -1.0 / (m * u2), u1 / (m * u2.square())  # ∂F/∂u₁, ∂F/∂u₂

    by_rank = at.argsort()
    ranked = at[by_rank]
    reach = torch.searchsorted(ranked, s + gamma)  # positives with s_i < s_j + γ

    def heads(weight: Tensor) -> tuple[Tensor, Tensor]:
        powers = torch.stack([weight[by_rank], (weight * at)[by_rank]])
        count, total = torch.nn.functional.pad(powers.cumsum(1), (1, 0))[:, reach]
        return count, total

    gradient = torch.zeros_like(s)
    for pull, mask in ((pull1, positive.to(dtype)), (pull2, torch.ones_like(s))):
        count, total = heads(pull)
        gradient += mask * 2.0 * ((s + gamma) * count - total)
    gradient[positive] -= 2.0 * (pull1 * d1 + pull2 * d2)
    return value.to(scores.dtype), gradient.to(scores.dtype)


def _blackbox_rank(scores: Tensor, strength: float) -> Tensor:
    ranks: Tensor = _BlackboxRank.apply(scores, strength)  # type: ignore[no-untyped-call]
    return ranks


class _BlackboxRank(torch.autograd.Function):
    """Rank 1 for the highest score; backward, the ranks of scores moved by the gradient."""

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
    counted = torch.arange(1, scores.numel() + 1, dtype=scores.dtype, device=scores.device)
    ranks[order] = counted
    return ranks


def _check_batch(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes and types; both come back with shape (B, L)."""
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


def _masks(labels: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
    """Positives, and the labels that are known."""
    if labels.dtype == torch.bool:
        return labels, torch.ones_like(labels)
    missing = labels.isnan() if labels.is_floating_point() else torch.zeros_like(labels).bool()
    if several:
        missing = missing | (labels == -1)
    elif bool(missing.any()):
        raise LabelError("`labels` holds NaN: every example of a batch (B,) needs a label")
    positive = labels == 1
    rest = labels[~positive & ~missing]
    if not bool(((rest == 0) | (rest == -1)).all()) or (
        bool((rest == 0).any()) and bool((rest == -1).any())
    ):
        raise LabelError("`labels` must be bool, {0, 1} or {-1, 1}")
    return positive, ~missing
