"""Losses of one batch, ``loss(scores, labels)``, without a state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from apmax.errors import ShapeError, WeightError
from apmax.torch.checks import check_batch_labels, check_finite, check_floating
from apmax.torch.distributed import gather_checked
from apmax.torch.labels import label_masks
from apmax.torch.score_scale import check_spread, resolve_spread
from apmax.torch.skipped_batches import SkippingLoss
from apmax.validation import check_real


class BatchLoss(SkippingLoss):
    """Base of losses of one batch, ``loss(scores, labels)``.

    Scores and labels have shape (B,) or (B, L). Labels are bool, {0, 1} or {-1, 1}; with L > 1
    columns they are 1, 0, and NaN or -1 for a missing label. The loss is the mean over the
    columns that have both classes.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether the scores are logits, which have no bound.
    spread : float or None, default=1.0
        Largest difference of two scores; 1 is for probabilities, which must lie in [0, 1]. None
        accepts any scores.
    poor_batch : {"skip", "error"}, default="skip"
        What to do with a batch without both classes. "skip" returns 0 and counts the batch in
        ``loss.skipped``; "error" raises.
    process_group : ProcessGroup, None or False, default=None
        Processes whose parts form the batch; see :class:`CompositionalLoss`.
    """

    def __init__(
        self,
        *,
        from_logits: bool = False,
        spread: float | None = 1.0,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.spread = resolve_spread(spread, from_logits)
        self._count_skips(poor_batch)
        self.process_group = process_group

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of this batch.

        Parameters
        ----------
        scores, labels : Tensor of shape (B,) or (B, L)
            Scores and labels of the batch. Labels are bool, {0, 1} or {-1, 1}; with L > 1 columns
            they are 1, 0, and NaN or -1 for a missing label.
        """
        return self._of_batch(scores, labels, None)

    def _of_batch(self, scores: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        def check() -> tuple[Tensor, ...]:
            return _check_batch(scores, labels, weight)

        columns, truth, *weights = gather_checked(check, self, self.process_group)
        if columns.element_size() < 4:
            columns = columns.float()
        check_finite(columns, "a score")
        check_spread(columns, self.spread)
        positive, missing = label_masks(truth)
        losses = []
        for column in range(columns.shape[1]):
            known = ~missing[:, column]
            if weights:
                known = known & (weights[0] > 0)
            ranked = positive[known, column]
            if bool(ranked.any()) and not bool(ranked.all()):
                of_known = weights[0][known] if weights else None
                losses.append(self.of_column(columns[known, column], ranked, of_known))
        if losses:
            self._count(False)
            return torch.stack(losses).mean()
        return self._skip(columns, "lacks positives or negatives")

    def of_column(self, scores: Tensor, positive: Tensor, weight: Tensor | None) -> Tensor:
        """Return the loss of finite scores and a mask of positives, with both classes in it."""
        raise NotImplementedError


class SmoothAPLoss(BatchLoss):
    r"""1 − 1/m Σ_{i ∈ P} r⁺_i / r_i with soft ranks (Brown et al., 2020).

    r_i = 1 + Σ_{j ≠ i} σ((s_j − s_i)/τ), and r⁺_i is the same over the positives.

    Parameters
    ----------
    temperature : float, default=None
        τ, in units of the scores. None is 0.01, and 0.5 for logits.
    **options
        `from_logits`, `spread`, `poor_batch` and `process_group` of :class:`APLoss`. A batch
        without both classes counts as poor.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import SmoothAPLoss
    >>> scores = torch.tensor([0.9, 0.8, 0.4, 0.35], requires_grad=True)
    >>> value = SmoothAPLoss()(scores, torch.tensor([1, 0, 1, 0]))
    >>> value.backward()
    >>> print(f"{value:.3f}")
    0.167
    """

    def __init__(self, temperature: float | None = None, **options: Any) -> None:
        super().__init__(**options)
        if temperature is None:
            temperature = 0.5 if options.get("from_logits") else 0.01
        why = "it is τ of σ(x/τ), in units of the scores; the authors use 0.01"
        self.temperature = check_real(temperature, "temperature", above=0, why=why)

    def of_column(self, scores: Tensor, positive: Tensor, weight: Tensor | None) -> Tensor:
        """Rank every positive among all examples."""
        at = positive.nonzero()[:, 0]
        above = torch.sigmoid((scores[None, :] - scores[at, None]) / self.temperature)
        others = torch.ones_like(above).scatter_(1, at[:, None], 0.0)
        above = above * others
        rank = 1.0 + above.sum(1)
        rank_plus = 1.0 + above[:, at].sum(1)
        return 1.0 - (rank_plus / rank).mean()


def _check_batch(scores: Tensor, labels: Any, weight: Tensor | None) -> tuple[Tensor, ...]:
    """Check shapes and types; return scores and labels with shape (B, L), and the weights."""
    check_floating(scores, "scores")
    if scores.ndim not in (1, 2):
        raise ShapeError(f"`scores` must have shape (B,) or (B, L), got {tuple(scores.shape)}")
    truth = check_batch_labels(labels, scores)
    both = (scores, truth) if scores.ndim == 2 else (scores[:, None], truth[:, None])
    return both if weight is None else (*both, _check_sample_weight(weight, scores))


def _check_sample_weight(weight: Tensor, scores: Tensor) -> Tensor:
    """Return one finite weight ≥ 0 per example, on the device of the scores."""
    check_floating(weight, "sample_weight")
    if weight.shape != scores.shape[:1] or weight.device != scores.device:
        raise ShapeError(
            f"`sample_weight` has shape {tuple(weight.shape)} on {weight.device}, but `scores` "
            f"has {scores.shape[0]} rows on {scores.device}: pass one weight per example"
        )
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        raise WeightError("`sample_weight` must be finite and ≥ 0: use 0 to leave an example out")
    return weight.detach()
