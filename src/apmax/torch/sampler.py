"""Batches that contain positives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from apmax.errors import ParameterError
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.labels import positives_of
from apmax.torch.permutation import Permutation, Positions
from apmax.validation import check_count

CHUNK = 1 << 15
"""Examples whose order is computed at a time."""


class ResumableBatchSampler(Sampler[list[int]]):
    """Base of batch samplers whose passes can be resumed.

    A pass has a generator of its own, whose seed is drawn from that of the sampler. Every
    iteration is a new pass, also if the one before was left early. After ``load_state_dict`` the
    next iteration yields the remaining batches of the saved pass.
    """

    def __init__(
        self, generator: torch.Generator | None, num_replicas: int = 1, rank: int = 0
    ) -> None:
        why = "it is the number of processes that train together"
        check_count(num_replicas, "num_replicas", why=why)
        check_count(rank, "rank", at_least=0, why="processes are numbered from 0")
        if rank >= num_replicas:
            raise ParameterError(
                f"`rank` = {rank} must be below num_replicas = {num_replicas}: ranks start at 0"
            )
        self.generator = generator or torch.Generator().manual_seed(0)
        self.num_replicas, self.rank = num_replicas, rank
        self._start = self.generator.get_state()  # before the current pass
        self._done, self._resumed = 0, False

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of a new pass, or those that a loaded pass has left."""
        first = self._done if self._resumed else 0
        self._resumed = False
        if first >= len(self):
            first = 0
        if first == 0:
            self._start = self.generator.get_state()
        else:
            self.generator.set_state(self._start)
        seed = int(torch.randint(1 << 62, (), generator=self.generator))
        start, self._done = self._start, first
        batches = self._batches(torch.Generator().manual_seed(seed), first)
        for number, batch in enumerate(batches, first + 1):
            if self._start is start:  # otherwise a newer pass has begun
                self._done = number
            yield batch

    def state_dict(self, batches_done: int | None = None) -> dict[str, Any]:
        """Return the position in the pass.

        Parameters
        ----------
        batches_done : int, optional
            Number of batches trained, if training is behind the sampler, as with the workers of a
            DataLoader. The default is the number of batches drawn.
        """
        done = self._done if batches_done is None else self._checked_done(batches_done)
        return {"generator": self._start, "batches_done": done, "data": self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume: the next iteration yields the batch after the last one done.

        Parameters
        ----------
        state : dict
            What `state_dict` of a sampler of the same data and sizes returned.
        """
        if state.get("data") != self._identity():
            raise ParameterError(
                f"the checkpoint has other data or batches ({state.get('data')} instead of "
                f"{self._identity()}): create the sampler with the same labels and sizes"
            )
        done = self._checked_done(state.get("batches_done"))
        try:  # before the state changes
            start = state["generator"].cpu()
            torch.Generator().set_state(start)
        except (KeyError, AttributeError, TypeError, RuntimeError) as error:
            raise ParameterError(
                "the checkpoint is damaged: its `generator` is not the state of a torch.Generator; "
                "take an older one"
            ) from error
        self._start, self._done = start, done
        self._resumed = 0 < done < len(self)
        self.generator.set_state(self._start)
        if done == len(self):  # the next pass has the next seed
            torch.randint(1 << 62, (), generator=self.generator)

    def _batches(self, generator: torch.Generator, first: int) -> Iterator[list[int]]:
        """Yield the batches of a pass from number `first` on."""
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        """Fingerprint of the data and of the batches of all replicas."""
        raise NotImplementedError

    def _checked_done(self, batches_done: Any) -> int:
        why = "it is a number of batches"
        done = check_count(batches_done, "batches_done", at_least=0, why=why)
        if done > len(self):
            raise ParameterError(
                f"`batches_done` = {done} exceeds the {len(self)} batches of a pass"
            )
        return done

    def _own(self, shared: Positions) -> list[int]:
        """Part of a batch for this replica."""
        whole, rest = divmod(shared.size, self.num_replicas)
        start = self.rank * whole + min(self.rank, rest)
        own: list[int] = shared[start : start + whole + (self.rank < rest)].tolist()
        return own


class PositiveNegativeBatchSampler(ResumableBatchSampler):
    """Batch sampler with a fixed number of positives per batch.

    A pass shows every negative once. Positives are shown equally often; counts differ by at most
    one. No batch holds an example twice. The last batch of a pass holds the remaining negatives.

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
    num_replicas : int, default=1
        Number of processes that train together. The batches of all replicas form one batch of
        num_replicas · batch_size examples.
    rank : int, default=0
        Number of this process, from 0.

    Notes
    -----
    Pass it to a DataLoader as ``batch_sampler``. Every iteration is a new pass. ``state_dict`` in
    the middle of a pass resumes there. A DataLoader with workers reads ahead of training; pass the
    number of batches trained, ``state_dict(batches_done=…)``.

    Memory is 8 bytes per positive; the order of the negatives is computed as they are needed.

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

    @explains_foreign_keywords
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
        super().__init__(generator, num_replicas, rank)
        positive = positives_of(labels)
        self.positives: Positions = np.flatnonzero(positive)
        self.num_negatives = positive.size - self.positives.size
        if positives_per_batch is None:
            available = max(1, self.positives.size // num_replicas)
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
        if self.plus > self.positives.size:
            raise ParameterError(
                f"`positives_per_batch` = {positives_per_batch} on {num_replicas} replicas exceeds "
                f"the {self.positives.size} positives of the data: lower it"
            )
        if self.plus == 1 and self.positives.size > 1:
            raise ParameterError(
                "`positives_per_batch` = 1 does not rank positives against each other: use at "
                "least 2, and a batch_size of 3 or more"
            )

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        return (self.num_negatives + self.minus - 1) // self.minus

    def _batches(self, generator: torch.Generator, first: int) -> Iterator[list[int]]:
        before = self.positives - np.arange(self.positives.size)  # negatives before each positive
        order = Permutation(self.num_negatives, generator)
        positives = cycled_batches(self.positives.size, self.plus, generator)
        for _ in range(first):
            next(positives)
        per_chunk = max(1, CHUNK // self.minus)
        for start in range(first, len(self), per_chunk):
            stop = min(start + per_chunk, len(self))
            numbers = order(start * self.minus, stop * self.minus)
            chunk = numbers + np.searchsorted(before, numbers, side="right")
            for k in range(stop - start):
                plus = self._own(self.positives[next(positives)])
                yield plus + self._own(chunk[k * self.minus : (k + 1) * self.minus])

    def _identity(self) -> dict[str, Any]:
        return {
            "positives": self.positives.size,
            "negatives": self.num_negatives,
            "positives_per_batch": self.plus,
            "negatives_per_batch": self.minus,
            "sum_of_positives": int(self.positives.sum()),
        }


def cycled_batches(count: int, size: int, generator: torch.Generator) -> Iterator[Positions]:
    """Yield batches of `size` distinct numbers below `count` from consecutive permutations."""
    rest: Positions = np.empty(0, np.int64)
    while True:
        order = torch.randperm(count, generator=generator).numpy()
        missing = size - rest.size if rest.size else 0
        if missing:  # complete the last batch without a repetition
            repeated = np.isin(order, rest)
            fresh = order[~repeated]
            later = np.concatenate([fresh[missing:], order[repeated]])
            yield np.concatenate([rest, fresh[:missing]])
            order = later[torch.randperm(later.size, generator=generator).numpy()]
        whole = order.size // size * size
        for start in range(0, whole, size):
            yield order[start : start + size]
        rest = order[whole:]
