"""Workers that are killed do not change the result."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from apmax.errors import PartitionError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from apmax.dask import DaskAPClassifier  # noqa: E402

ROWS, PARTS = 4000, 8


def rows_of(part: int) -> np.ndarray:
    return np.random.default_rng(part).normal(size=(ROWS // PARTS, 4))


def data() -> tuple[Any, Any]:
    """Return partitions that any worker can compute."""
    rows = dask.delayed(rows_of)
    X = da.concatenate([da.from_delayed(rows(i), (ROWS // PARTS, 4), float) for i in range(PARTS)])
    return X, X[:, 0] + X[:, 1] ** 2 > 3


@contextmanager
def processes(workers: int, *, nanny: bool) -> Iterator[Any]:
    """Start a cluster of processes, with or without a nanny that restarts them."""
    settings = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.comm.timeouts.connect": "60s",
        "distributed.comm.retry.count": 2,
        "distributed.deploy.lost-worker-timeout": "1s",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            worker_class="distributed.Nanny" if nanny else "distributed.Worker",
        ) as cluster,
        distributed.Client(cluster, timeout=60) as client,
    ):
        yield client


class Killer:
    """Kills one worker each time a stage is reached."""

    def __init__(self, client: Any, stages: set[tuple[str, int]], most: int) -> None:
        self.client, self.stages, self.left, self.killed = client, stages, most, 0

    def __call__(self, stage: str, done: int, of: int, ap: float) -> None:
        if self.left and (stage, done) in self.stages:
            self.stages.discard((stage, done))
            pids = sorted(self.client.run(os.getpid).values())
            if pids and os.getpid() not in pids:
                os.kill(pids[done % len(pids)], signal.SIGKILL)
                self.killed += 1
                self.left -= 1


STAGES = {
    ("logistic regression", 1),
    ("logistic regression", 3),
    ("average precision", 0),
    ("average precision", 1),
}


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Return the coefficients of an undisturbed fit, by threads."""
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        model = DaskAPClassifier(alpha=0.1, client=client).fit(*data())
    return np.append(model.coef_, model.intercept_)


def test_kills_in_every_stage_leave_the_same_bits(expected: np.ndarray) -> None:
    with processes(2, nanny=True) as client:
        model = DaskAPClassifier(alpha=0.1, client=client)
        model.on_progress = killer = Killer(client, set(STAGES), most=4)
        model.fit(*data())
    assert killer.killed == 4
    np.testing.assert_array_equal(np.append(model.coef_, model.intercept_), expected)


def deadly(part: np.ndarray, block_info: Any = None) -> np.ndarray:
    if block_info and block_info[0]["chunk-location"][0] == 5:
        os._exit(1)
    return part


def test_a_partition_that_kills_its_workers_is_named() -> None:
    X, y = data()
    with processes(1, nanny=True) as client, dask.config.set():
        client.run_on_scheduler(_allow_no_failures)
        model = DaskAPClassifier(client=client)
        with pytest.raises(PartitionError, match="partition 5 ended repeatedly"):
            model.fit(X.map_blocks(deadly, dtype=float), y)
    assert not hasattr(model, "coef_")


def _allow_no_failures(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = 0
