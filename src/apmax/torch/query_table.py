r"""Items of queries: the pairs of an item are those of its own query.

A batch holds some items of some queries. Query q has N items, m of them relevant; in the batch
these are b and B. Sums over all other items of the query are estimated class by class:

.. math:: \sum_{k \in q, k \neq i} h_k \approx \frac{m - 1}{B - 1} \sum_{k \in \mathcal B, y_k > 0}
          h_k + \frac{N - m}{b - B} \sum_{k \in \mathcal B, y_k = 0} h_k
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from apmax.errors import LabelError, NoPositiveError, ShapeError
from apmax.torch.labels import WHAT_INDEX_IS
from apmax.validation import check_scores


class QueryBatch(NamedTuple):
    """The R relevant items of a batch, and the weights of their pairs and rows."""

    at: Tensor  # (R,), position in the batch
    rows: Tensor  # (R,), rows of U
    relevant: Tensor  # (R, B), weights of the pairs with other relevant items of the query
    others: Tensor  # (R, B), weights of the pairs with irrelevant items of the query
    share: Tensor  # (R,), 1 / (number of queries · B of the query): a mean over queries and rows
    scale: Tensor  # (R,), m/B times the share of queries in the batch


class QueryTable(torch.nn.Module):
    """Relevance and query of every item; the relevant items are the rows of U."""

    num_labels = 1
    relevance: Tensor
    query: Tensor
    row: Tensor
    items: Tensor
    relevant: Tensor

    def __init__(self, relevance: Any, groups: Any) -> None:
        super().__init__()
        values = check_scores(_as_numpy(relevance), name="labels")
        names = _as_numpy(groups)
        if names.shape != values.shape:
            raise ShapeError(
                f"`groups` has shape {names.shape} and `labels` {values.shape}: pass the query of "
                "every item"
            )
        if values.min() < 0:
            raise LabelError("`labels` must be relevances ≥ 0: write irrelevant items as 0")
        if not values.any():
            raise NoPositiveError("`labels` holds no relevant item: a ranking needs one")
        found, query = np.unique(names, return_inverse=True)
        self.num_queries, self.examples = found.size, values.size
        above = values > 0
        row = np.full(values.size, -1)
        row[above] = np.arange(above.sum())
        for name, array in (
            ("relevance", values),
            ("query", query.astype(np.int64)),
            ("row", row),
            ("items", np.bincount(query, minlength=found.size)),
            ("relevant", np.bincount(query[above], minlength=found.size)),
        ):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def fingerprint(self) -> str:
        """Return a text that identifies the items in a checkpoint."""
        content = torch.cat([self.relevance, self.query.double()]).cpu().numpy().tobytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"{self.examples} items of {self.num_queries} queries, sha256 {digest}"

    def check_given(self, index: Tensor, given: Tensor) -> None:
        """Check that the relevances of a batch are those of the table."""
        expected, found = self.relevance[index], given.to(self.relevance.dtype)
        wrong = (expected != found).nonzero()[:, 0]
        if wrong.numel():
            k = int(wrong[0])
            raise LabelError(
                f"`labels` and `index` disagree for {wrong.numel()} of {len(index)} items: item "
                f"{int(index[k])} has relevance {expected[k]:g} for the loss and {found[k]:g} in "
                f"this batch. {WHAT_INDEX_IS}"
            )

    def batch(self, index: Tensor, dtype: torch.dtype) -> QueryBatch | None:
        """Return the relevant items that have a ranking in the batch; None if there are none."""
        query, row = self.query[index], self.row[index]
        mine = torch.zeros(2, self.num_queries, dtype=torch.int64, device=index.device)
        mine[0].index_add_(0, query, torch.ones_like(query))
        mine[1].index_add_(0, query, (row >= 0).long())
        items, relevant = self.items, self.relevant
        enough = (mine[1] >= relevant.clamp(max=2)) & ((mine[0] > mine[1]) | (items == relevant))
        usable = enough & (relevant > 0) & (items > 1)
        at = ((row >= 0) & usable[query]).nonzero()[:, 0]
        if not at.numel():
            return None
        q = query[at]
        same = query[None, :] == q[:, None]
        same[torch.arange(at.numel(), device=at.device), at] = False
        total, here = items.to(dtype), mine.to(dtype)
        m = relevant.to(dtype)
        plus = (m - 1) / (here[1] - 1).clamp(min=1)
        minus = (total - m) / (here[0] - here[1]).clamp(min=1)
        in_batch = usable.sum().to(dtype)
        ranked = (relevant > 0) & (items > 1)
        return QueryBatch(
            at=at,
            rows=row[at],
            relevant=(same & (row >= 0)[None, :]) * plus[q][:, None],
            others=(same & (row < 0)[None, :]) * minus[q][:, None],
            share=1.0 / (in_batch * here[1][q]),
            scale=m[q] / here[1][q] * (ranked.sum() / in_batch),
        )


def _as_numpy(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values)
