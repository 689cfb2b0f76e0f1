"""Dask clusters for tests, whose files are in folders of their own, and data for them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from tests.hang import SECONDS

ROWS, PARTS = 4_000, 8


def rows_of(part: int) -> np.ndarray:
    return np.random.default_rng(part).normal(size=(ROWS // PARTS, 4))


def data() -> tuple[Any, Any]:
    """Return partitions that any worker can compute, and labels."""
    rows = dask.delayed(rows_of)
    X = da.concatenate([da.from_delayed(rows(i), (ROWS // PARTS, 4), float) for i in range(PARTS)])
    return X, X[:, 0] + X[:, 1] ** 2 > 3


@contextmanager
def local_cluster(workers: int, **options: Any) -> Iterator[Any]:
    """Start workers of one thread, which connect in time and leave no file."""
    with (
        tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True) as folder,
        # A nanny whose new worker cannot connect in time gives up, and the cluster waits for ever.
        # Less than `worker_timeout`: a new worker may wait as long for one that was killed.
        dask.config.set({"distributed.comm.timeouts.connect": "120s"}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            local_directory=folder,
            **options,
        ) as cluster,
    ):
        yield cluster


def of_threads(workers: int) -> Any:
    """Start workers that are threads of this process."""
    return local_cluster(workers, processes=False, protocol="tcp://")


def client_of(cluster: Any) -> Any:
    """Return a client that waits long enough."""
    return distributed.Client(cluster, timeout=SECONDS)
