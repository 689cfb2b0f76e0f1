"""NDCGLoss: normalized discounted cumulative gain, for whole rankings or their first k items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apmax.methods import Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.queries import QueryBatch, QueryLoss
from apmax.validation import check_count


class NDCGLoss(QueryLoss):
    r"""Minus the mean NDCG of the queries, with soft ranks (Qiu et al., 2022).

    .. math:: F(w) = -\frac1Q \sum_q \frac1{Z_q} \sum_{i \in q} \frac{2^{y_i} - 1}
              {\log_2(2 + u_i)}\, \psi(u_i), \qquad
              u_i = \sum_{k \in q, k \neq i} \ell(s_k - s_i)

    1 + u_i is the soft rank of item i and Z_q the DCG of the ideal order. For NDCG@k, ψ(u) =
    σ(2 (k − 1/2 − u)) counts the first k items softly; otherwise ψ = 1.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Relevance y ≥ 0 of all items, usually 0, 1, 2, ….
    groups : array-like of shape (n,)
        Query of each item: numbers or text.
    k : int or None, default=None
        Number of items that count; None is all.
    surrogate, gamma, from_logits, spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.

    Notes
    -----
    Differs from the reference, which chooses the first k items by a second, bilevel problem.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import NDCGLoss
    >>> loss = NDCGLoss([3, 0, 1, 0, 1], groups=[7, 7, 7, 8, 8], from_logits=True)
    >>> logits = torch.tensor([4.0, -1.0, 1.0, -4.0, 4.0], requires_grad=True)
    >>> print(f"{loss(logits, torch.arange(5)):.2f}")
    -1.00
    """

    gains: Tensor

    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
        k: int | None = None,
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
        first = math.inf
        if k is not None:
            first = check_count(k, "k", why="it is the number of items that count")

        def outer(u: Tensor) -> Tensor:
            discounted = -1.0 / torch.log2(2.0 + u[:, 0])
            if first == math.inf:
                return discounted
            return discounted * torch.sigmoid(2.0 * (first - 0.5 - u[:, 0]))

        super().__init__(
            outer, 1, labels, groups, surrogate=surrogate, gamma=gamma, from_logits=from_logits,
            spread=spread, tracker=tracker, beta0=beta0, schedule=schedule,
            poor_batch=poor_batch, process_group=process_group,
        )  # fmt: skip
        self.k = k
        gains = _normalised_gains(
            self.table.relevance.numpy(), self.table.query.numpy(), self.table.num_queries, first
        )
        self.register_buffer("gains", torch.from_numpy(gains), persistent=False)

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        pairs = self._pairs(differences)
        return (pairs * (batch.relevant + batch.others)).sum(1, keepdim=True)

    def _row_weights(self, items: Tensor) -> Tensor:
        return self.gains[items] * self.table.relevant[self.table.query[items]]

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "k": self.k}


def _normalised_gains(
    relevance: np.ndarray[Any, Any], query: np.ndarray[Any, Any], queries: int, first: float
) -> np.ndarray[Any, Any]:
    """(2^y − 1) / Z_q of every item, with Z_q over the `first` items of the ideal order."""
    gains = np.exp2(relevance) - 1.0
    order = np.lexsort((-gains, query))
    starts = np.searchsorted(query[order], np.arange(queries))
    place = np.arange(order.size) - starts[query[order]]
    terms = np.where(place < first, gains[order] / np.log2(2.0 + place), 0.0)
    ideal = np.bincount(query[order], terms, minlength=queries)
    return np.asarray(np.divide(gains, ideal[query], out=np.zeros(gains.size), where=gains > 0))
