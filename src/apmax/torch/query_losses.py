"""Losses of rankings within queries: mean AP, NDCG, and the cross-entropy of a list."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from apmax.errors import ParameterError
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.indexed_loss import (
    IndexedLoss,
    PairOptions,
    TrackerOptions,
    minus_precision,
)
from apmax.torch.query_table import QueryBatch, QueryTable
from apmax.validation import check_count, check_real


class QueryLoss(IndexedLoss):
    """Base of losses of rankings within queries."""

    labels: QueryTable

    def __init__(
        self,
        outer: Callable[[Tensor], Tensor],
        num_values: int,
        labels: Any,
        groups: Any,
        **options: Unpack[PairOptions],
    ) -> None:
        table = QueryTable(labels, groups)
        super().__init__(outer, int((table.row >= 0).sum()), num_values, table, **options)

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        batch = self.labels.batch(index, scores.dtype)
        if batch is None:
            return self._skip(scores, "has no query with two relevant items and an irrelevant one")
        used = (batch.relevant > 0) | (batch.others > 0)  # elsewhere terms may overflow
        differences = torch.where(used, scores[None, :] - scores[batch.at, None], 0.0)
        inner = self._inner(differences, batch)
        weight = batch.share * self._row_weights(index[batch.at]).to(scores.dtype)
        return self._tracked_value(inner, batch.rows, batch.scale[:, None], weight[:, None])

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        """Return g̃ of every relevant item, (R, k), from s_k − s_i of all items."""
        raise NotImplementedError

    def _row_weights(self, items: Tensor) -> Tensor:
        """Return the weight of each relevant item, times the relevant items of its query."""
        return torch.ones(items.shape, device=items.device)


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
    **options
        `surrogate`, `gamma`, `from_logits`, `spread`, `tracker`, `beta0`, `schedule`, `poor_batch`
        and `process_group` of :class:`APLoss`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import QueryAPLoss
    >>> loss = QueryAPLoss([1, 0, 0, 0, 1], groups=["a", "a", "a", "b", "b"], from_logits=True)
    >>> logits = torch.tensor([2.0, 0.0, -2.0, 2.0, -2.0], requires_grad=True)
    >>> print(f"{loss(logits, torch.arange(5)):.2f}")
    -0.65
    """

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        groups: Any,
        **options: Unpack[PairOptions],
    ) -> None:
        super().__init__(minus_precision, 2, labels, groups, **options)

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        pairs = self._pairs(differences)
        own = self._pairs(torch.zeros(1, dtype=pairs.dtype, device=pairs.device))
        first = own + (pairs * batch.relevant).sum(1)
        return torch.stack([first, first + (pairs * batch.others).sum(1)], dim=1)


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
    **options
        `surrogate`, `gamma`, `from_logits`, `spread`, `tracker`, `beta0`, `schedule`, `poor_batch`
        and `process_group` of :class:`APLoss`.

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

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
        k: int | None = None,
        **options: Unpack[PairOptions],
    ) -> None:
        first = math.inf
        if k is not None:
            first = check_count(k, "k", why="it is the number of items that count")
        super().__init__(partial(_discount, first=first), 1, labels, groups, **options)
        self.k = k
        table = self.labels
        gains = _normalised_gains(
            table.relevance.numpy(), table.query.numpy(), table.num_queries, first
        )
        self.register_buffer("gains", torch.from_numpy(gains), persistent=False)

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        pairs = self._pairs(differences)
        return (pairs * (batch.relevant + batch.others)).sum(1, keepdim=True)

    def _row_weights(self, items: Tensor) -> Tensor:
        return self.gains[items] * self.labels.relevant[self.labels.query[items]]

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "k": self.k}


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
    **options
        `tracker`, `beta0`, `schedule`, `poor_batch` and `process_group` of :class:`APLoss`.

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

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
        temperature: float = 1.0,
        **options: Unpack[TrackerOptions],
    ) -> None:
        for name in ("surrogate", "gamma", "from_logits", "spread"):
            if name in options:
                raise ParameterError(
                    f"ListwiseLoss has no `{name}`: it takes logits as they are. The weight of a "
                    "moving average, which LibAUC calls gamma, is beta0"
                )
        super().__init__(_log, 1, labels, groups, spread=None, **options)
        why = "it divides the scores"
        self.temperature = check_real(temperature, "temperature", above=0, why=why)
        table = self.labels
        total = torch.zeros(table.num_queries, dtype=torch.float64)
        total.index_add_(0, table.query, table.relevance)
        shares = table.relevance / total[table.query].clamp(min=1e-300)
        self.register_buffer("shares", shares, persistent=False)

    def _inner(self, differences: Tensor, batch: QueryBatch) -> Tensor:
        terms = torch.exp(differences / self.temperature)
        return 1.0 + (terms * (batch.relevant + batch.others)).sum(1, keepdim=True)

    def _row_weights(self, items: Tensor) -> Tensor:
        return self.shares[items] * self.labels.relevant[self.labels.query[items]]

    def _settings(self) -> dict[str, Any]:
        return {"labels": self.labels.fingerprint(), "temperature": self.temperature}


def _discount(u: Tensor, first: float) -> Tensor:
    """−ψ(u) / log₂(2 + u) of the `first` items."""
    discounted = -1.0 / torch.log2(2.0 + u[:, 0])
    if first == math.inf:
        return discounted
    return discounted * torch.sigmoid(2.0 * (first - 0.5 - u[:, 0]))


def _log(u: Tensor) -> Tensor:
    return u[:, 0].log()


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
