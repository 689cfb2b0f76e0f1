"""Compiled loops over plain arrays, one file per algorithm; everything else is NumPy.

Importing this package imports Numba, which takes a quarter of a second, so the functions
that need a kernel import it when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from numba import get_num_threads, njit
from numba.core import event
from numpy.typing import NDArray

Function = Callable[..., Any]


def kernel(function: Function) -> Function:
    """Compile at first call and keep the machine code on disk for the next process.

    Where no folder for a cache can be written, or the disk is full, every process compiles for
    itself.
    """
    return _compiled(function)


def reordering_kernel(function: Function) -> Function:
    """A kernel whose sums may be taken in another order, so several terms at a time.

    Only for short sums: the order is the machine's, and so is the last bit.
    """
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    compiled: Function
    try:
        compiled = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # "cannot cache function: no locator available"
        return njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    _save_only_if_possible(compiled)
    return compiled


def _save_only_if_possible(compiled: Any) -> None:
    """Machine code that cannot be stored can still be run: a full disk is no reason to stop."""
    cache = getattr(compiled, "_cache", None)
    if cache is None:  # NUMBA_DISABLE_JIT
        return
    save = cache.save_overload

    def save_overload(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.save_overload = save_overload


THREADS_FROM = 1 << 22
"""Elements from which a second thread pays for its start."""


def over_threads(
    loop: Callable[..., None], size: int, *arguments: Any, work: int | None = None
) -> None:
    """Run ``loop(begin, end, *arguments)`` over 0 … size, in parts on several threads.

    Only for loops whose iterations are independent: the result is the same to the last bit
    for any number of threads. `work` is the number of elements that count, if not `size`.
    """
    parts = _threads() if (work or size) >= THREADS_FROM else 1
    _run_parts([(loop, *span, *arguments) for span in _spans(size, parts)])


def table_over_threads(
    loop: Callable[..., None], size: int, shape: tuple[int, ...], *arguments: Any
) -> NDArray[np.float64]:
    """Run ``loop(begin, end, *arguments, table)`` over 0 … size and return the summed tables.

    Long loops always add into two tables, on one thread or two, so that the order of the
    additions, and with it the last bit, does not depend on the number of threads.
    """
    parts = 2 if size >= THREADS_FROM else 1
    tables = [np.zeros(shape) for _ in range(parts)]
    spans = _spans(size, parts)
    _run_parts([(loop, *span, *arguments, t) for span, t in zip(spans, tables, strict=True)])
    for table in tables[1:]:
        tables[0] += table
    return tables[0]


def _threads() -> int:
    """Numba's thread count, which joblib's workers and NUMBA_NUM_THREADS limit."""
    return int(get_num_threads())


def _spans(size: int, parts: int) -> list[tuple[int, int]]:
    edges = [size * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def _run_parts(calls: list[tuple[Any, ...]]) -> None:
    threads = min(len(calls), _threads()) if len(calls) > 1 else 1
    if threads == 1:
        for loop, *arguments in calls:
            loop(*arguments)
        return
    with ThreadPoolExecutor(threads) as pool:
        for part in [pool.submit(*call) for call in calls]:
            part.result()


class _SayThatItCompiles(event.Listener):
    """One line on stderr when a kernel of ours is really compiled, not read from the cache."""

    said = False

    def on_start(self, event: Any) -> None:
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if not self.said and module.startswith(__name__):
            self.said = True
            print("apmax: compiling its kernels, once for this machine …", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say: the call that waited goes on."""


event.register("numba:compile", _SayThatItCompiles())
