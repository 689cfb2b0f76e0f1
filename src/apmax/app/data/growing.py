"""An array that grows to an unknown length without ever being in memory twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

FIRST, LARGEST = 1 << 14, 1 << 22
"""Elements of a chunk: they double, up to what the system gives back when it is freed."""


class GrowingArray:
    """Chunks that are filled in turn and become one array in the end."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._full: list[NDArray[Any]] = []
        self._chunk: NDArray[Any] = np.empty(0, self.dtype)
        self._used = 0

    def room(self, count: int) -> NDArray[Any]:
        """At least `count` free elements to write to; :meth:`keep` says how many were."""
        if self._chunk.size - self._used < count or self._chunk.dtype != self.dtype:
            self._seal()
            if self._chunk.size < count or self._chunk.dtype != self.dtype:
                usual = min(max(self.size, FIRST), LARGEST)
                self._chunk = np.empty(max(count, usual), self.dtype)
        return self._chunk[self._used :]

    def _seal(self) -> None:
        """Put the chunk aside, or only what is in it if that is less than half."""
        used = self._chunk[: self._used]
        if 2 * self._used < self._chunk.size:
            self._full.append(used.copy())
        else:
            self._full.append(used)
            self._chunk = np.empty(0, self.dtype)
        self._used = 0

    def keep(self, count: int) -> None:
        """The next `count` elements have been written."""
        self._used += count
        self.size += count

    def join(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """All elements; the chunks are freed one by one as they are copied."""
        chunks = [*self._full, self._chunk[: self._used]]
        self._full, self._chunk, self._used = [], np.empty(0, self.dtype), 0
        whole = np.empty(self.size, dtype or self.dtype)
        at = 0
        for k in range(len(chunks)):
            chunk, chunks[k] = chunks[k], np.empty(0)
            whole[at : at + chunk.size] = chunk
            at += chunk.size
        return whole
