"""One BLAS thread during fits with small products.

A matrix-vector product of a few megabytes gains nothing from a second thread, and waiting for
threads makes fits several times slower when other programs use the cores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

SMALL = 1 << 23
"""Number of entries of X up to which one thread is used."""


class _Limit:
    lock = threading.Lock()
    fits = 0
    limiter: threadpool_limits | None = None


@contextmanager
def one_blas_thread(entries: int = 0) -> Iterator[None]:
    """Limit BLAS to one thread inside the block if X has few entries.

    The limit is global: the first of several concurrent fits sets it, the last one restores it.
    """
    if entries > SMALL:
        yield
        return
    with _Limit.lock:
        _Limit.fits += 1
        if _Limit.fits == 1:
            _Limit.limiter = threadpool_limits(1, user_api="blas")
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.fits -= 1
            if _Limit.fits == 0 and _Limit.limiter is not None:
                _Limit.limiter.restore_original_limits()
