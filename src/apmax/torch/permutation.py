r"""Random permutations whose entries are computed when they are needed.

A permutation of 10⁷ numbers as an array takes 80 MB and a second. Here it is a Feistel network, as
in format-preserving encryption: `ROUNDS` rounds on the bits of a position, with a mixing function
that is keyed by a seed. A result beyond the size is permuted again until it is below ("cycle
walking"). Small permutations are arrays drawn uniformly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Positions = NDArray[np.int64]
LARGEST_ARRAY = 1 << 18
"""Sizes up to this are permuted by an array."""
ROUNDS = 8
"""An even number, so that the halves have their first sizes again at the end."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64


class Permutation:
    """A random permutation of 0, …, size − 1, drawn from a generator."""

    def __init__(self, size: int, generator: torch.Generator) -> None:
        self.size = size
        self.array: Positions | None = None
        if size <= LARGEST_ARRAY:
            self.array = torch.randperm(size, generator=generator).numpy()
        else:
            keys = torch.randint(1 << 62, (ROUNDS,), generator=generator)
            self.keys = keys.numpy().astype(np.uint64)
            self.bits = (size - 1).bit_length()

    def __call__(self, start: int, stop: int) -> Positions:
        """Return entries `start` to `stop` − 1."""
        stop = min(stop, self.size)
        if self.array is not None:
            return self.array[start:stop]
        found = self._walk(np.arange(start, stop, dtype=np.uint64))
        outside = np.flatnonzero(found >= self.size)
        while outside.size:
            found[outside] = self._walk(found[outside])
            outside = outside[found[outside] >= self.size]
        return found.astype(np.int64)

    def _walk(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Permute numbers of `bits` bits."""
        high, low = self.bits // 2, self.bits - self.bits // 2
        for key in self.keys:
            right = x & _ones(low)
            left = (x >> np.uint64(low)) ^ (_mixed(right + key) & _ones(high))
            x = (right << np.uint64(high)) | left
            high, low = low, high
        return x


def _ones(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def _mixed(x: Any) -> Any:
    """Mix 64 bits so that each depends on all (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))
