"""PNormPushLoss: few negatives at the top of the ranking (Rudin, 2009)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from apmax.methods import Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.class_pairs import ClassPairLoss
from apmax.validation import check_real


class PNormPushLoss(ClassPairLoss):
    r"""The p-norm push: the p-th power of the height of each negative.

    .. math:: F(w) = \frac1{n_-} \sum_{y_j \neq 1} g_j(w)^p, \qquad
              g_j(w) = \frac1m \sum_{y_i = 1} \ell(s_j - s_i)

    g_j estimates the share of positives that rank below negative j. Powers above 1 weight the
    negatives at the top. With p = 1 the loss is that of the AUC.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Labels of all training examples: bool, {0, 1} or {-1, 1}.
    p : float, default=4.0
        The power, at least 1.
    surrogate, gamma, from_logits, spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.

    Notes
    -----
    The rows of U are the negatives: 12 bytes each.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import PNormPushLoss
    >>> loss = PNormPushLoss([1, 0, 0, 1], from_logits=True)
    >>> logits = torch.tensor([1.0, 0.5, -1.0, -0.5], requires_grad=True)
    >>> loss(logits, torch.arange(4)).backward()
    >>> bool(logits.grad[1] > logits.grad[2])    # the higher negative is pushed down harder
    True
    """

    rows_are_positive = False

    def __init__(
        self,
        labels: Any,
        *,
        p: float = 4.0,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        from_logits: bool = False,
        spread: float | None = 1.0,
        tracker: str | Tracker = "elapsed_average",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        why = "larger powers weight the negatives at the top; 1 is the AUC"
        power = check_real(p, "p", at_least=1, why=why)
        super().__init__(
            lambda u: u[:, 0] ** power, labels, surrogate=surrogate, gamma=gamma,
            from_logits=from_logits, spread=spread, tracker=tracker, beta0=beta0,
            schedule=schedule, poor_batch=poor_batch, process_group=process_group,
        )  # fmt: skip
        self.p = power

    def _inner(self, losses: Tensor) -> Tensor:
        return losses.mean(1, keepdim=True)
