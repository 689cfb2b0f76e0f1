"""Batches that contain positives, and datasets that yield the index of each example."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from apmax.errors import ParameterError
from apmax.torch.labels import positives_of
from apmax.validation import check_count


class PositiveNegativeBatchSampler(Sampler[list[int]]):
    """Batch sampler with a fixed number of positives per batch.

    A pass shows every negative once, and every positive equally often (up to one). No batch
    holds an example twice. The last batch of a pass holds the remaining negatives.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        bool, {0, 1} or {-1, 1}.
    batch_size : int
        Examples per batch on each replica.
    positives_per_batch : int, default=None
        Positives per batch on each replica. None is a quarter of the batch, at least 2.
    generator : torch.Generator, default=None
        Source of randomness; None is a new generator with seed 0. Replicas must have generators
        of the same seed.
    num_replicas, rank : int, default=1 and 0
        Number of processes that train together, and the number of this process. The batches of
        all replicas form one batch of num_replicas · batch_size examples.

    Notes
    -----
    ``state_dict`` in the middle of a pass resumes there. A DataLoader with workers reads ahead of
    training; pass the number of batches trained, ``state_dict(batches_done=…)``.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import PositiveNegativeBatchSampler
    >>> labels = torch.arange(100) < 5
    >>> sampler = PositiveNegativeBatchSampler(labels, batch_size=12, positives_per_batch=2)
    >>> batches = list(sampler)
    >>> len(batches), [sum(i < 5 for i in batch) for batch in batches[:3]]
    (10, [2, 2, 2])
    """

    def __init__(
        self,
        labels: Any,
        batch_size: int,
        positives_per_batch: int | None = None,
        *,
        generator: torch.Generator | None = None,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        check_count(batch_size, "batch_size", at_least=2, why="a batch holds both classes")
        why = "it is the number of processes that train together"
        check_count(num_replicas, "num_replicas", why=why)
        check_count(rank, "rank", at_least=0, why="processes are numbered from 0")
        if rank >= num_replicas:
            raise ParameterError(
                f"`rank` = {rank} must be below num_replicas = {num_replicas}: ranks start at 0"
            )
        positive = torch.from_numpy(positives_of(labels).copy())
        self.positives = positive.nonzero()[:, 0]
        self.negatives = (~positive).nonzero()[:, 0]
        if positives_per_batch is None:
            available = max(1, self.positives.numel() // num_replicas)
            positives_per_batch = min(max(2, batch_size // 4), batch_size - 1, available)
        why = "a batch needs positives"
        check_count(positives_per_batch, "positives_per_batch", why=why)
        if positives_per_batch >= batch_size:
            raise ParameterError(
                f"`positives_per_batch` = {positives_per_batch} leaves no room for negatives in a "
                f"batch of {batch_size}: lower it"
            )
        self.plus = positives_per_batch * num_replicas
        self.minus = (batch_size - positives_per_batch) * num_replicas
        if self.plus > self.positives.numel():
            raise ParameterError(
                f"`positives_per_batch` = {positives_per_batch} on {num_replicas} replicas exceeds "
                f"the {self.positives.numel()} positives of the data: lower it"
            )
        if self.plus == 1 and self.positives.numel() > 1:
            raise ParameterError(
                "`positives_per_batch` = 1 does not rank positives against each other: use at "
                "least 2, and a batch_size of 3 or more"
            )
        self.generator = generator or torch.Generator().manual_seed(0)
        self.num_replicas, self.rank = num_replicas, rank
        self._start = self.generator.get_state()  # of the current pass
        self._done = 0

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        return (self.negatives.numel() + self.minus - 1) // self.minus

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the remaining batches of the current pass, or a new pass."""
        if self._done >= len(self):
            self._done = 0
        if self._done == 0:
            self._start = self.generator.get_state()
        else:
            self.generator.set_state(self._start)
        negatives = self.negatives[self._shuffled(self.negatives.numel())]
        positives = self._positives_of_a_pass()
        for k in range(self._done, len(self)):
            plus = positives[k * self.plus : (k + 1) * self.plus]
            minus = negatives[k * self.minus : (k + 1) * self.minus]
            self._done = k + 1
            yield torch.cat([self._own(plus), self._own(minus)]).tolist()

    def state_dict(self, batches_done: int | None = None) -> dict[str, Any]:
        """Return the position in the pass; set `batches_done` if training is behind the sampler."""
        done = self._done if batches_done is None else self._checked_done(batches_done)
        return {"generator": self._start, "batches_done": done, "data": self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume: the next iteration yields the batch after the last one done."""
        if state.get("data") != self._identity():
            raise ParameterError(
                f"the checkpoint has other data or batches ({state.get('data')} instead of "
                f"{self._identity()}): create the sampler with the same labels and sizes"
            )
        done = self._checked_done(state["batches_done"])
        generator = torch.Generator()
        generator.set_state(state["generator"].cpu())  # raises before the state changes
        self._start, self._done = state["generator"].cpu(), done
        self.generator.set_state(self._start)
        if done == len(self):  # the next pass continues with the generator of this one
            self._shuffled(self.negatives.numel())
            self._positives_of_a_pass()
            self._start, self._done = self.generator.get_state(), 0

    def _positives_of_a_pass(self) -> Tensor:
        """Consecutive permutations of the positives, without a repetition inside a batch."""
        wanted, m = len(self) * self.plus, self.positives.numel()
        parts: list[Tensor] = []
        taken = 0
        while taken < wanted:
            order = self._shuffled(m)
            open_places = -taken % self.plus  # in the last, incomplete batch
            if open_places:
                in_batch = parts[-1][-(self.plus - open_places) :]
                repeated = torch.isin(order, in_batch)
                fresh = order[~repeated]
                later = torch.cat([fresh[open_places:], order[repeated]])
                mixed = later[self._shuffled(later.numel())]
                order = torch.cat([fresh[:open_places], mixed])
            parts.append(order)
            taken += m
        return self.positives[torch.cat(parts)[:wanted]]

    def _checked_done(self, batches_done: int) -> int:
        done = check_count(
            batches_done, "batches_done", at_least=0, why="it is a number of batches"
        )
        if done > len(self):
            raise ParameterError(
                f"`batches_done` = {done} exceeds the {len(self)} batches of a pass"
            )
        return done

    def _identity(self) -> dict[str, int]:
        """Fingerprint of the data and of the batches of all replicas."""
        return {
            "positives": self.positives.numel(),
            "negatives": self.negatives.numel(),
            "positives_per_batch": self.plus,
            "negatives_per_batch": self.minus,
            "sum_of_positives": int(self.positives.sum()),
        }

    def _own(self, shared: Tensor) -> Tensor:
        """Part of a batch for this replica."""
        return shared.tensor_split(self.num_replicas)[self.rank]

    def _shuffled(self, size: int) -> Tensor:
        return torch.randperm(size, generator=self.generator)


class IndexedDataset(Dataset[tuple[Any, ...]]):
    """Map-style dataset that appends the index to every item, for ``APLoss``.

    Parameters
    ----------
    dataset : Dataset or sequence
        A dataset with a length and items by number.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from apmax.torch import IndexedDataset
    >>> data = IndexedDataset(TensorDataset(torch.zeros(3, 2), torch.tensor([0, 1, 0])))
    >>> x, y, index = data[2]
    >>> index
    2
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise ParameterError(
                f"`dataset` = {type(dataset).__name__} must have a length and items by number: an "
                "iterable dataset has no index"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        """Return the number of items."""
        return len(cast(Sized, self.dataset))

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """Return the parts of the item, then its index."""
        index = range(len(self))[index]  # counts from 0, also for a negative index
        item = self.dataset[index]
        parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
        return (*parts, index)
