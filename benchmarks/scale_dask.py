"""Fits with Dask: overhead of scheduler and client, and speed-up.

tests/scale/test_killed_workers.py kills workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.timing import Line

PARTITION_ROWS = 533_000
"""128 MB of 30 features in double precision."""
PARTITIONS = 16
WORKERS = (4, *(1, 2) * 5)
"""Sizes of the clusters, one after the other; the speed-up is the median over the pairs."""


def features_of(part: int, rows: int) -> np.ndarray:
    from benchmarks.scale import rare

    return rare(rows, part, np.float64)[0]


def labels_of(part: int, rows: int) -> np.ndarray:
    from benchmarks.scale import rare

    return rare(rows, part, np.float64)[1]


def collections(rows: int, parts: int) -> tuple[Any, Any]:
    """Arrays whose partitions the workers generate, so that they can do so again."""
    import dask
    import dask.array as da

    X, y = (
        [
            da.from_delayed(dask.delayed(function)(part, rows), (rows, *shape), dtype)
            for part in range(parts)
        ]
        for function, shape, dtype in ((features_of, (30,), float), (labels_of, (), bool))
    )
    return da.concatenate(X), da.concatenate(y)


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit="8GB",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


def _cpu_of_workers(client: Any) -> float:
    return float(sum(client.run(time.process_time).values()))


def _idle_cpu(seconds: float = 3.0) -> float:
    """Return the CPU time per second of a scheduler and a client that have nothing to do."""
    cpu = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu) / seconds


def dask_lines() -> Iterator[Line]:
    from apmax.dask import DaskAPClassifier

    seconds: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    models, of_client, without_idle = [], [], []
    for workers in WORKERS:
        with cluster(workers) as client:
            DaskAPClassifier(max_iter=1, tol=1.0, client=client).fit(*collections(5000, 2))
            X, y = (client.persist(one) for one in collections(PARTITION_ROWS, PARTITIONS))
            (X.sum() + y.sum()).compute()
            idle = _idle_cpu()
            cpu, of_workers, start = time.process_time(), _cpu_of_workers(client), time.time()
            model = DaskAPClassifier(client=client).fit(X, y)
            took = time.time() - start
            seconds[workers].append(took)
            cpu, of_workers = time.process_time() - cpu, _cpu_of_workers(client) - of_workers
            models.append(np.append(model.coef_, model.intercept_))
            print(f"({workers} workers: {took:.1f} s, {model.n_iter_} iterations)", flush=True)
            if workers == 2:
                of_client.append(100 * cpu / of_workers)
                without_idle.append(100 * (cpu - idle * took) / of_workers)
    name = "CPU of scheduler and client / CPU of workers, %"
    yield Line(name, float(np.median(of_client)), 10)
    yield Line(f"{name}, without idle time", float(np.median(without_idle)), 10)
    same = all(np.array_equal(models[0], other) for other in models)
    yield Line("bits equal for 1, 2 and 4 workers", float(same), 1, at_least=True)
    speed_up = float(np.median(np.divide(seconds[1], seconds[2])))
    yield Line("1 → 2 workers, speed-up on two cores", speed_up, 1.6, at_least=True)
