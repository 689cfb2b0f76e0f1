"""QueryAPLoss: mean average precision of retrieval, one ranking per query."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from apmax.methods import Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.queries import QueryBatch, QueryLoss


class QueryAPLoss(QueryLoss):
    r"""Minus the mean over the queries of the surrogate average precision within each.

    .. math:: F(w) = -\frac1Q \sum_q \frac1{m_q} \sum_{i \in q, y_i > 0} \frac{u_{1i}}{u_{2i}},
              \qquad u_i = \ell(0) + \sum_{k \in q, k \neq i} \ell(s_k - s_i)
              \begin{pmatrix} \mathbb 1(y_k > 0) \\ 1 \end{pmatrix}

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Relevance of all items; those above 0 are relevant.
    groups : array-like of shape (n,)
        Query of each item: numbers or text.
    surrogate, gamma, from_logits, spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import QueryAPLoss
    >>> loss = QueryAPLoss([1, 0, 0, 0, 1], groups=["a", "a", "a", "b", "b"], from_logits=True)
    >>> logits = torch.tensor([2.0, 0.0, -2.0, 2.0, -2.0], requires_grad=True)
    >>> print(f"{loss(logits, torch.arange(5)):.2f}")
    -0.65
    """

    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
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
        super().__init__(
            lambda u: -u[:, 0] / u[:, 1], 2, labels, groups, surrogate=surrogate, gamma=gamma,
            from_logits=from_logits, spread=spread, tracker=tracker, beta0=beta0,
            schedule=schedule, poor_batch=poor_batch, process_group=process_group,
        )  # fmt: skip

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        pairs = self._pairs(differences)
        own = self._pairs(torch.zeros(1, dtype=pairs.dtype, device=pairs.device))
        first = own + (pairs * batch.relevant).sum(1)
        return torch.stack([first, first + (pairs * batch.others).sum(1)], dim=1)
