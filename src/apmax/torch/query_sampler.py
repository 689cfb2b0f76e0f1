"""Batches of a few queries, with relevant and irrelevant items of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from apmax.errors import ParameterError
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.permutation import Positions
from apmax.torch.query_table import QueryTable
from apmax.torch.sampler import ResumableBatchSampler, cycled_batches
from apmax.validation import check_count


class QueryBatchSampler(ResumableBatchSampler):
    """Batch sampler for losses of rankings within queries.

    A batch holds `queries_per_batch` queries, and of each a number of relevant and of irrelevant
    items (or all, if it has fewer). A pass shows every query that can be ranked once. Items of
    a query are drawn anew in every pass.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Relevance ≥ 0 of all items.
    groups : array-like of shape (n,)
        Query of each item.
    queries_per_batch : int, default=8
        Queries per batch on each replica.
    relevant_per_query : int, default=4
        Most relevant items of a query in a batch.
    irrelevant_per_query : int, default=12
        Most irrelevant items of a query in a batch.
    generator, num_replicas, rank
        See :class:`PositiveNegativeBatchSampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from apmax.torch import QueryBatchSampler
    >>> groups = np.repeat(np.arange(6), 10)
    >>> labels = np.tile([2, 1, 1, 0, 0, 0, 0, 0, 0, 0], 6)
    >>> sampler = QueryBatchSampler(labels, groups, 2, 2, 4)
    >>> [len(batch) for batch in sampler]
    [12, 12, 12]
    """

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        groups: Any,
        queries_per_batch: int = 8,
        relevant_per_query: int = 4,
        irrelevant_per_query: int = 12,
        *,
        generator: torch.Generator | None = None,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        super().__init__(generator, num_replicas, rank)
        self.queries = check_count(
            queries_per_batch, "queries_per_batch", why="it is the number of queries in a batch"
        )
        why = "two relevant items are ranked against each other"
        self.plus = check_count(relevant_per_query, "relevant_per_query", at_least=2, why=why)
        why = "relevant items are ranked against irrelevant ones"
        self.minus = check_count(irrelevant_per_query, "irrelevant_per_query", why=why)
        table = QueryTable(labels, groups)
        order = np.argsort(table.query.numpy(), kind="stable")
        ends = np.cumsum(table.items.numpy())[:-1]
        relevance = table.relevance.numpy()
        self.items: list[tuple[Positions, Positions]] = []
        for part in np.split(order, ends):
            above = relevance[part] > 0
            if above.any() and part.size > 1:
                self.items.append((part[above], part[~above]))
        if not self.items:
            raise ParameterError("no query has a relevant item and another one: nothing to rank")
        self.fingerprint = table.fingerprint()

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        together = self.queries * self.num_replicas
        return (len(self.items) + together - 1) // together

    def _batches(self, generator: torch.Generator, first: int) -> Iterator[list[int]]:
        order = torch.randperm(len(self.items), generator=generator).numpy()
        together = self.queries * self.num_replicas
        seed = int(torch.randint(1 << 62, (), generator=generator))
        for number in range(first, len(self)):
            batch = order[number * together : (number + 1) * together]
            own = np.array_split(batch, self.num_replicas)[self.rank]
            items: list[int] = []
            for query in own.tolist():
                of_query = torch.Generator().manual_seed((seed + query) % (1 << 63))
                for part, most in zip(self.items[query], (self.plus, self.minus), strict=True):
                    if part.size:
                        drawn = next(cycled_batches(part.size, min(most, part.size), of_query))
                        items.extend(part[drawn].tolist())
            yield items

    def _identity(self) -> dict[str, Any]:
        return {
            "items": self.fingerprint,
            "queries_per_batch": self.queries * self.num_replicas,
            "relevant_per_query": self.plus,
            "irrelevant_per_query": self.minus,
        }
