"""Compositional losses over pairs of a positive and a negative example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from apmax.torch.indexed_loss import IndexedLoss
from apmax.torch.labels import LabelTable, positives_of


class ClassPairLoss(IndexedLoss):
    """Base of losses whose rows are the examples of one class, paired with those of the other."""

    rows_are_positive = True

    def __init__(self, outer: Callable[[Tensor], Tensor], labels: Any, **options: Any) -> None:
        positive = positives_of(labels)
        count = int(positive.sum())
        rows = count if self.rows_are_positive else positive.size - count
        super().__init__(outer, rows, 1, positive.size, **options)
        self.labels = LabelTable(positive if self.rows_are_positive else ~positive)

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        rows, own, others = (one[0] for one in self.labels.lookup(index))
        if not bool(own.any()) or not bool(others.any()):
            return self._skip(scores, "lacks positives or negatives")
        rows = rows[own]
        sign = 1.0 if self.rows_are_positive else -1.0
        # ℓ(s⁻ − s⁺), one row per own example
        losses = self._pairs(sign * (scores[others][None, :] - scores[own][:, None]))
        scale, weight = self.num_rows / rows.numel(), 1.0 / rows.numel()
        return self._tracked_value(self._inner(losses), rows, scale, weight)

    def _inner(self, losses: Tensor) -> Tensor:
        """Return the estimates g̃ of each row, (rows, 1), from its pairs."""
        raise NotImplementedError

    def _settings(self) -> dict[str, Any]:
        return {"labels": self.labels.fingerprint(), **super()._settings()}

    def _own_buffers(self) -> list[Tensor]:
        return [*super()._own_buffers(), *self.labels.buffers()]
