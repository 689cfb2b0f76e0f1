"""Batches that contain positives of several labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from apmax.errors import ParameterError
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.labels import LabelTable
from apmax.torch.permutation import Permutation, Positions
from apmax.torch.sampler import ResumableBatchSampler, cycled_batches
from apmax.validation import check_count


class MultiLabelBatchSampler(ResumableBatchSampler):
    """Batch sampler in which several labels have positives in every batch.

    A batch has at least `positives_per_label` positives of each of `labels_per_batch` labels, or
    all that a label has. The labels take turns, so that rare labels are ranked as often as frequent
    ones, and so do the positives of a label. The rest of a batch is drawn from all examples. A pass
    shows every example at least once. No batch holds an example twice; one that is drawn twice
    makes the batch smaller.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n, L)
        1, 0, and NaN or -1 for a missing label.
    batch_size : int
        Most examples per batch on each replica.
    labels_per_batch : int, default=4
        Labels that have at least `positives_per_label` positives in the batch of all replicas;
        labels with fewer than two positives are not counted.
    positives_per_label : int, default=4
        Positives of each of these labels in the batch of all replicas.
    generator, num_replicas, rank
        See :class:`PositiveNegativeBatchSampler`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import MultiLabelBatchSampler
    >>> labels = torch.stack([torch.arange(100) % 50 == 0, torch.arange(100) > 70], dim=1)
    >>> sampler = MultiLabelBatchSampler(labels, 16, labels_per_batch=2, positives_per_label=2)
    >>> all((labels[batch].sum(0) >= 2).all() for batch in sampler)
    True
    """

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        batch_size: int,
        labels_per_batch: int = 4,
        positives_per_label: int = 4,
        *,
        generator: torch.Generator | None = None,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        super().__init__(generator, num_replicas, rank)
        check_count(batch_size, "batch_size", at_least=2, why="a batch holds both classes")
        why = "it is the number of labels that have positives in a batch"
        check_count(labels_per_batch, "labels_per_batch", why=why)
        why = "a ranking needs two positives"
        check_count(positives_per_label, "positives_per_label", at_least=2, why=why)
        table = LabelTable(labels)
        self.examples: int = table.examples
        self.num_labels: int = table.num_labels
        ends = np.cumsum(table.positives.numpy())[:-1]
        parts = np.split(table.cells.numpy() % self.examples, ends)
        self.positives: list[Positions] = [part for part in parts if part.size >= 2]
        if not self.positives:
            raise ParameterError("no label has two positives: there is nothing to rank")
        self.size = min(batch_size * num_replicas, self.examples)
        self.per_batch = min(labels_per_batch, len(self.positives))
        self.per_label = positives_per_label
        self.fill: int = self.size - self.per_batch * positives_per_label
        if self.fill < 1:
            raise ParameterError(
                f"`batch_size` = {batch_size} on {num_replicas} replicas cannot hold "
                f"{positives_per_label} positives of {self.per_batch} labels and other examples: "
                "increase it, or lower labels_per_batch or positives_per_label"
            )

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        return int(-(-self.examples // self.fill))

    def _batches(self, generator: torch.Generator, first: int) -> Iterator[list[int]]:
        order = Permutation(self.examples, generator)
        turns = cycled_batches(len(self.positives), self.per_batch, generator)
        seeds = torch.randint(1 << 62, (len(self.positives),), generator=generator).tolist()
        queues = [
            cycled_batches(
                part.size, min(self.per_label, part.size), torch.Generator().manual_seed(seed)
            )
            for part, seed in zip(self.positives, seeds, strict=True)
        ]
        for number in range(len(self)):
            chosen = [self.positives[k][next(queues[k])] for k in next(turns)]
            if number < first:
                continue
            own = order(number * self.fill, (number + 1) * self.fill)
            batch, at = np.unique(np.concatenate([*chosen, own]), return_index=True)
            own_part: list[int] = batch[np.argsort(at)][self.rank :: self.num_replicas].tolist()
            yield own_part

    def _identity(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "labels": self.num_labels,
            "sum_of_positives": int(sum(int(part.sum()) for part in self.positives)),
            "batch": self.size,
            "labels_per_batch": self.per_batch,
            "positives_per_label": self.per_label,
        }
