"""Folds over blocks of rows: the one operation that fits at scale need.

An engine applies a function to every block and merges the results in the order of the blocks, so
that the result does not depend on threads or workers. Blocks may lie in memory, in files or in a
Dask cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from apmax.linear.history import OnProgress, ProgressLog
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.validation import Floats, Mask, kernel_view

T = TypeVar("T")
Item = TypeVar("Item")
BLOCK_ENTRIES = 1 << 21
"""Entries of X in a block: 16 MB of doubles."""
LARGEST_WEIGHT = 1e100
"""Largest weight, and inverse of the least largest one, for which sums of products are finite."""


class Block(NamedTuple):
    """Some rows of the training data."""

    X: Any
    """Float32 or float64, dense in C order or CSR."""
    positive: Mask
    weight: Floats
    """Weights of the rows; empty for all ones."""


class Engine:
    """Anything that can fold over blocks."""

    features: int
    sparse: bool

    def fold(
        self,
        function: Callable[..., T],
        merge: Callable[[T, T], T],
        *arguments: Any,
        finish: Callable[..., Any] | None = None,
    ) -> Any:
        """Return ``function(block, *arguments)`` of all blocks, merged in their order.

        With `finish`, ``finish(merged, *arguments)`` is returned instead. It runs where the results
        are merged, so that only its result is sent to the client of a cluster.
        """
        merged = self.merged(lambda block: function(block, *arguments), merge)
        return merged if finish is None else finish(merged, *arguments)

    def merged(self, call: Callable[[Block], T], merge: Callable[[T, T], T]) -> T:
        """Return the results of a call with each block, merged in their order."""
        raise NotImplementedError


class MemoryBlocks(Engine):
    """Blocks of arrays in memory, or of a memory-mapped file.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Float32 or float64.
    positive : ndarray of bool of shape (n,)
        The mask of positives.
    weight : ndarray of shape (n,), optional
        Weights.
    rows : int, optional
        Rows of a block.
    """

    def __init__(
        self, X: Any, positive: Mask, weight: Floats | None = None, rows: int | None = None
    ) -> None:
        self.X, self.positive = X, positive
        self.weight = NO_WEIGHTS if weight is None else weight
        self.features = int(X.shape[1])
        self.sparse = not isinstance(X, np.ndarray)
        self.rows = rows or block_rows(self.features)

    def merged(self, call: Callable[[Block], T], merge: Callable[[T, T], T]) -> T:
        """Return the results of a call with each block, merged in their order."""

        def of_block(start: int) -> T:
            result = call(self.block(start))
            self.release(start)
            return result

        return merged_in_order(of_block, self.starts, merge)

    def release(self, start: int) -> None:
        """Free what a block has loaded: nothing for arrays in memory."""

    @property
    def starts(self) -> range:
        """First rows of the blocks."""
        return range(0, self.positive.size, self.rows)

    def block(self, start: int) -> Block:
        """Return the block that begins at a row."""
        rows = slice(start, start + self.rows)
        X = self.X[rows]
        return Block(
            X if self.sparse else kernel_view(X),
            kernel_view(self.positive[rows]),
            kernel_view(self.weight[rows]) if self.weight.size else NO_WEIGHTS,
        )


def block_rows(features: int) -> int:
    """Return the number of rows of a block with about `BLOCK_ENTRIES` entries."""
    return max(1024, BLOCK_ENTRIES // max(1, features))


def merged_in_order(
    call: Callable[[Item], T], items: Iterable[Item], merge: Callable[[T, T], T]
) -> T:
    """Call with each item on Numba's number of threads and merge the results in order.

    At most twice as many results as threads wait, so that `items` may be read lazily.
    """
    from numba import get_num_threads

    threads = int(get_num_threads())
    waiting: deque[Future[T]] = deque()
    result: list[T] = []

    def take() -> None:
        found = waiting.popleft().result()
        result[:] = [merge(result[0], found)] if result else [found]

    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(call, item))
                if len(waiting) >= 2 * threads:
                    take()
            while waiting:
                take()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return result[0]


class Progress:
    """Progress of a fit, to the log and to a callback (stage, done, total, AP)."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self.log, self.on_progress = ProgressLog(), on_progress

    def report(self, stage: str, done: int, of: int, ap: float = float("nan")) -> None:
        """Report a step."""
        self.log.report(stage, done, of, ap)
        if self.on_progress is not None:
            self.on_progress(stage, done, of, ap)
