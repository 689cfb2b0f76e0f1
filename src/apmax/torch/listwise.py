"""ListwiseLoss: cross-entropy of the scores of a query (ListNet; Cao et al., 2007)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from apmax.methods import Schedule, Tracker
from apmax.torch.queries import QueryBatch, QueryLoss
from apmax.validation import check_real


class ListwiseLoss(QueryLoss):
    r"""Cross-entropy between relevances and softmax scores of all items of a query.

    .. math:: F(w) = \frac1Q \sum_q \sum_{i \in q} \frac{y_i}{\sum_{k \in q} y_k}
              \log u_i, \qquad u_i = \sum_{k \in q} \exp((s_k - s_i) / \tau)

    The softmax is over all items of the query, not just those of the batch.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Relevance y ≥ 0 of all items.
    groups : array-like of shape (n,)
        Query of each item: numbers or text.
    temperature : float, default=1.0
        τ, in units of the scores, which are logits.
    tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import ListwiseLoss
    >>> loss = ListwiseLoss([1, 0, 0, 0, 1], groups=["a", "a", "a", "b", "b"])
    >>> value = loss(torch.zeros(5, requires_grad=True), torch.arange(5))
    >>> print(f"{value:.3f}")    # (log 3 + log 2) / 2
    0.896
    """

    shares: Tensor

    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
        temperature: float = 1.0,
        tracker: str | Tracker = "elapsed_average",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        super().__init__(
            lambda u: u[:, 0].log(), 1, labels, groups, surrogate="logistic", gamma=None,
            from_logits=False, spread=None, tracker=tracker, beta0=beta0, schedule=schedule,
            poor_batch=poor_batch, process_group=process_group,
        )  # fmt: skip
        why = "it divides the scores"
        self.temperature = check_real(temperature, "temperature", above=0, why=why)
        table = self.table
        total = torch.zeros(table.num_queries, dtype=torch.float64)
        total.index_add_(0, table.query, table.relevance)
        shares = table.relevance / total[table.query].clamp(min=1e-300)
        self.register_buffer("shares", shares, persistent=False)

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        terms = torch.exp(differences / self.temperature)
        return 1.0 + (terms * (batch.relevant + batch.others)).sum(1, keepdim=True)

    def _row_weights(self, items: Tensor) -> Tensor:
        return self.shares[items] * self.table.relevant[self.table.query[items]]

    def _settings(self) -> dict[str, Any]:
        return {"labels": self.table.fingerprint(), "temperature": self.temperature}
