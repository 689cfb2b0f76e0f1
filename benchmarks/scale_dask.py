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

    seconds, models = {}, {}
    for workers in (1, 2, 4):
        with cluster(workers) as client:
            DaskAPClassifier(max_iter=1, tol=1.0, client=client).fit(*collections(5000, 2))
            X, y = (client.persist(one) for one in collections(PARTITION_ROWS, PARTITIONS))
            (X.sum() + y.sum()).compute()
            idle = _idle_cpu()
            cpu, of_workers, start = time.process_time(), _cpu_of_workers(client), time.time()
            model = DaskAPClassifier(client=client).fit(X, y)
            seconds[workers] = time.time() - start
            cpu, of_workers = time.process_time() - cpu, _cpu_of_workers(client) - of_workers
            models[workers] = np.append(model.coef_, model.intercept_)
            print(f"({workers} workers: {seconds[workers]:.1f} s, {model.n_iter_} iterations)")
            if workers == 2:
                name = "CPU of scheduler and client / CPU of workers, %"
                yield Line(name, 100 * cpu / of_workers, 10)
                busy = cpu - idle * seconds[workers]
                yield Line(f"{name}, without idle time", 100 * busy / of_workers, 10)
    same = all(np.array_equal(models[1], other) for other in models.values())
    yield Line("bits equal for 1, 2 and 4 workers", float(same), 1, at_least=True)
    yield Line("1 → 2 workers, speed-up on two cores", seconds[1] / seconds[2], 1.6, at_least=True)
