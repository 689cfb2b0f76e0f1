"""ExactAPLoss: the surrogate AP over all pairs of a batch, without forming the pairs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from apmax.objective.exact import surrogate_ap
from apmax.objective.surrogates import LOGISTIC, Surrogate
from apmax.torch.batch_losses import BatchLoss
from apmax.torch.compositional import with_gradient
from apmax.torch.logistic_summary import MAX_CELLS, summary_ap
from apmax.torch.score_scale import resolve_scale

HOST_DEVICES = ("cpu", "mps")
"""Devices whose batches are summed on the CPU: MPS has no double precision."""


class ExactAPLoss(BatchLoss):
    r"""−ÂP over all pairs of a batch, in O(n log n) or less; a batch of 10⁷ fits.

    Parameters
    ----------
    surrogate : str or Surrogate, default="logistic"
        See :class:`APLoss`. A custom surrogate is summed pair by pair in O(mn).
    gamma : float, default=None
        See :class:`APLoss`.
    from_logits : bool, default=False
        Whether the scores are logits; see :class:`APLoss`.
    **options
        `spread`, `poor_batch` and `process_group` of :class:`APLoss`. A batch without both classes
        counts as poor.

    Notes
    -----
    Sums are in double precision. The tests allow relative errors of 1e-9 (value) and 1e-8
    (gradient, relative to its largest entry) for γ = 0.3, 0.7 and 20. On a CPU the sums are those
    of :func:`apmax.surrogate_ap`. On a GPU the logistic surrogate runs there in O(n), if
    γ · (range of the scores) ≤ 4096; parallel sums may differ in the last bits between runs. In
    all other cases the scores are copied to host memory and the gradient back.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import ExactAPLoss
    >>> scores = torch.tensor([0.9, 0.8, 0.4, 0.35], requires_grad=True)
    >>> value = ExactAPLoss()(scores, torch.tensor([1, 0, 1, 0]))
    >>> value.backward()
    >>> print(f"{value:.3f}")
    -0.675
    """

    def __init__(
        self,
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        from_logits: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(from_logits=from_logits, **options)
        self._surrogate, self.gamma, _ = resolve_scale(surrogate, gamma, None, from_logits)
        self.surrogate = self._surrogate.name

    def forward(
        self, scores: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of this batch.

        Parameters
        ----------
        scores, labels : Tensor of shape (B,) or (B, L)
            Scores and labels of the batch. Labels are bool, {0, 1} or {-1, 1}; with L > 1 columns
            they are 1, 0, and NaN or -1 for a missing label.
        sample_weight : Tensor of shape (B,), optional
            Weights ≥ 0; a weight of 2 equals the example twice.
        """
        return self._of_batch(scores, labels, sample_weight)

    def of_column(self, scores: Tensor, positive: Tensor, weight: Tensor | None) -> Tensor:
        """Return the loss with a gradient that is computed together with the value."""
        with torch.no_grad():
            value, gradient = self._sum_pairs(scores.detach(), positive, weight)
        return with_gradient(scores, -value, -gradient)

    def _sum_pairs(
        self, scores: Tensor, positive: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """ÂP and its gradient, in double precision where the device has it."""
        if self._surrogate == LOGISTIC and scores.device.type not in HOST_DEVICES:
            wide = scores.double()
            if float(wide.max() - wide.min()) * self.gamma <= MAX_CELLS:
                return summary_ap(wide, positive, self.gamma, weight)
        exact = surrogate_ap(
            scores.cpu().numpy(),
            positive.cpu().numpy(),
            surrogate=self._surrogate,
            gamma=self.gamma,
            sample_weight=None if weight is None else weight.cpu().numpy(),
        )
        gradient = torch.from_numpy(exact.gradient).to(scores.dtype).to(scores.device)
        return gradient.new_tensor(exact.value), gradient
