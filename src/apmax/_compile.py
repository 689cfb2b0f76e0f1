"""Compile kernels with Numba, cache them on disk, and run them over threads.

Importing this module imports Numba, which takes half a second, so modules with kernels are
imported on first use.
"""

from __future__ import annotations

import logging
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

logger = logging.getLogger("apmax")


def kernel(function: Function) -> Function:
    """Compile at the first call and cache the machine code on disk.

    If the cache cannot be written, every process compiles for itself.
    """
    return _compiled(function)


def inner_kernel(function: Function) -> Function:
    """Compile a kernel that only other kernels call, without a wrapper for Python."""
    return _compiled(function, no_cpython_wrapper=True)


def reordering_kernel(function: Function) -> Function:
    """Compile a kernel whose sums may be reordered, so that they vectorise.

    Only for short sums: the last bit depends on the machine.
    """
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    # Kernels are called from Python and from each other, so C wrappers would only cost time.
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    compiled: Function
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function: no locator available"
        compiled = njit(**options)(function)
    _use_cache_only_if_possible(compiled)
    return compiled


def _use_cache_only_if_possible(compiled: Any) -> None:
    """Compile kernels that cannot be loaded, and run those that cannot be saved."""
    cache: Any = getattr(compiled, "_cache", None)
    if not hasattr(cache, "save_overload"):  # NUMBA_DISABLE_JIT
        return
    load, save = cache.load_overload, cache.save_overload

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception as error:  # a damaged file: any error of unpickling
            logger.warning("a cached kernel is damaged and will be compiled again: %r", error)
            with suppress(OSError):
                cache.flush()
            return None

    def save_overload(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.load_overload, cache.save_overload = load_overload, save_overload


THREADS_FROM = 1 << 22
"""Number of elements from which a second thread pays off."""


def over_threads(
    loop: Callable[..., None], size: int, *arguments: Any, work: int | None = None
) -> None:
    """Run ``loop(begin, end, *arguments)`` over 0 … size, in parts on several threads.

    Iterations must be independent, so that the result does not depend on the number of threads.
    `work` is the number of elements processed, if it is not `size`.
    """
    parts = _threads() if (work or size) >= THREADS_FROM else 1
    _run_parts([(loop, *span, *arguments) for span in _spans(size, parts)])


def table_over_threads(
    loop: Callable[..., None], size: int, shape: tuple[int, ...], *arguments: Any
) -> NDArray[np.float64]:
    """Run ``loop(begin, end, *arguments, table)`` over 0 … size and return the summed tables.

    Long loops always add into two tables, on one thread or two, so that the result does not
    depend on the number of threads.
    """
    parts = 2 if size >= THREADS_FROM else 1
    tables = [np.zeros(shape) for _ in range(parts)]
    spans = _spans(size, parts)
    _run_parts([(loop, *span, *arguments, t) for span, t in zip(spans, tables, strict=True)])
    for table in tables[1:]:
        tables[0] += table
    return tables[0]


def _threads() -> int:
    """Return Numba's thread count, which joblib workers and NUMBA_NUM_THREADS limit."""
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


class _CompileNotice(event.Listener):
    """Log once when a kernel is compiled rather than read from the cache."""

    logged = False

    def on_start(self, event: Any) -> None:
        """Log the first compilation of one of our kernels."""
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if not self.logged and module.startswith("apmax."):
            self.logged = True
            logger.info("compiling kernels (once per machine)")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


event.register("numba:compile", _CompileNotice())
