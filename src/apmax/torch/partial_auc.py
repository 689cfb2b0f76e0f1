"""PartialAUCLoss: one-way and two-way partial AUC by soft maxima (Zhu et al., 2022)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from apmax.methods import Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.class_pairs import ClassPairLoss
from apmax.torch.compositional import CompositionalLoss
from apmax.validation import check_real, check_switch


class PartialAUCLoss(ClassPairLoss):
    r"""AUC in the region of low false positive rates, and of high true positive rates.

    .. math:: F(w) = \lambda_+ \log \frac1m \sum_{y_i = 1} g_i(w)^{\lambda_- / \lambda_+}, \qquad
              g_i(w) = \frac1{n_-} \sum_{y_j \neq 1} \exp(\ell(s_j - s_i) / \lambda_-)

    A soft maximum over the negatives weights those with high scores, that is a low false
    positive rate. One over the positives weights those with low scores. Without the latter the
    loss is the one-way partial AUC, F = λ₋/m Σ log g_i.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Labels of all training examples: bool, {0, 1} or {-1, 1}.
    negatives : float, default=0.1
        λ₋. Small values weight the negatives with the highest scores; for large ones the loss
        is that of the whole AUC.
    positives : float or None, default=None
        λ₊ of the two-way partial AUC; None is one-way.
    surrogate, gamma
        ℓ; the default is the squared hinge with margin 0.5. See :class:`APLoss`.
    from_logits : bool, default=False
        Whether the scores are logits, to which the loss applies the sigmoid: exponentials of
        unbounded scores would overflow.
    spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import PartialAUCLoss
    >>> loss = PartialAUCLoss([1, 0, 0, 1], negatives=0.5, from_logits=True)
    >>> logits = torch.tensor([1.0, 0.5, -1.0, -0.5], requires_grad=True)
    >>> loss(logits, torch.arange(4)).backward()
    >>> logits.grad.sign().tolist()
    [-1.0, 1.0, 1.0, -1.0]
    """

    def __init__(
        self,
        labels: Any,
        *,
        negatives: float = 0.1,
        positives: float | None = None,
        surrogate: str | Surrogate = "squared_hinge",
        gamma: float | None = 0.5,
        from_logits: bool = False,
        spread: float | None = 1.0,
        tracker: str | Tracker = "elapsed_average",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        why = "it is the temperature of a soft maximum; smaller values are closer to the maximum"
        lower = check_real(negatives, "negatives", above=0, why=why)
        upper = None if positives is None else check_real(positives, "positives", above=0, why=why)

        def outer(u: Tensor) -> Tensor:
            return lower * u[:, 0].log() if upper is None else u[:, 0] ** (lower / upper)

        super().__init__(
            outer, labels, surrogate=surrogate, gamma=gamma, from_logits=False,
            spread=spread, tracker=tracker, beta0=beta0, schedule=schedule,
            poor_batch=poor_batch, process_group=process_group,
        )  # fmt: skip
        self.negatives, self.positives = lower, upper
        self.from_logits = check_switch(from_logits, "from_logits")
        self.total: CompositionalLoss | None = None
        if upper is not None:  # a second level: λ₊ log of the mean over the positives
            self.total = CompositionalLoss(
                lambda u: upper * u[:, 0].log(),
                1,
                1,
                tracker=self.tracker,
                beta0=beta0,
                schedule=self.schedule,
                process_group=False,  # all ranks have the same mean
            )

    def _inner(self, losses: Tensor) -> Tensor:
        return (losses / self.negatives).exp().mean(1, keepdim=True)

    def forward(self, scores: Tensor, index: Tensor) -> Tensor:
        """Update U and return the loss of the batch; see :class:`APLoss`."""
        is_logit = self.from_logits and isinstance(scores, Tensor) and scores.is_floating_point()
        result: Tensor = super().forward(torch.sigmoid(scores) if is_logit else scores, index)
        return result

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        before = int(self.rounds)
        value = super()._of_batch(scores, index)
        if self.total is None or (self.training and int(self.rounds) == before):  # skipped
            return value
        row = torch.zeros(1, dtype=torch.int64, device=value.device)
        result: Tensor = self.total(value.reshape(1, 1), row)
        return result
